"""What a blocking client consists of: a transport, the thread that keeps leases, and what a fork does to both."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, TypeVar

from octo import settings
from octo.http_blocking import BlockingTransport, perform
from octo.keeper import Keeper
from octo.steps import Call
from octo.tenure import Tenure

if TYPE_CHECKING:
    from typing_extensions import Self

RETRY_SECONDS = 30.0

Result = TypeVar("Result")


class Connection:
    """After a fork the child has connections and a thread of its own, and holds nothing: leases stay the parent's."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        allow_http: bool | None = None,
        retry_for: float = RETRY_SECONDS,
        program: str | None = None,
    ) -> None:
        self.settings = settings.resolve(url=url, token=token, token_file=token_file, allow_http=allow_http)
        self.retry_for = retry_for
        self.transport = BlockingTransport(url=self.settings.url, token=self.settings.token, program=program)
        self._keeper = Keeper(self.transport.send)
        _connections.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """What is still held is not renewed any more, and runs out."""
        self._keeper.stop()
        self.transport.close()

    def perform(self, call: Call[Result]) -> Result:
        return perform(call, self.transport.send)

    def keep(self, tenure: Tenure) -> None:
        self._keeper.add(tenure)

    def stop_keeping(self, tenure: Tenure) -> None:
        self._keeper.discard(tenure)

    def _after_fork(self) -> None:
        self.transport.forget_connections()
        self._keeper = Keeper(self.transport.send)


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_connections):
        connection._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
