"""octo freeze and unfreeze."""

from __future__ import annotations

from typing import Any

from octo.cli.output import Output, UsageError, expires, records_table, sanitize
from octo.client import Client

_COLUMNS = ("id", "prefix", "reason", "until", "created_by")


def freeze(client: Client, arguments: Any, output: Output) -> None:
    """`octo freeze list` lists; with a reason, `list` is a prefix like any other."""
    if arguments.prefix == "list" and arguments.reason is None:
        records = [frozen._asdict() for frozen in client.freezes()]
        output.result({"freezes": records}, records_table(_COLUMNS, records, "Nothing is frozen."))
        return
    if arguments.reason is None or arguments.duration is None:
        raise UsageError("the following arguments are required: --reason, --for", "octo freeze --help has examples\n")
    frozen = client.freeze(arguments.prefix or "", reason=arguments.reason, duration=arguments.duration)
    what = f"names that start with {frozen.prefix}" if frozen.prefix else "all names of the space"
    lines = [f"Frozen: {sanitize(what)}", f"  Until: {expires(frozen.until)}", f"  Lift: octo unfreeze {frozen.id}"]
    output.success({"freeze": frozen._asdict()}, lines)


def unfreeze(client: Client, arguments: Any, output: Output) -> None:
    client.unfreeze(arguments.freeze_id)
    output.success({"freeze": {"id": arguments.freeze_id, "lifted": True}}, [f"Lifted: {arguments.freeze_id}"])
