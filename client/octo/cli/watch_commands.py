"""octo lock watch: what happens to locks, a line for each event."""

from __future__ import annotations

from typing import Any

from octo.cli.connecting import connect
from octo.cli.exit_codes import UsageProblem
from octo.cli.output import Output, at, unix_ms, until, visible
from octo.cli.run_command import RETRY_SECONDS


def watch(arguments: Any, output: Output) -> None:
    if arguments.resource and arguments.prefix is not None:
        raise UsageProblem("Watch one resource or a prefix, not both.")
    with connect(arguments, retry_for=RETRY_SECONDS) as client:
        events = client.watch(arguments.resource, prefix=arguments.prefix, after=arguments.after)
        for number, event in enumerate(events, 1):
            data = {
                "event": event.event,
                "id": event.id,
                "resource": event.lock_name,
                "status": event.status,
                "owner": event.owner,
                "metadata": event.metadata,
                "fencing_token": event.fencing_token,
                "expires_unix_ms": unix_ms(event.expires_at),
                "observed_unix_ms": unix_ms(event.observed_at),
            }
            what = event.status if event.event == "snapshot" else event.event
            facts = [at(event.observed_at), f"{what:<14}", event.lock_name, visible(event.owner or "")]
            line = "  ".join([*facts, until(event.expires_at)]).rstrip()
            output.done({field: value for field, value in data.items() if value is not None}, [line])
            if arguments.limit and number >= arguments.limit:
                events.close()
                return
