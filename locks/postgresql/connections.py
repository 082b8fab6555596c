"""psycopg connections with a client-side deadline for every call.

A frozen server (a stopped process, a stalled disk) keeps its connections open, and its kernel acknowledges what is
sent: neither a timeout on the server nor tcp_user_timeout ends the wait. So each call ends here after a time. Then its
connection is closed, and idle connections to the same server are not used again: they would fail one after the other.
"""

import select
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import tuple_row

from locks.compute_turn import compute_turn

# A confirmed write proves for so long that the server is the primary. No cluster manager promotes another one sooner.
CONFIRMATION_SECONDS = 1.0
# How often psycopg looks for interrupts; its own default.
_WAIT_INTERVAL = 0.1
_CONFIRM_PRIMARY = (Path(__file__).parent / "confirm_primary.sql").read_text()

RV = TypeVar("RV")


class DeadlinePassed(psycopg.OperationalError):
    """The server did not answer in time. Whether the statement took effect is not known."""


class NotPrimary(psycopg.OperationalError):
    """The server is a standby."""


class _Server:
    """What is known about one address, by all connections of this process."""

    def __init__(self) -> None:
        # How many calls had no answer in time.
        self.stalls = 0
        self.is_unreachable = False
        self.attempt = threading.Lock()


_servers: defaultdict[tuple[str, str], _Server] = defaultdict(_Server)
_default_seconds: float | None = None


def limit_calls(seconds: float) -> None:
    """For all connections of this process. Without it calls have no deadline, as management commands need."""
    global _default_seconds  # noqa: PLW0603 -- a setting of the process
    _default_seconds = seconds


class _Deadline:
    """What both kinds of connections share. `deadline_seconds` replaces the limit of the process."""

    pgconn: PGconn
    deadline_seconds: float | None = None
    # How long a statement of the engine may wait for a locked row; without it, as long as the settings allow.
    lock_timeout: str | None = None
    # When the last write was sent that the server has confirmed.
    confirmed_at = float("-inf")

    def __init__(self, pgconn: PGconn, *args: Any, **kwargs: Any) -> None:
        super().__init__(pgconn, *args, **kwargs)  # type: ignore[call-arg]  # psycopg's connection
        self._server = _servers[pgconn.host.decode(), pgconn.port.decode()]
        self._stalls_before = self._server.stalls

    @property
    def has_stalled(self) -> bool:
        """A call to the same server had no answer since this connection was opened."""
        return self._server.stalls != self._stalls_before

    @property
    def is_confirmed(self) -> bool:
        return time.monotonic() - self.confirmed_at < CONFIRMATION_SECONDS

    def _limit(self) -> float | None:
        return _default_seconds if self.deadline_seconds is None else self.deadline_seconds

    def _give_up(self) -> DeadlinePassed:
        self._server.stalls += 1
        seconds = self._limit()
        self.pgconn.finish()
        return DeadlinePassed(f"the database did not answer within {seconds:g} s")


class Connection(_Deadline, psycopg.Connection[Any]):
    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        """While a server is unreachable, one thread at a time tries to connect. The others fail at once, so that they
        are free for requests that need no database."""
        server = _servers[str(kwargs.get("host") or ""), str(kwargs.get("port") or "")]
        if server.is_unreachable:
            if not server.attempt.acquire(blocking=False):
                raise psycopg.OperationalError("the database could not be reached a moment ago")
            try:
                return cls._connect(server, conninfo, kwargs)
            finally:
                server.attempt.release()
        return cls._connect(server, conninfo, kwargs)

    @classmethod
    def _connect(cls, server: _Server, conninfo: str, kwargs: dict[str, Any]) -> Self:
        try:
            connection = super().connect(conninfo, **kwargs)
        except psycopg.OperationalError:
            server.is_unreachable = True
            raise
        server.is_unreachable = False
        return connection

    def wait(self, gen: PQGen[RV], interval: float = _WAIT_INTERVAL, timeout: float | None = None) -> RV:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return compute_turn.wait(partial(super().wait, gen, interval, self._limit()))
        except errors._WaitTimeout:
            raise self._give_up() from None

    def confirm_primary(self) -> None:
        """In autocommit mode. Raises NotPrimary and psycopg's errors; then the connection is closed: answers that
        it gave before are in doubt."""
        sent_at = time.monotonic()
        try:
            cursor = psycopg.RawCursor(self, row_factory=tuple_row).execute(_CONFIRM_PRIMARY, prepare=False)
            _check(cursor.fetchone())
        except BaseException:
            self.close()
            raise
        self.confirmed_at = sent_at


class AsyncConnection(_Deadline, psycopg.AsyncConnection[Any]):
    async def wait(
        self,
        gen: PQGen[RV],
        interval: float = _WAIT_INTERVAL,
        timeout: float | None = None,  # noqa: ASYNC109 -- psycopg's signature
    ) -> RV:
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            return await super().wait(gen, interval, self._limit())
        except errors._WaitTimeout:
            raise self._give_up() from None

    async def confirm_primary(self) -> None:
        """As `Connection.confirm_primary`."""
        sent_at = time.monotonic()
        try:
            cursor = await psycopg.AsyncRawCursor(self, row_factory=tuple_row).execute(_CONFIRM_PRIMARY, prepare=False)
            _check(await cursor.fetchone())
        except BaseException:
            await self.close()
            raise
        self.confirmed_at = sent_at


AnyConnection: TypeAlias = Connection | AsyncConnection


def _check(row: tuple[Any, ...] | None) -> None:
    if row != (True,):
        raise NotPrimary("the database server is a standby")


def is_stale(connection: AnyConnection) -> bool:
    """An idle connection that must not be used again: the server has closed it (then there is something to read), or
    did not answer on another one. The check costs no round trip, and keeps the first request after a restart of the
    database from failing."""
    if connection.closed or connection.has_stalled:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
