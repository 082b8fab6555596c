"""The protocol without I/O.

An operation is a generator: it yields what it needs (a request answered, a sleep) and is sent the outcome. The blocking
and the asynchronous client execute the same operations, and unit tests execute them without a network or a clock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, Union
from urllib.parse import quote, urlencode

from octo import clock, errors

ANSWER_SECONDS = 10.0
MIN_PAUSE = 0.2
MAX_PAUSE = 5.0


class Request(NamedTuple):
    """`timeout` is for everything from connecting to the last byte. `idempotent`: sending it twice does no harm."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}
    timeout: float = ANSWER_SECONDS
    idempotent: bool = True


class Response(NamedTuple):
    """`sent_at` is when sending began, on `octo.clock`: nothing that the server did can have been before it."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    sent_at: float

    def json(self) -> Any:
        if self.status == 204:
            return None
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise errors.TransportError(
                f"HTTP {self.status} without JSON: a proxy answered, or OCTO_URL names another server."
            ) from None


class Sleep(NamedTuple):
    seconds: float


Result = TypeVar("Result")
Effect: TypeAlias = Union[Request, Sleep]  # noqa: UP007
Operation: TypeAlias = Generator[Effect, Any, Result]


class Reply(Generic[Result]):
    """`repeated`: an earlier attempt may have been carried out already."""

    def __init__(self, value: Result, *, sent_at: float, repeated: bool) -> None:
        self.value = value
        self.sent_at = sent_at
        self.repeated = repeated


def lock_path(name: str, verb: str = "") -> str:
    """A slash in a name is sent as %2F, so that a name is one segment for every proxy on the way."""
    # A name of dots would be taken for a relative path.
    encoded = quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
    return f"/locks/{encoded}/{verb}" if verb else f"/locks/{encoded}"


def election_path(room: str, verb: str = "") -> str:
    return f"/elections/{quote(room, safe='')}" + (f"/{verb}" if verb else "")


def with_query(path: str, parameters: Mapping[str, object]) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311


def backoff(attempt: int) -> float:
    """Grows, and differs between clients that failed together."""
    return jittered(min(MAX_PAUSE, MIN_PAUSE * 2.0 ** min(attempt, 10)))


def check_response(response: Response) -> errors.ApiError | None:
    """The API's refusal, or None for an answer. Anything else, whatever its status, is a TransportError."""
    if response.status in (200, 201, 204):
        return None
    body = response.json()
    if response.status == 409 and isinstance(body, dict) and body.get("status") == "delayed":
        return None
    header = response.headers.get("retry-after", "")
    retry_after = float(header) if header.isdigit() else None
    refusal = errors.from_body(status=response.status, body=body, retry_after=retry_after)
    if refusal is None or response.status < 400:
        raise errors.TransportError(f"HTTP {response.status} without an error of the lock API: a proxy answered.")
    return refusal


def send_with_retry(request: Request, parse: Callable[[Any], Result], *, retry_for: float) -> Operation[Reply[Result]]:
    """Sends again after transport errors, 5xx and 429, with growing pauses, for `retry_for` seconds."""
    give_up_at = clock.now() + retry_for
    attempt = 0
    repeated = False
    while True:
        failure: errors.OctoError
        try:
            response: Response = yield request
            refusal = check_response(response)
            if refusal is None:
                return Reply(parse(response.json()), sent_at=response.sent_at, repeated=repeated)
        except errors.TransportError as problem:
            failure, wait = problem, 0.0
            may_repeat = request.idempotent or not problem.maybe_sent
            repeated = repeated or problem.maybe_sent
        else:
            failure, wait = refusal, refusal.retry_after or 0.0
            may_repeat = refusal.status == 429 or (refusal.status >= 500 and request.idempotent)
            repeated = refusal.repeated = repeated or refusal.status >= 500
        pause = wait + backoff(attempt)
        if not may_repeat or clock.now() + pause > give_up_at:
            raise failure
        yield Sleep(pause)
        attempt += 1
