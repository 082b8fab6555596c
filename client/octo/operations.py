"""The requests of the API as operations, each defined once. See `octo.protocol`."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from octo import clock, errors, models
from octo.lease import LeaseBase, remaining_from
from octo.models import AcquireOptions, LeaseOptions, expect, expect_null, invalid, lease_body
from octo.protocol import (
    ANSWER_SECONDS,
    Operation,
    Reply,
    Request,
    Sleep,
    election_path,
    jittered,
    lock_path,
    send_with_retry,
    with_query,
)

MAX_SERVER_WAIT = 60
MIN_POLL = 0.1
CAMPAIGN_INTERVAL_MS = 5_000
# How much longer than its wait an acquire may take, so that a slow answer is not given up on.
WAIT_GRACE = 2.0

Lease_co = TypeVar("Lease_co", bound=LeaseBase, covariant=True)


class LeaseFactory(Protocol[Lease_co]):
    """Makes the client's own kind of lease."""

    def __call__(self, body: dict[str, Any], *, options: LeaseOptions, sent_at: float) -> Lease_co: ...


def acquire(
    name: str, options: AcquireOptions, *, make: LeaseFactory[Lease_co], retry_for: float
) -> Operation[list[Lease_co]]:
    return _acquire(lock_path(name, "acquire"), {}, [name], options, make=make, retry_for=retry_for, server_waits=True)


def acquire_all(
    names: Sequence[str], options: AcquireOptions, *, make: LeaseFactory[Lease_co], retry_for: float
) -> Operation[list[Lease_co]]:
    """All or none."""
    body = {"names": list(names)}
    return _acquire("/locks/acquire-all", body, names, options, make=make, retry_for=retry_for, server_waits=True)


def claim_next(
    names: Sequence[str], options: AcquireOptions, *, make: LeaseFactory[Lease_co], retry_for: float
) -> Operation[list[Lease_co]]:
    """The first of the names that is free and that no other request is changing."""
    body = {"names": list(names)}
    return _acquire("/locks/claim-next", body, names, options, make=make, retry_for=retry_for, server_waits=False)


def campaign(
    room: str, candidate: str, options: AcquireOptions, *, make: LeaseFactory[Lease_co], retry_for: float
) -> Operation[list[Lease_co]]:
    """Until the candidate leads. The answers are read as those of an acquire: a leader has acquired the room."""
    path, body = election_path(room, "campaign"), {"candidate_id": candidate}
    return _acquire(
        path, body, [room], options, make=make, retry_for=retry_for, server_waits=False, parse=_parse_campaign
    )


def _parse_campaign(body: Any) -> dict[str, Any]:
    leader = expect(expect(body, status=str, leader=dict)["leader"], candidate_id=str, term=int, expires_at=str)
    known = {"owner": leader["candidate_id"], "metadata": leader.get("metadata"), "expires_at": leader["expires_at"]}
    if body["status"] == "leader":
        granted = expect(body, leader_token=str, renew_after_ms=int)
        lease = {"lease_id": granted["leader_token"], "fencing_token": leader["term"]}
        return {"status": "acquired", **known, **lease, "renew_after_ms": granted["renew_after_ms"]}
    if body["status"] != "follower":
        raise invalid("leader or follower")
    # A leader may resign before its term is over.
    retry_after = min(expect(body, retry_after_ms=int)["retry_after_ms"], CAMPAIGN_INTERVAL_MS)
    return {"status": "held", **known, "fencing_token": leader["term"], "retry_after_ms": retry_after}


def parse_election(body: Any, **known: Any) -> models.ElectionInfo:
    expect(body, election_id=str, status=str)
    return models.parse(models.ElectionInfo, {**body, **expect(body.get("leader") or {})}, **known)


def _parse_acquire(body: Any) -> dict[str, Any]:
    expect(body, status=str)
    if body["status"] == "acquired":
        for lease in expect(body, leases=list)["leases"] if "leases" in body else [body]:
            expect(lease, lease_id=str, fencing_token=int)
    elif body["status"] not in ("held", "delayed"):
        raise invalid("acquired, held or delayed")
    result: dict[str, Any] = body
    return result


