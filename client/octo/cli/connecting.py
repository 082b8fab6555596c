"""The client of a command, and the leases that it remembers."""

from __future__ import annotations

import os
from typing import Any

from octo.cli.exit_codes import NotRemembered
from octo.cli.output import unix_ms
from octo.cli.state import Remembered, State
from octo.client import Client
from octo.grants import Grant

# A person waits for the answer; `octo run` is more patient.
RETRY_SECONDS = 3.0


def connect(arguments: Any, *, retry_for: float = RETRY_SECONDS) -> Client:
    return Client(url=arguments.url, token_file=arguments.token_file, retry_for=retry_for, program="octo-cli")


def state_of(client: Client) -> State:
    return State(url=client.settings.url, token=client.settings.token)


def owner_of(arguments: Any) -> str | None:
    owner: str | None = arguments.owner or os.environ.get("OCTO_OWNER")
    return owner or None


def remember(client: Client, lease: Grant) -> None:
    expires = unix_ms(lease.expires_at) or 0
    state_of(client).remember(
        Remembered(lease.name, lease.lease_id, lease.fencing_token, lease.owner, expires, lease.ttl)
    )


def recall(client: Client, name: str) -> Remembered:
    kept = state_of(client).recall(name)
    if kept is None:
        raise NotRemembered(f"No lease of {name} is remembered here. Acquire it first, or pass --lease-id.")
    return kept
