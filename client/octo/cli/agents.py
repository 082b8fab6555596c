"""octo election, octo runs, octo kv and octo mcp: what agents use besides locks."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import sys
from contextlib import closing
from itertools import islice
from typing import Any

from octo import errors, models
from octo.cli.context import Spinner, options_of, owner_of, server_of
from octo.cli.output import Output, UsageError, expires, records_table, sanitize, table, unix_ms, until
from octo.client import Client
from octo.models import ElectionInfo, Entry, RunInfo, parse_time


def create_election(client: Client, arguments: Any, output: Output) -> None:
    room = client.create_election()
    output.result({"election": {"election_id": room}}, [room])


def _election(state: ElectionInfo) -> dict[str, Any]:
    fields = ("election_id", "status", "candidate_id", "metadata", "term", "expires_at")
    return {**{field: getattr(state, field) for field in fields}, "expires_unix_ms": unix_ms(state.expires_at)}


def _line(state: ElectionInfo) -> str:
    if state.status == "vacant":
        return f"{state.election_id} is vacant"
    return f"{state.election_id}  {sanitize(state.candidate_id or '')}  term {state.term}  {until(state.expires_at)}"


def election_status(client: Client, arguments: Any, output: Output) -> None:
    state = client.inspect_election(arguments.room)
    output.result({"election": _election(state)}, [_line(state)])


def watch_election(client: Client, arguments: Any, output: Output) -> None:
    with closing(client.watch_election(arguments.room)) as states:
        for state in islice(states, arguments.limit or None):
            output.result({"election": _election(state)}, [_line(state)])


def lead(client: Client, arguments: Any, output: Output) -> int:
    """With a command, as `octo run`; without one, until it is stopped."""
    arguments.names = [arguments.room]
    if arguments.candidate is None:
        arguments.candidate = _default_candidate()
    if arguments.child:
        from octo.cli.run import run

        return run(client, arguments, output)
    # Resigns when it is told to end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Spinner(arguments.room) as spinner:
        term = client.campaign(arguments.room, arguments.candidate, **options_of(arguments, spinner))
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


def start_run(client: Client, arguments: Any, output: Output) -> None:
    run = client.run(
        arguments.name, metadata=arguments.metadata, idle_limit=arguments.idle_limit,
        max_depth=arguments.max_depth, dump=arguments.dump, ttl=arguments.session_ttl,
    ).open()  # fmt: skip
    known = {field: getattr(run, field) for field in ("run_id", "layer_id", "actor_id", "session_id", "token")}
    lines = [f"export {name}={value}" for name, value in run.environment.items()]
    output.result({"run": {**known, "expires_at": run.expires_at}}, lines)
    output.note(f"The lead's session {until(run.expires_at)}: octo session keepalive {run.session_id}")


def _run(run: RunInfo) -> dict[str, Any]:
    return {field: value for field, value in run._asdict().items() if value is not None}


def list_runs(client: Client, arguments: Any, output: Output) -> None:
    runs = [_run(run) for run in client.runs(state=arguments.state)]
    for run in runs:
        del run["layers"], run["held"]
    columns = ("run_id", "name", "state", "lead", "actors_present", "leases", "waiting", "last_sign_of_life_at")
    output.result({"runs": runs}, records_table(columns, runs, "No runs."))


def show_run(client: Client, arguments: Any, output: Output) -> None:
    run = client.inspect_run(arguments.run_id)
    output.result({"run": _run(run)}, _tree(run))


def _tree(run: RunInfo) -> list[str]:
    lines = [f"{sanitize(run.name)}  {run.state}  {run.run_id}"]
    for layer in run.layers:
        indent = "  " * layer["depth"]
        lines.append(f"{indent}{sanitize(layer['name'])}  kv:{layer['keys']}")
        for actor in layer["actors"]:
            state = (
                until(parse_time(actor["expires_at"])) if actor["present"] else sanitize(actor["end_reason"] or "gone")
            )
            counts = f"kv:{actor['counters']['kv']} lease:{actor['counters']['lease']}"
            lines.append(f"{indent}  {sanitize(actor['actor_id'])}  {actor['role']}  {counts}  {state}")
    held = [(lease["name"], lease["holder"], until(parse_time(lease["expires_at"]))) for lease in run.held]
    return lines + (["Leases:", *table(held, indent="  ")] if held else [])


def drain_run(client: Client, arguments: Any, output: Output) -> None:
    run = client.drain_run(arguments.run_id)
    output.success({"run": _run(run)}, [f"{run.run_id} is {run.state}"])


def finish_run(client: Client, arguments: Any, output: Output) -> None:
    run = client.finish_run(arguments.run_id, reason=arguments.reason)
    output.success({"run": _run(run)}, [f"{run.run_id} is {run.state}"])


def export_run(client: Client, arguments: Any, output: Output) -> None:
    content = client.export_run(arguments.run_id)
    output.result({"export": content}, [json.dumps(content, indent=2, ensure_ascii=False)])


def _value(arguments: Any) -> tuple[Any, models.Encoding]:
    raw = sys.stdin.buffer.read() if arguments.value == "-" else arguments.value.encode()
    encoding: models.Encoding = arguments.encoding or ("base64" if arguments.value == "-" else "text")
    try:
        if encoding == "json":
            return json.loads(raw), encoding
        if encoding == "text":
            return raw.decode(), encoding
        return (base64.b64decode(raw, validate=True) if arguments.encoding else raw), encoding
    except ValueError as problem:
        raise errors.ConfigurationError(f"The value is not {encoding}: {problem}") from None


def _print_entry(entry: Entry, output: Output) -> None:
    if output.as_json:
        value = base64.b64encode(entry.value).decode() if isinstance(entry.value, bytes) else entry.value
        output.result({"entry": {**entry._asdict(), "value": value}})
    elif isinstance(entry.value, bytes):
        sys.stdout.buffer.write(entry.value)
    else:
        shown = entry.value if entry.encoding == "text" else json.dumps(entry.value, ensure_ascii=False)
        output.result({}, [shown])


def get_entry(client: Client, arguments: Any, output: Output) -> None:
    _print_entry(client.kv.get(arguments.path, layer=arguments.layer), output)


def set_entry(client: Client, arguments: Any, output: Output) -> None:
    value, encoding = _value(arguments)
    expected = getattr(arguments, "expected_version", None)
    version = client.kv.set(
        arguments.path, value, encoding=encoding, override=arguments.override, expected_version=expected
    )
    output.success(
        {"entry": {"path": arguments.path, "version": version}}, [f"{arguments.path} is at version {version}"]
    )


def list_entries(client: Client, arguments: Any, output: Output) -> None:
    entries = [entry._asdict() for entry in client.kv.list(arguments.glob, layer=arguments.layer)]
    columns = ("path", "version", "encoding", "size", "written_by", "written_at")
    output.result({"entries": entries}, records_table(columns, entries, "No entries."))


def wait_for_entry(client: Client, arguments: Any, output: Output) -> None:
    entry = client.kv.wait(
        arguments.path, min_version=arguments.min_version, timeout=arguments.timeout, layer=arguments.layer
    )
    if entry is None:
        raise errors.LockTimeout(f"{arguments.path} was not written in time.", name=arguments.path)
    _print_entry(entry, output)


def delete_entry(client: Client, arguments: Any, output: Output) -> None:
    client.kv.delete(arguments.path, override=arguments.override)
    output.success({"entry": {"path": arguments.path}}, [f"{arguments.path} is deleted"])


def mcp(arguments: Any, output: Output) -> None:
    try:
        from octo.mcp.server import serve
    except ModuleNotFoundError as missing:
        raise UsageError(f"`octo mcp` needs the extra `mcp` of this package ({missing}).") from None
    from octo.async_client import AsyncClient

    async def run() -> None:
        async with AsyncClient(**server_of(arguments), program="octo-mcp") as client:
            await serve(client, session_ttl=arguments.session_ttl, owner=owner_of(arguments))
        # Not an ordinary end, which would wait for the thread that reads standard input.
        os._exit(0)

    asyncio.run(run())
