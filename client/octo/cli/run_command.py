"""octo run: a command that runs only while a lock is held."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

from octo import errors
from octo.cli.connecting import connect, owner_of
from octo.cli.events import Events
from octo.cli.exit_codes import ExitCode, UsageProblem
from octo.cli.output import Output
from octo.cli.spinner import Spinner
from octo.client import Client
from octo.leases import Lease

# A server that is being restarted should not fail a deployment.
RETRY_SECONDS = 30.0


def run(arguments: Any, output: Output) -> int:
    if not arguments.child:
        raise UsageProblem("Say what to run, after `--`: octo run deploy-main -- ./deploy.sh")
    if os.name != "posix":
        raise errors.ConfigurationProblem("octo run needs process groups, which this system does not have.")
    # What the command prints is the command's; ours goes to standard error.
    output.as_json = False
    on_held = arguments.on_held or ("wait" if arguments.wait else "fail")
    wait = (arguments.wait or math.inf) if on_held == "wait" else None
    events_to = arguments.events_fd if arguments.events_fd is not None else (2 if arguments.events else None)
    events = Events(name=arguments.resource, file=events_to)
    with connect(arguments, retry_for=RETRY_SECONDS) as client:
        try:
            lease = _acquire(client, arguments, events, wait=wait)
        except errors.WaitedTooLong:
            raise
        except errors.LockHeld as held:
            if on_held == "skip":
                sys.stderr.write(f"{held} Skipped.\n")
                return ExitCode.DONE
            raise
        from octo.cli.supervision import Supervision

        events.lease("acquired", lease)
        return Supervision(lease, arguments.child, events).run()


def _acquire(client: Client, arguments: Any, events: Events, *, wait: float | None) -> Lease:
    with Spinner(arguments.resource) as spinner:

        def on_wait(held: Any) -> None:
            events.waiting(held)
            spinner.show(held)

        return client.acquire(
            arguments.resource,
            ttl=arguments.ttl,
            wait=wait,
            owner=owner_of(arguments),
            metadata=arguments.metadata,
            lock_delay=arguments.lock_delay,
            on_wait=on_wait,
        )
