"""One request and its answer, however many attempts that takes."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from octo import clock, errors
from octo.steps import Call, Pause, Request, Response

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


class Answer(NamedTuple):
    """`repeated` means that an earlier attempt may have been carried out already."""

    body: Any
    sent_at: float
    repeated: bool


def jittered(seconds: float) -> float:
    """Half of it at least. Without `random`, whose import takes longer than most requests."""
    return seconds * (0.5 + int.from_bytes(os.urandom(2), "big") / 2**17)


def backoff(attempt: int) -> float:
    """Grows, and differs between those who failed together."""
    return jittered(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10)))


def exchange(request: Request, *, retry_for: float) -> Call[Answer]:
    """Sends again after network errors, 5xx and 429, with growing pauses, for `retry_for` seconds."""
    give_up_at = clock.now() + retry_for
    attempt = 0
    repeated = False
    while True:
        failure: errors.OctoError
        try:
            response: Response = yield request
        except errors.Unreachable as problem:
            failure, wait = problem, 0.0
            may_repeat = request.repeatable or not problem.may_have_arrived
            repeated = repeated or problem.may_have_arrived
        else:
            repeated = repeated or response.repeated
            refusal = refused(response)
            if refusal is None:
                return Answer(response.json(), response.sent_at, repeated)
            failure, wait = refusal, refusal.retry_after or 0.0
            may_repeat = refusal.status == 429 or (refusal.status >= 500 and request.repeatable)
            repeated = repeated or refusal.status >= 500
        pause = wait + backoff(attempt)
        if not may_repeat or clock.now() + pause > give_up_at:
            if isinstance(failure, errors.ApiError):
                failure.repeated = repeated
            raise failure
        yield Pause(pause)
        attempt += 1


def refused(response: Response) -> errors.ApiError | None:
    if response.status < 300:
        return None
    body = response.json()
    if response.status == 409 and isinstance(body, dict) and body.get("status") == "delayed":
        return None
    header = response.headers.get("retry-after", "")
    retry_after = float(header) if header.isdigit() else None
    return errors.from_answer(status=response.status, body=body, retry_after=retry_after)