def _acquire(
    path: str,
    body: dict[str, Any],
    names: Sequence[str],
    options: AcquireOptions,
    *,
    make: LeaseFactory[Lease_co],
    retry_for: float,
    server_waits: bool,
    parse: Callable[[Any], dict[str, Any]] = _parse_acquire,
) -> Operation[list[Lease_co]]:
    """Asks until the locks are ours or the wait is over. A server that does not wait is asked again."""
    wait = options.get("wait") or 0.0
    on_wait = options.get("on_wait")
    give_up_at = clock.now() + wait
    label = ", ".join(names) if len(names) <= 3 else f"{len(names)} names"
    # The first request does not wait, so that `on_wait` can say what it waits for.
    server_wait = 0
    while True:
        asked_at = clock.now()
        remaining = max(0.0, give_up_at - asked_at)
        request = Request(
            "POST",
            path,
            {**body, **lease_body(options), **({"wait_seconds": server_wait} if server_wait else {})},
            # One key for a request and its repetitions: the retry of a lost answer finds its lease.
            headers={"Idempotency-Key": options.get("idempotency_key") or os.urandom(16).hex()},
            timeout=min(ANSWER_SECONDS + server_wait, remaining + WAIT_GRACE) if wait else ANSWER_SECONDS,
        )
        limit = min(retry_for, remaining) if wait else retry_for
        reply: Reply[dict[str, Any]] = yield from send_with_retry(request, parse, retry_for=limit)
        if reply.value["status"] == "acquired":
            bodies = reply.value.get("leases", [reply.value])
            leases = [make({"name": names[0], **one}, options=options, sent_at=reply.sent_at) for one in bodies]
            if (yield from _refresh(leases, bodies, retry_for=limit)):
                return leases
            continue
        refused = _held(label, reply.value)
        if give_up_at <= clock.now():
            if not wait:
                raise refused
            raise errors.LockTimeout(str(refused), name=refused.name, held=refused.held, blocked_by=refused.blocked_by)
        if on_wait is not None:
            on_wait(refused.held or models.Holder(name=label))
        now = clock.now()
        if not server_waits or now - asked_at < server_wait * 0.9:
            seconds = max(MIN_POLL, jittered(float(reply.value.get("retry_after_ms") or 1000) / 1000))
            yield Sleep(min(max(0.0, give_up_at - now), seconds))
        if server_waits:
            server_wait = max(1, math.ceil(min(MAX_SERVER_WAIT, give_up_at - clock.now())))


def _refresh(leases: Sequence[LeaseBase], bodies: Sequence[dict[str, Any]], *, retry_for: float) -> Operation[bool]:
    """An answer that took long to come leaves little of a deadline that is counted from the request, so the lease is
    renewed before it is used. False if it was lost on the way."""
    for lease, body in zip(leases, bodies, strict=True):
        granted = remaining_from(body, ttl=lease.ttl)
        if clock.now() < lease.deadline - granted * 3 / 4:
            continue
        request = lease.renewal(timeout=ANSWER_SECONDS)
        try:
            reply: Reply[Any] = yield from send_with_retry(request, checked(lease), retry_for=min(retry_for, granted))
        except errors.LeaseNotCurrent:
            return False
        lease.reset_deadline(reply.value, sent_at=reply.sent_at)
    return True


def checked(lease: LeaseBase) -> Callable[[Any], Any]:
    """Reads an answer that renews this lease."""

    def parse(body: Any) -> Any:
        lease.parse_renewal(body)
        return body

    return parse


def _held(label: str, body: dict[str, Any]) -> errors.LockHeld:
    name = str(body.get("name") or label)
    if body["status"] == "delayed":
        delayed = models.parse(models.LockDelay, body, name=name)
        message = f"{name} stays closed for a while after its last holder."
        if delayed.frozen:
            message = f"{name} is frozen: {delayed.reason}."
        return errors.LockDelayed(message, name=name, delayed=delayed)
    blocked = parse_blockers(body)
    held = models.parse(models.Holder, body, name=name)
    owner = f" by {held.owner}" if held.owner else ""
    if blocked:
        owner = "".join(f", {one.name} by {one.owner}" for one in blocked if one.owner)
    return errors.LockHeld(f"{name} is held{owner}.", name=name, held=held, blocked_by=blocked)


