"""octo session: many locks under one heartbeat, for programs that send it themselves."""

from __future__ import annotations

from typing import Any

from octo import answers, tied
from octo.cli.connecting import connect, owner_of
from octo.cli.output import Output, at, table, unix_ms, until


def _told(session: answers.SessionInfo) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "owner": session.owner,
        "lock_count": session.lock_count,
        "active": session.active,
        "expires_unix_ms": unix_ms(session.expires_at),
    }


def start(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        session = client.session(ttl=arguments.ttl, owner=owner_of(arguments), metadata=arguments.metadata)
    data = {"session_id": session.session_id, "expires_unix_ms": unix_ms(session.expires_at)}
    output.done({"session": data}, [session.session_id])
    output.say(f"It ends at {at(session.expires_at)} unless you send: octo session keepalive {session.session_id}")


def keepalive(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        session = client.perform(tied.keep_session(arguments.session_id, retry_for=client.retry_for))
    data = {"session_id": session.session_id, "expires_unix_ms": unix_ms(session.expires_at)}
    output.done({"session": data}, [f"The session lives until {at(session.expires_at)}"])


def show(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        session = client.perform(tied.inspect_session(arguments.session_id, retry_for=client.retry_for))
    state = until(session.expires_at) if session.active else "ended"
    locks = f"{session.lock_count} lock{'' if session.lock_count == 1 else 's'}"
    output.done({"session": _told(session)}, [f"{session.session_id}  {session.owner or ''}  {locks}  {state}"])


def listing(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        found = client.perform(tied.sessions(retry_for=client.retry_for))
    rows = [(one.session_id, one.owner or "", str(one.lock_count), until(one.expires_at)) for one in found]
    output.done({"sessions": [_told(one) for one in found]}, table(rows) if rows else ["No sessions."])


def end(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        client.perform(tied.end_session(arguments.session_id, retry_for=client.retry_for))
    output.done({"session": {"session_id": arguments.session_id}}, ["The session has ended, and its locks are free"])
