"""octo doctor: looks at everything that can be wrong, in the order in which it would be noticed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from octo import errors, settings
from octo import token as tokens
from octo.cli.connecting import connect
from octo.cli.exit_codes import ExitCode
from octo.cli.output import Output, painted
from octo.cli.state import State, directory
from octo.client import Client
from octo.steps import Request

MOST_CLOCK_SECONDS = 5.0


class Finding(NamedTuple):
    check: str
    ok: bool
    detail: str


def doctor(arguments: Any, output: Output) -> int:
    findings = list(_examine(arguments))
    lines = [
        f"{painted('ok  ', 'green', sys.stdout) if one.ok else painted('FAIL', 'red', sys.stdout)} "
        f"{one.check}: {one.detail}"
        for one in findings
    ]
    healthy = all(one.ok for one in findings)
    output.done({"healthy": healthy, "checks": [one._asdict() for one in findings]}, lines)
    return ExitCode.DONE if healthy else ExitCode.ENVIRONMENT


def _examine(arguments: Any) -> Iterator[Finding]:
    try:
        found = settings.resolve(url=arguments.url, token_file=arguments.token_file)
    except errors.ConfigurationProblem as problem:
        yield Finding("configuration", False, str(problem))
        return
    where = found.token_file or "OCTO_TOKEN"
    yield Finding("configuration", True, f"{found.url}, the token from {where}")
    wrong = tokens.problem_with(found.token)
    yield Finding("token", wrong is None, wrong or f"{tokens.public_id(found.token)} is well-formed")
    yield _state_file(found)
    with connect(arguments) as client:
        yield from _ask(client)


def _state_file(found: settings.Settings) -> Finding:
    state = State(url=found.url, token=found.token)
    try:
        remembered = len(state.all())
    except errors.ConfigurationProblem as problem:
        return Finding("state file", False, str(problem))
    place = directory()
    writable = os.access(place if os.path.isdir(place) else os.path.dirname(place) or ".", os.W_OK)
    if os.path.isdir(place) and not writable:
        return Finding("state file", False, f"{place} cannot be written to.")
    return Finding("state file", True, f"{state.path}, {remembered} remembered")


def _ask(client: Client) -> Iterator[Finding]:
    started = time.monotonic()
    try:
        health = client.transport.send(Request("GET", "/health"))
    except errors.Unreachable as problem:
        yield Finding("server", False, str(problem))
        return
    took = (time.monotonic() - started) * 1000
    if health.status != 200:
        yield Finding("server", False, f"/health answers {health.status}")
        return
    yield Finding("server", True, f"answers in {took:.0f} ms")
    yield _clock(health.headers.get("date"))
    try:
        identity = client.whoami()
    except errors.OctoError as problem:
        yield Finding("authorisation", False, str(problem))
        return
    yield Finding("authorisation", True, f"{identity.name}, in the space {identity.team}/{identity.space}")
    needed = {"locks:read", "locks:write"} - set(identity.scopes)
    missing = f"cannot hold locks without {', '.join(sorted(needed))}" if needed else ", ".join(identity.scopes)
    yield Finding("scopes", not needed, missing)


def _clock(date: str | None) -> Finding:
    """Leases do not depend on it, since deadlines are counted and not read off; what people are shown does."""
    if date is None:
        return Finding("clock", True, "the server does not tell the time")
    told = parsedate_to_datetime(date)
    difference = (datetime.now(told.tzinfo) - told).total_seconds()
    close = abs(difference) <= MOST_CLOCK_SECONDS
    return Finding("clock", close, f"{abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} the server")
