"""octo freeze and unfreeze."""

from __future__ import annotations

from typing import Any

from octo.cli.context import connect
from octo.cli.exit_codes import UsageError
from octo.cli.output import Output, expires, records_table, sanitize
from octo.models import Freeze, format_time

_COLUMNS = ("id", "prefix", "reason", "until", "created_by")


def freeze(arguments: Any, output: Output) -> None:
    """`octo freeze list` lists; with a reason, `list` is a prefix like any other."""
    if arguments.prefix == "list" and arguments.reason is None:
        _list(arguments, output)
        return
    if arguments.reason is None or arguments.duration is None:
        raise UsageError("the following arguments are required: --reason, --for", "octo freeze --help has examples\n")
    with connect(arguments) as client:
        frozen = client.freeze(arguments.prefix or "", reason=arguments.reason, duration=arguments.duration)
    what = f"names that start with {frozen.prefix}" if frozen.prefix else "all names of the space"
    lines = [f"Frozen: {sanitize(what)}", f"  Until: {expires(frozen.until)}", f"  Lift: octo unfreeze {frozen.id}"]
    output.success({"freeze": _record(frozen)}, lines)


def unfreeze(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        client.unfreeze(arguments.freeze_id)
    output.success({"freeze": {"id": arguments.freeze_id, "lifted": True}}, [f"Lifted: {arguments.freeze_id}"])


def _list(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        records = [_record(frozen) for frozen in client.freezes()]
    output.result({"freezes": records}, records_table(_COLUMNS, records, "Nothing is frozen."))


def _record(frozen: Freeze) -> dict[str, Any]:
    times = {"until": format_time(frozen.until), "created_at": format_time(frozen.created_at)}
    return {**frozen._asdict(), **times}
