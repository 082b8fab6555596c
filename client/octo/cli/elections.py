"""octo election: one leader among several candidates, without a token."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

from octo.cli.context import Spinner, connect, options_of
from octo.cli.output import Output, expires, sanitize, unix_ms, until
from octo.models import ElectionInfo, format_time


def create(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        room = client.create_election()
    output.result({"election": {"election_id": room}}, [room])


def _record(state: ElectionInfo) -> dict[str, Any]:
    times = {"expires_at": format_time(state.expires_at), "expires_unix_ms": unix_ms(state.expires_at)}
    known = {field: getattr(state, field) for field in ("election_id", "status", "candidate_id", "metadata", "term")}
    return {**known, **times}


def _line(state: ElectionInfo) -> str:
    if state.status == "vacant":
        return f"{state.election_id} is vacant"
    return f"{state.election_id}  {sanitize(state.candidate_id or '')}  term {state.term}  {until(state.expires_at)}"


def status(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        state = client.inspect_election(arguments.room)
    output.result({"election": _record(state)}, [_line(state)])


def watch(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        states = client.watch_election(arguments.room)
        for number, state in enumerate(states, 1):
            output.result({"election": _record(state)}, [_line(state)])
            if arguments.limit and number >= arguments.limit:
                states.close()
                return


def hold(arguments: Any, output: Output) -> int:
    """With a command, as `octo run`; without one, until it is stopped."""
    arguments.names = [arguments.room]
    if arguments.candidate is None:
        arguments.candidate = _default_candidate()
    if arguments.child:
        from octo.cli.run import run

        return run(arguments, output)
    # Resigns when it is told to end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with connect(arguments) as client:
        with Spinner(arguments.room) as spinner:
            options = {**options_of(arguments, spinner), "wait": arguments.wait}
            term = client.campaign(arguments.room, arguments.candidate, **options)
        with term:
            data = {"election_id": term.name, "candidate_id": term.owner, "term": term.fencing_token}
            lines = [f"Leading {term.name}", f"  Term: {term.fencing_token}", f"  Expires: {expires(term.expires_at)}"]
            output.result({"election": data}, lines)
            term.lost.wait()
    return 0


def _default_candidate() -> str:
    import socket

    name = os.environ.get("OCTO_OWNER") or f"{socket.gethostname()}:{os.getpid()}"
    return re.sub(r"[^A-Za-z0-9._:@-]", "-", name)[:64]
