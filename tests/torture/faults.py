"""What goes wrong, by seed. Each fault breaks something, waits, and mends it; the supervisor starts again what died."""

import contextlib
import http.client
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tests.servers import Api, RunningServer
from tests.torture.history import Fault
from tests.torture.installation import Installation

RECOVERY_SECONDS = 60.0


class Faults:
    def __init__(self, installation: Installation, seed: int) -> None:
        self._installation = installation
        self._random = random.Random(seed)
        self.happened: list[Fault] = []
        self._kinds: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
            "kill server": self._kill_server,
            "kill worker": self._kill_worker,
            "kill backend": self._kill_backend,
            "kill postmaster": self._kill_postmaster,
            "stop server": self._stop_server,
            "stop postgres": self._stop_postgres,
            "lose requests and answers": self._lose_answers,
            "cut database connections": self._cut_connections,
            "partition from the database": self._partition,
        }
        if installation.disk is not None:
            self._kinds["full disk"] = self._fill_disk

    @property
    def kinds(self) -> list[str]:
        return list(self._kinds)

    def happen(self, kind: str | None = None) -> Fault:
        kind = kind or self._random.choice(self.kinds)
        began = time.time()
        with contextlib.suppress(OSError), self._kinds[kind]():
            time.sleep(self._random.uniform(0.3, 4.0))
        fault = Fault(kind=kind, began=began, ended=time.time())
        fault.recovered = self._recovered()
        self.happened.append(fault)
        return fault

    def _recovered(self) -> float | None:
        """When every server has answered a request that needs the database."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        for server in self._installation.servers:
            while not _answers(server):
                if time.monotonic() > deadline:
                    return None
                time.sleep(0.05)
        return time.time()

    @contextmanager
    def _kill_server(self) -> Iterator[None]:
        process = self._random.choice(self._installation.servers).process
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)
        yield

    @contextmanager
    def _kill_worker(self) -> Iterator[None]:
        assert self._installation.worker is not None
        os.killpg(self._installation.worker.pid, signal.SIGKILL)
        yield

    @contextmanager
    def _kill_backend(self) -> Iterator[None]:
        """PostgreSQL ends all other backends and recovers."""
        os.kill(self._random.choice(self._installation.backends()), signal.SIGKILL)
        yield

    @contextmanager
    def _kill_postmaster(self) -> Iterator[None]:
        assert self._installation.postgres is not None
        os.kill(self._installation.postgres.pid, signal.SIGKILL)
        yield

    @contextmanager
    def _stop_server(self) -> Iterator[None]:
        process = self._random.choice(self._installation.servers).process
        assert process is not None
        with _stopped([-process.pid]):
            yield

    @contextmanager
    def _stop_postgres(self) -> Iterator[None]:
        with _stopped(self._installation.postgres_processes()):
            yield

    @contextmanager
    def _lose_answers(self) -> Iterator[None]:
        for proxy in self._installation.http_proxies:
            proxy.random.seed(self._random.random())
            proxy.faults, proxy.probability = ("lost", "cut_off", "reset"), 0.4
        yield
        for proxy in self._installation.http_proxies:
            proxy.recover()

    @contextmanager
    def _cut_connections(self) -> Iterator[None]:
        self._random.choice(self._installation.database_proxies).cut()
        yield

    @contextmanager
    def _partition(self) -> Iterator[None]:
        proxy = self._random.choice(self._installation.database_proxies)
        proxy.freeze()
        try:
            yield
        finally:
            proxy.cut()
            proxy.thaw()

    @contextmanager
    def _fill_disk(self) -> Iterator[None]:
        self._installation.fill_disk()
        try:
            yield
        finally:
            self._installation.empty_disk()


@contextmanager
def _stopped(processes: Iterable[int]) -> Iterator[None]:
    """A negative number is a process group. Processes may end meanwhile."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def _answers(server: RunningServer) -> bool:
    with contextlib.closing(Api(server.port)) as api:
        try:
            return api.call("GET", "/health").status == 200
        except (OSError, http.client.HTTPException):
            return False