def renew(name: str, lease_id: str, *, ttl: int | None, retry_for: float) -> Operation[dict[str, Any]]:
    body = {"lease_id": lease_id, **({} if ttl is None else {"ttl_seconds": ttl})}

    def parse(body: Any) -> dict[str, Any]:
        if expect(body, lease_id=str, expires_at=str)["lease_id"] != lease_id:
            raise invalid("our lease_id")
        return expect(body)

    request = Request("POST", lock_path(name, "renew"), body)
    reply: Reply[dict[str, Any]] = yield from send_with_retry(request, parse, retry_for=retry_for)
    return reply.value


def release(name: str, lease_id: str, *, retry_for: float) -> Operation[None]:
    """A second release succeeds if the answer to the first may have been lost."""
    yield from end(Request("POST", lock_path(name, "release"), {"lease_id": lease_id}), retry_for=retry_for)


def end(request: Request, *, retry_for: float, parse: Callable[[Any], object] | None = None) -> Operation[None]:
    try:
        yield from send_with_retry(request, parse or expect_null, retry_for=retry_for)
    except (errors.LeaseNotCurrent, errors.NotFound, errors.SessionExpired) as problem:
        if not problem.repeated:
            raise


def parse_results(body: Any) -> list[dict[str, Any]]:
    """Of renew-all and release-all: one for each lease, with `ok`, or `code` and `details`."""
    return [expect(one, name=str, lease_id=str, ok=bool) for one in expect(body, results=list)["results"]]


def parse_page(field: str, body: Any) -> tuple[list[Any], str | None]:
    """One page of a list, and the cursor of the next."""
    cursor = expect(body, **{field: list}).get("next_cursor")
    return [expect(one) for one in body[field]], cursor if isinstance(cursor, str) else None


def parse_session(body: Any) -> dict[str, Any]:
    return expect(body, session_id=str, expires_at=str)


def parse_joined(body: Any) -> dict[str, Any]:
    texts = ("run_id", "layer_id", "actor_id", "role", "token", "session_id", "expires_at")
    return expect(body, **dict.fromkeys(texts, str))


def parse_previous(name: str, body: Any) -> models.PreviousHolder:
    return models.parse(models.PreviousHolder, expect(body, previous=dict)["previous"], name=name)


def parse_check(body: Any) -> models.LockCheck:
    expect(body, decision=str, policy=str, conflicts=list, missing=list)
    conflicts = tuple(
        models.NameConflict(expect(one, name=str, blocked_by=list)["name"], parse_blockers(one))
        for one in body["conflicts"]
    )
    return models.LockCheck(body["decision"], body["policy"], conflicts, tuple(body["missing"]))


def parse_blockers(body: dict[str, Any]) -> tuple[models.Holder, ...]:
    blockers = body.get("blocked_by") or ()
    return tuple(models.parse(models.Holder, blocker) for blocker in blockers if isinstance(blocker, dict))


def parse_identity(body: Any) -> models.TokenInfo:
    expect(body, team=str, space=str, token=dict, scopes=list)
    known = {field: body[field] for field in ("team", "space", "scopes")}
    return models.parse(models.TokenInfo, body["token"], **known)


def entry_path(path: str) -> str:
    segments = path.removeprefix("/").split("/")
    # Dots would be taken for a relative path.
    return "/kv/" + "/".join(quote(one, safe="") if one.strip(".") else one.replace(".", "%2E") for one in segments)


def parse_written(body: Any) -> dict[str, Any]:
    return expect(body, path=str, version=int)


def parse_entry(body: Any) -> models.Entry:
    entry = models.parse(models.Entry, {field: value for field, value in expect(body).items() if field != "value"})
    value = body.get("value")
    try:
        return entry._replace(value=base64.b64decode(value) if entry.encoding == "base64" else value)
    except (TypeError, ValueError):
        raise invalid("base64") from None


def wait_for_entry(
    path: str, *, min_version: int, timeout: float | None, layer: str | None, retry_for: float
) -> Operation[models.Entry | None]:
    give_up_at = clock.now() + (math.inf if timeout is None else timeout)
    while True:
        seconds = math.ceil(max(0.0, min(MAX_SERVER_WAIT, give_up_at - clock.now())))
        query = {"min_version": min_version, "wait_seconds": seconds, "layer": layer}
        request = Request("GET", with_query(entry_path(path), query), timeout=ANSWER_SECONDS + seconds)
        reply: Reply[dict[str, Any]] = yield from send_with_retry(request, expect, retry_for=retry_for)
        if not reply.value.get("timed_out"):
            return parse_entry(reply.value)
        if clock.now() >= give_up_at:
            return None
