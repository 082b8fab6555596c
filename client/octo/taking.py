"""Taking locks: one, the next free one, several together; at once or by waiting."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from octo import answers, clock, errors, paths
from octo.exchange import Answer, exchange, jittered
from octo.grants import Grant, seconds_left
from octo.steps import ANSWER_SECONDS, Call, Pause, Request
from octo.terms import Terms

LONGEST_SERVER_WAIT = 60
SHORTEST_POLL = 0.1

Waiting: TypeAlias = Callable[[answers.Held], object]
Granted_co = TypeVar("Granted_co", bound=Grant, covariant=True)


class Make(Protocol[Granted_co]):
    """Makes the client's own lease of what the server granted."""

    def __call__(self, told: dict[str, Any], *, terms: Terms, sent_at: float, name: str | None) -> Granted_co: ...


def acquire(
    name: str,
    terms: Terms,
    *,
    make: Make[Granted_co],
    wait: float | None = None,
    key: str | None = None,
    on_wait: Waiting | None = None,
    retry_for: float,
) -> Call[Granted_co]:
    """Asks until the lock is ours or the wait is over. A server that does not wait with us is asked again."""

    def ask(server_wait: int, key: str) -> Call[tuple[dict[str, Any], Answer]]:
        body = terms.body()
        if server_wait:
            body["wait_seconds"] = server_wait
        request = Request(
            "POST",
            paths.lock(name, "acquire"),
            body,
            headers={"Idempotency-Key": key},
            timeout=ANSWER_SECONDS + server_wait,
        )
        answer = yield from exchange(request, retry_for=retry_for)
        return answer.body, answer

    return _take(
        name, ask, terms=terms, make=make, wait=wait, key=key, on_wait=on_wait, retry_for=retry_for, server_waits=True
    )


def claim_next(
    names: Sequence[str],
    terms: Terms,
    *,
    make: Make[Granted_co],
    wait: float | None = None,
    key: str | None = None,
    on_wait: Waiting | None = None,
    retry_for: float,
) -> Call[Granted_co]:
    """The first of the names that is free."""

    def ask(_server_wait: int, key: str) -> Call[tuple[dict[str, Any], Answer]]:
        body = {"names": list(names), **terms.body()}
        request = Request("POST", "/locks/claim-next", body, headers={"Idempotency-Key": key})
        answer = yield from exchange(request, retry_for=retry_for)
        return answer.body, answer

    label = names[0] if len(names) == 1 else f"any of {len(names)} names"
    return _take(
        label, ask, terms=terms, make=make, wait=wait, key=key, on_wait=on_wait, retry_for=retry_for, server_waits=False
    )


def _take(
    name: str,
    ask: Callable[[int, str], Call[tuple[dict[str, Any], Answer]]],
    *,
    terms: Terms,
    make: Make[Granted_co],
    wait: float | None,
    key: str | None,
    on_wait: Waiting | None,
    retry_for: float,
    server_waits: bool,
) -> Call[Granted_co]:
    give_up_at = clock.now() + (wait or 0)
    # The first question is answered at once, so that whoever waits knows for whom.
    server_wait = 0
    while True:
        asked_at = clock.now()
        told, answer = yield from ask(server_wait, key or new_key())
        if told.get("status") == "acquired":
            grant = make(told, terms=terms, sent_at=answer.sent_at, name=name)
            if (yield from _is_fresh(grant, told, retry_for=retry_for)):
                return grant
            continue
        problem = _held(name, told)
        left = give_up_at - clock.now()
        if left <= 0:
            raise errors.WaitedTooLong(str(problem), name=name, held=problem.held) if wait else problem
        if on_wait is not None:
            on_wait(problem.held or answers.Held(name=name))
        waited_for_us = clock.now() - asked_at >= server_wait * 0.9
        if not server_waits or not waited_for_us:
            yield Pause(min(left, _poll_after(told)))
        if server_waits:
            server_wait = max(1, math.ceil(min(LONGEST_SERVER_WAIT, give_up_at - clock.now())))


def _poll_after(told: dict[str, Any]) -> float:
    seconds = float(told.get("retry_after_ms") or 1000) / 1000
    # Those who wait for the same lock should not all come at once.
    return max(SHORTEST_POLL, jittered(seconds))


def new_key() -> str:
    """For the Idempotency-Key of one request and its repetitions."""
    return os.urandom(16).hex()


def _is_fresh(grant: Grant, told: dict[str, Any], *, retry_for: float) -> Call[bool]:
    """An answer that took long to come leaves little of a deadline that is counted from when we asked, so we ask for
    a new one. False if the lease was lost on the way."""
    left = seconds_left(told, ttl=grant.ttl)
    if clock.now() < grant.deadline - left * 3 / 4:
        return True
    answer: Answer
    try:
        answer = yield from exchange(grant.renewal(timeout=ANSWER_SECONDS), retry_for=min(retry_for, left))
    except errors.LeaseNotCurrent:
        return False
    grant.start_anew(answer.body, sent_at=answer.sent_at)
    return True


def _held(name: str, told: dict[str, Any]) -> errors.LockHeld:
    if told.get("status") == "delayed":
        delayed = answers.read(answers.Delayed, told, name=name)
        return errors.LockDelayed(f"{name} stays closed for a while after its last holder.", name=name, delayed=delayed)
    held = answers.read(answers.Held, told, name=told.get("name") or name)
    blocked = tuple(answers.read(answers.Held, blocker) for blocker in told.get("blocked_by") or ())
    owner = f" by {held.owner}" if held.owner else ""
    if blocked:
        owner = "".join(f", {one.name} by {one.owner}" for one in blocked if one.owner)
    return errors.LockHeld(f"{held.name} is held{owner}.", name=held.name, held=held, blocked_by=blocked)


def acquire_all(
    names: Sequence[str],
    terms: Terms,
    *,
    make: Make[Granted_co],
    wait: float | None = None,
    key: str | None = None,
    retry_for: float,
) -> Call[list[Granted_co]]:
    """All or none."""
    give_up_at = clock.now() + (wait or 0)
    label = ", ".join(names)
    server_wait = 0
    while True:
        asked_at = clock.now()
        body = {"names": list(names), **terms.body()}
        if server_wait:
            body["wait_seconds"] = server_wait
        request = Request(
            "POST",
            "/locks/acquire-all",
            body,
            headers={"Idempotency-Key": key or new_key()},
            timeout=ANSWER_SECONDS + server_wait,
        )
        answer: Answer = yield from exchange(request, retry_for=retry_for)
        told = answer.body
        if told.get("status") == "acquired":
            leases = [make(lease, terms=terms, sent_at=answer.sent_at, name=None) for lease in told["leases"]]
            for lease, one in zip(leases, told["leases"], strict=True):
                # One that is not is found to be over by whoever enters its block.
                yield from _is_fresh(lease, one, retry_for=retry_for)
            return leases
        problem = _held(label, told)
        left = give_up_at - clock.now()
        if left <= 0:
            raise (
                errors.WaitedTooLong(str(problem), name=label, held=problem.held, blocked_by=problem.blocked_by)
                if wait
                else problem
            )
        if clock.now() - asked_at < server_wait * 0.9:
            yield Pause(min(left, _poll_after(told)))
        server_wait = max(1, math.ceil(min(LONGEST_SERVER_WAIT, give_up_at - clock.now())))
