"""octo runs and octo kv."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from octo import errors, models
from octo.cli.context import connect
from octo.cli.output import Output, records_table, sanitize, table, until
from octo.models import Entry, RunInfo, format_time, parse_time


def start(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        run = client.run(
            arguments.name, metadata=arguments.metadata, idle_limit=arguments.idle_limit,
            max_depth=arguments.max_depth, dump=arguments.dump, ttl=arguments.session_ttl,
        ).open()  # fmt: skip
    known = {field: getattr(run, field) for field in ("run_id", "layer_id", "actor_id", "session_id", "token")}
    lines = [f"export {name}={value}" for name, value in run.environment.items()]
    output.result({"run": {**known, "expires_at": format_time(run.expires_at)}}, lines)
    output.note(f"The lead's session {until(run.expires_at)}: octo session keepalive {run.session_id}")


def _record(run: RunInfo) -> dict[str, Any]:
    return {
        field: format_time(value) if field.endswith("_at") else value
        for field, value in run._asdict().items()
        if value is not None
    }


def listing(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        runs = [_record(run) for run in client.runs(state=arguments.state)]
    for run in runs:
        del run["layers"], run["held"]
    columns = ("run_id", "name", "state", "lead", "actors_present", "leases", "waiting", "last_sign_of_life_at")
    output.result({"runs": runs}, records_table(columns, runs, "No runs."))


def show(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        run = client.inspect_run(arguments.run_id)
    output.result({"run": _record(run)}, _tree(run))


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


def drain(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        run = client.drain_run(arguments.run_id)
    output.success({"run": _record(run)}, [f"{run.run_id} is {run.state}"])


def finish(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        run = client.finish_run(arguments.run_id, reason=arguments.reason)
    output.success({"run": _record(run)}, [f"{run.run_id} is {run.state}"])


def export(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
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


def _print(entry: Entry, output: Output) -> None:
    if output.as_json:
        value = base64.b64encode(entry.value).decode() if isinstance(entry.value, bytes) else entry.value
        output.result({"entry": {**entry._asdict(), "value": value, "written_at": format_time(entry.written_at)}})
    elif isinstance(entry.value, bytes):
        sys.stdout.buffer.write(entry.value)
    else:
        shown = entry.value if entry.encoding == "text" else json.dumps(entry.value, ensure_ascii=False)
        output.result({}, [shown])


def get(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        entry = client.kv.get(arguments.path, layer=arguments.layer)
    _print(entry, output)


def set_value(arguments: Any, output: Output) -> None:
    value, encoding = _value(arguments)
    expected = getattr(arguments, "expected_version", None)
    with connect(arguments) as client:
        version = client.kv.set(
            arguments.path, value, encoding=encoding, override=arguments.override, expected_version=expected
        )
    output.success(
        {"entry": {"path": arguments.path, "version": version}}, [f"{arguments.path} is at version {version}"]
    )


def list_entries(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        found = client.kv.list(arguments.glob, layer=arguments.layer)
        entries = [{**entry._asdict(), "written_at": format_time(entry.written_at)} for entry in found]
    columns = ("path", "version", "encoding", "size", "written_by", "written_at")
    output.result({"entries": entries}, records_table(columns, entries, "No entries."))


def wait(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        entry = client.kv.wait(
            arguments.path, min_version=arguments.min_version, timeout=arguments.timeout, layer=arguments.layer
        )
    if entry is None:
        raise errors.LockTimeout(f"{arguments.path} was not written in time.", name=arguments.path)
    _print(entry, output)


def delete(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        client.kv.delete(arguments.path, override=arguments.override)
    output.success({"entry": {"path": arguments.path}}, [f"{arguments.path} is deleted"])
