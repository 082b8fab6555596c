"""The other verbs of the API, each written once; see `octo.steps`."""

from __future__ import annotations

from typing import Any

from octo import answers, errors, paths
from octo.exchange import Answer, exchange
from octo.steps import Call, Request


def renew(name: str, lease_id: str, *, ttl: int | None, retry_for: float) -> Call[dict[str, Any]]:
    body: dict[str, Any] = {"lease_id": lease_id}
    if ttl is not None:
        body["ttl_seconds"] = ttl
    answer: Answer = yield from exchange(Request("POST", paths.lock(name, "renew"), body), retry_for=retry_for)
    return {**answer.body, "sent_at": answer.sent_at}


def release(name: str, lease_id: str, *, retry_for: float) -> Call[None]:
    """Released twice is released: the answer to the first may have got lost."""
    request = Request("POST", paths.lock(name, "release"), {"lease_id": lease_id})
    try:
        yield from exchange(request, retry_for=retry_for)
    except errors.LeaseNotCurrent as problem:
        if not problem.repeated:
            raise


def inspect(name: str, *, retry_for: float) -> Call[answers.Lock]:
    answer: Answer = yield from exchange(Request("GET", paths.lock(name)), retry_for=retry_for)
    return answers.read(answers.Lock, answer.body)


def page_of_locks(parameters: dict[str, Any], *, retry_for: float) -> Call[tuple[list[answers.Lock], str | None]]:
    answer: Answer = yield from exchange(Request("GET", paths.query("/locks", parameters)), retry_for=retry_for)
    return [answers.read(answers.Lock, told) for told in answer.body["locks"]], answer.body.get("next_cursor")


def force_release(
    name: str, *, reason: str, fencing_token: int | None, lock_delay: int | None, retry_for: float
) -> Call[answers.Released]:
    body: dict[str, Any] = {"reason": reason}
    if fencing_token is not None:
        body["fencing_token"] = fencing_token
    if lock_delay is not None:
        body["lock_delay_seconds"] = lock_delay
    # Without the guard a second attempt could hit the next holder.
    request = Request("POST", paths.lock(name, "force-release"), body, repeatable=fencing_token is not None)
    answer: Answer = yield from exchange(request, retry_for=retry_for)
    return answers.read(answers.Released, answer.body["previous"], name=name)


def page_of_events(
    name: str | None, parameters: dict[str, Any], *, retry_for: float
) -> Call[tuple[list[dict[str, Any]], str | None]]:
    path = paths.lock(name, "history") if name else "/events"
    answer: Answer = yield from exchange(Request("GET", paths.query(path, parameters)), retry_for=retry_for)
    return answer.body["events"], answer.body.get("next_cursor")


def whoami(*, retry_for: float) -> Call[answers.Identity]:
    answer: Answer = yield from exchange(Request("GET", "/whoami"), retry_for=retry_for)
    told, token = answer.body, answer.body["token"]
    return answers.Identity(
        team=told["team"],
        space=told["space"],
        public_id=token["public_id"],
        name=token["name"],
        scopes=tuple(told["scopes"]),
        prefixes=tuple(token["prefixes"]),
        expires_at=answers.time(token["expires_at"]),
    )


def rotate_token(*, overlap: int, retry_for: float) -> Call[answers.NewToken]:
    request = Request("POST", "/auth/token/rotate", {"overlap_seconds": overlap}, repeatable=False)
    answer: Answer = yield from exchange(request, retry_for=retry_for)
    return answers.read(answers.NewToken, answer.body)
