"""How a call is written without saying how it waits.

A call is a generator: it yields what it needs (a request answered, a pause) and is sent the outcome. The blocking
and the asynchronous client drive the same calls, so each verb is defined once.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union

ANSWER_SECONDS = 10.0


class Request(NamedTuple):
    """`timeout` is how long the server may take, `repeatable` whether sending it twice does no harm."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}
    timeout: float = ANSWER_SECONDS
    repeatable: bool = True


class Response(NamedTuple):
    """`sent_at` is when sending began, on `octo.clock`: nothing that the server did can have been before it.
    `repeated` means that it was sent once before, over a kept connection that broke."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    sent_at: float
    repeated: bool = False

    def json(self) -> Any:
        try:
            return json.loads(self.content) if self.content else None
        except ValueError:
            return None


class Pause(NamedTuple):
    seconds: float


Result = TypeVar("Result")
Step: TypeAlias = Union[Request, Pause]  # noqa: UP007
Call: TypeAlias = Generator[Step, Any, Result]
