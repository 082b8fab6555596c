"""The proxies of an installation, in a process of their own, so that nothing else delays what they pass on."""

from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from tests.fault_proxy import FaultProxy, PostgresProxy


class _DatabaseProxy(PostgresProxy):
    def __init__(self, directory: Path, socket_dir: Path) -> None:
        super().__init__(directory, params={"host": str(socket_dir)})

    def point_to(self, socket_dir: Path) -> None:
        self._upstream_address = socket_dir / ".s.PGSQL.5432"


class _HttpProxy(FaultProxy):
    def get_port(self) -> int:
        return self.port

    def lose_some(self, seed: float) -> None:
        """Requests and answers."""
        self.random.seed(seed)
        self.faults, self.probability = ("lost", "cut_off", "reset", "hung_up"), 0.4


class _Manager(BaseManager):
    pass


_Manager.register("postgres", _DatabaseProxy)
_Manager.register("http", _HttpProxy)


class Proxies:
    def __init__(self) -> None:
        self._manager: Any = _Manager(ctx=get_context("spawn"))
        self._is_running = False

    def start(self) -> None:
        self._manager.start()
        self._is_running = True

    def postgres(self, directory: Path, socket_dir: Path) -> Any:
        """Listens in `directory`, and passes on to the server that listens in `socket_dir`."""
        return self._manager.postgres(directory, socket_dir)

    def http(self, port: int) -> Any:
        return self._manager.http(port)

    def shutdown(self) -> None:
        """Ends all connections."""
        if self._is_running:
            self._manager.shutdown()
