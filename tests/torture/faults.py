"""What goes wrong, by seed. Each fault breaks something, waits, and mends it; the supervisor starts again what died."""

import contextlib
import http.client
import math
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import psycopg

from tests.servers import Api, RunningServer
from tests.torture.history import ClockStep, Fault
from tests.torture.installation import Installation

RECOVERY_SECONDS = 60.0
# How long a fault lasts; one in four is longer than every deadline of the servers.
MIN_SECONDS, MAX_SECONDS, LONG_SECONDS = 0.3, 3.0, 7.0
LONG_SHARE = 0.25


class Faults:
    def __init__(self, installation: Installation, seed: int, *, max_seconds: float = LONG_SECONDS) -> None:
        self._installation = installation
        self._random = random.Random(seed)
        self._max_seconds = max_seconds
        self.happened: list[Fault] = []
        self.clock_steps: list[ClockStep] = []
        self._kinds: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
            "kill server": self._kill_server,
            "kill worker": self._kill_worker,
            "kill backend": self._kill_backend,
            "kill postmaster": self._kill_postmaster,
            "stop server": self._stop_server,
            "stop postgres": self._stop_postgres,
            "stop the holders": self._stop_holders,
            "lose requests and answers": self._lose_answers,
            "cut database connections": self._cut_connections,
            "partition from the database": self._partition,
            "lose the primary": self._lose_primary,
        }
        # With what each needs.
        self.unavailable: list[str] = []
        self._add("full disk", self._fill_disk, installation.disk, "root, and a file system that can be mounted")
        self._add("set the clock", self._set_clock, installation.clock, "libfaketime")

    def _add(
        self, kind: str, fault: Callable[[], contextlib.AbstractContextManager[object]], means: object, needs: str
    ) -> None:
        if means is not None:
            self._kinds[kind] = fault
        else:
            self.unavailable.append(f"{kind} (needs {needs})")

    @property
    def kinds(self) -> list[str]:
        return list(self._kinds)

    def happen(self, kind: str) -> Fault:
        seconds = LONG_SECONDS if self._random.random() < LONG_SHARE else self._random.uniform(MIN_SECONDS, MAX_SECONDS)
        seconds = min(seconds, self._max_seconds)
        fault = Fault(kind=kind, began=time.time(), ended=math.inf)
        try:
            with self._kinds[kind]():
                if not fault.is_kill:
                    time.sleep(seconds)
        except (OSError, psycopg.Error, subprocess.SubprocessError, psutil.Error, AssertionError) as error:
            fault.error = repr(error)
        fault.ended = time.time()
        fault.recovered = self._recovered(seconds if fault.is_kill else 0)
        self.happened.append(fault)
        return fault

    def _recovered(self, seconds: float) -> float | None:
        """When every server has answered a request that needs the database, and goes on to do so for some time: what
        was killed may answer once more before it is noticed."""
        recovered = began = time.time()
        while time.time() < began + RECOVERY_SECONDS:
            if all(_answers(server) for server in self._installation.servers):
                if time.time() >= began + seconds:
                    return recovered
            else:
                recovered = math.inf
            time.sleep(0.05)
            recovered = min(recovered, time.time())
        return None

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
        postmaster = self._installation.node.process
        assert postmaster is not None
        os.kill(postmaster.pid, signal.SIGKILL)
        yield

    @contextmanager
    def _stop_server(self) -> Iterator[None]:
        process = self._random.choice(self._installation.servers).process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)

    @contextmanager
    def _stop_postgres(self) -> Iterator[None]:
        with self._installation.stopped_database():
            yield

    @contextmanager
    def _stop_holders(self) -> Iterator[None]:
        """One process of clients: some of its leases end meanwhile, and it goes on to use them."""
        pid = self._random.choice(self._installation.client_pids)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def _lose_answers(self) -> Iterator[None]:
        for proxy in self._installation.http_proxies:
            proxy.lose_some(self._random.random())
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
    def _lose_primary(self) -> Iterator[None]:
        """While the standby is made and follows, the servers work."""
        standby = self._installation.add_standby()
        yield
        self._installation.fail_over(standby)

    @contextmanager
    def _set_clock(self) -> Iterator[None]:
        """Forwards or a little backwards, and right again later."""
        self._step(self._random.choice((-2.0, -0.5, 0.5, 5.0, 30.0)))
        try:
            yield
        finally:
            self._step(0.0)

    def _step(self, offset: float) -> None:
        began = time.time()
        self._installation.set_clock(offset)
        self.clock_steps.append(ClockStep(began=began, ended=time.time(), offset=offset))


def _answers(server: RunningServer) -> bool:
    with contextlib.closing(Api(server.port)) as api:
        try:
            return api.call("GET", "/health").status == 200
        except (OSError, http.client.HTTPException):
            return False
