"""How clients of the torture suite reach the servers, and where they write what they record."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

import msgspec

from tests.octoadmin.http_client import Reply
from tests.torture.connection import Connection

# A server that refused or broke a connection is left alone for so long, as a balancer does.
AVOID_SECONDS = 0.3
MAX_UNWRITTEN = 1000


class Recorder:
    """Writes what is recorded from time to time, so that a long run needs no memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._done: list[msgspec.Struct] = []

    def add(self, ops: Sequence[msgspec.Struct]) -> None:
        self._done += ops
        if len(self._done) >= MAX_UNWRITTEN:
            self.write()

    def write(self) -> None:
        self._file.write(self._encoder.encode_lines(self._done))
        self._done.clear()


class Until(Protocol):
    """When the run ends, as a time; shared by all processes, which may be told to go on."""

    value: float


class Servers:
    """The ports at which the installation is reached, the number of the server of each, and which to leave alone."""

    def __init__(self, ports: list[int], numbers: Mapping[int, int]) -> None:
        self.ports = ports
        self.numbers = numbers
        self._avoided_until = dict.fromkeys(ports, 0.0)

    def choose(self, chance: random.Random) -> int:
        now = time.time()
        return chance.choice([port for port in self.ports if self._avoided_until[port] < now] or self.ports)

    def avoid(self, port: int) -> None:
        self._avoided_until[port] = time.time() + AVOID_SECONDS


class Caller:
    """Sends requests, each to any of the servers."""

    def __init__(self, servers: Servers, token: str, chance: random.Random, *, until: Until) -> None:
        self._servers = servers
        self._random = chance
        self._until = until
        self.port = servers.ports[0]
        self._connections = {port: Connection(port, token) for port in set(servers.ports)}

    @property
    def is_over(self) -> bool:
        return time.time() >= self._until.value

    async def request(
        self, method: str, path: str, body: Any = None, key: str | None = None, *, hang_up_after: float | None = None
    ) -> tuple[float, Reply | None]:
        """When it was sent, and its answer; none if it was lost. A connection that is refused is no request. After
        `hang_up_after` seconds without an answer the connection is closed. `port` is the one that it was sent to."""
        headers = [(b"idempotency-key", key.encode())] if key else None
        while True:
            port = self.port = self._servers.choose(self._random)
            sent = time.time()
            try:
                call = self._connections[port].call(method, path, body, headers)
                return sent, await (call if hang_up_after is None else asyncio.wait_for(call, hang_up_after))
            except ConnectionRefusedError:
                self._servers.avoid(port)
                await asyncio.sleep(0.05)
                if self.is_over:
                    return sent, None
            except OSError:
                if hang_up_after is None:
                    self._servers.avoid(port)
                return sent, None

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.aclose()
