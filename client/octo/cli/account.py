"""octo login and logout, token, tokens, session, webhooks, doctor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from octo import config, errors
from octo.cli.context import connect, owner_of
from octo.cli.output import ExitCode, Output, colorize, records_table, sanitize, table, until
from octo.cli.saved_leases import SavedLeases, directory
from octo.client import Client
from octo.models import expect, format_time
from octo.protocol import Request, Response, with_query

MAX_CLOCK_DIFFERENCE = 5.0


def login(arguments: Any, output: Output) -> None:
    """The token is read from a prompt or standard input: an argument would show in the list of processes."""
    url = (arguments.url or os.environ.get("OCTO_URL") or config.DEFAULT_URL).rstrip("/")
    if sys.stdin.isatty():
        import getpass

        token = getpass.getpass(f"Token for {url}: ").strip()
    else:
        token = sys.stdin.readline().strip()
    if problem := config.validate_token(token):
        raise errors.ConfigurationError(f"This is not a token. {problem}")
    with Client(url, token, program="octo-cli", retry_for=3) as client:
        identity = client.whoami()
    name = arguments.profile or config.DEFAULT_PROFILE
    place = config.save_profile(name, url=url, token=token)
    data = {"profile": name, "url": url, "stored_in": place, "token": identity._asdict()}
    output.success(data, [f"Logged in to {url} as {sanitize(identity.name)}; the token is in {place}"])


def logout(arguments: Any, output: Output) -> None:
    name = arguments.profile or config.DEFAULT_PROFILE
    config.save_profile(name, url="", token=None)
    output.success({"profile": name}, [f"The profile {name} is removed. Its token stays valid until it is revoked."])


def check_token(arguments: Any, output: Output) -> None:
    settings = config.resolve(url=arguments.url, token_file=arguments.token_file, profile=arguments.profile)
    if problem := config.validate_token(settings.token):
        raise errors.ConfigurationError(f"This is not a token. {problem}")
    public_id = config.public_id(settings.token)
    output.result({"token": {"public_id": public_id, "well_formed": True}}, [f"{public_id}: well-formed"])


def whoami(client: Client, arguments: Any, output: Output) -> None:
    token = client.whoami()
    lines = [
        f"{sanitize(token.name)} ({token.public_id})",
        f"  Space: {token.team}/{token.space}",
        f"  Scopes: {', '.join(token.scopes)}",
        f"  Names: {', '.join(f'{prefix}…' for prefix in token.prefixes) or 'all'}",
        f"  Expires: {format_time(token.expires_at) or 'never'}",
    ]
    output.result({"token": token._asdict()}, lines)


def rotate_token(client: Client, arguments: Any, output: Output) -> None:
    new = client.rotate_token(overlap=arguments.overlap)
    file = client.settings.token_file
    data = {"public_id": new.public_id, "expires_at": new.expires_at}
    if file is None:
        output.result({"token": {**data, "token": new.token}}, [new.token])
        output.note("The new token is shown this once.")
        return
    config.write_private(file, f"{new.token}\n")
    output.success({"token": {**data, "file": file}}, [f"{file} now holds the token {new.public_id}"])


def _list(client: Client, output: Output, path: str, field: str, columns: tuple[str, ...]) -> None:
    answer = client.request("GET", path)
    # Webhooks are an array in a space with OctoStore compatibility.
    records = answer if isinstance(answer, list) else expect(answer, **{field: list})[field]
    output.result({field: records}, records_table(columns, records, f"No {field}."))


def issue_token(client: Client, arguments: Any, output: Output) -> None:
    body = {
        "name": arguments.name,
        "preset": arguments.preset,
        "prefixes": arguments.prefix or [],
        "expires_in_days": arguments.days,
        **({"scopes": arguments.scope} if arguments.scope else {}),
    }
    issued = expect(client.request("POST", "/tokens", body), token=str, public_id=str)
    output.result({"token": issued}, [issued["token"]])
    output.note(f"Token {issued['public_id']} is shown this once. It expires {issued.get('expires_at') or 'never'}.")


def list_tokens(client: Client, arguments: Any, output: Output) -> None:
    path = with_query("/tokens", {"revoked": "true" if arguments.revoked else None})
    columns = ("public_id", "name", "scopes", "expires_at", "last_used_at", "live_leases")
    _list(client, output, path, "tokens", columns)


def revoke_token(client: Client, arguments: Any, output: Output) -> None:
    path = with_query(f"/tokens/{arguments.public_id}", {"leases": "release" if arguments.release else None})
    revoked = client.request("DELETE", path) or {}
    output.success({"token": {"public_id": arguments.public_id, **revoked}}, [f"{arguments.public_id} is revoked"])


def start_session(client: Client, arguments: Any, output: Output) -> None:
    session = client.session(ttl=arguments.ttl, owner=owner_of(arguments), metadata=arguments.metadata).open()
    data = {"session_id": session.session_id, "expires_at": session.expires_at}
    output.result({"session": data}, [session.session_id])
    end = format_time(session.expires_at)
    output.note(f"It ends at {end} unless you send: octo session keepalive {session.session_id}")


def keepalive_session(client: Client, arguments: Any, output: Output) -> None:
    session = client.keepalive_session(arguments.session_id)
    data = {"session_id": session.session_id, "expires_at": session.expires_at}
    output.success({"session": data}, [f"The session lives until {format_time(session.expires_at)}"])


def show_session(client: Client, arguments: Any, output: Output) -> None:
    session = client.inspect_session(arguments.session_id)
    state = until(session.expires_at) if session.active else "ended"
    locks = f"{session.lock_count} lock{'' if session.lock_count == 1 else 's'}"
    line = f"{session.session_id}  {sanitize(session.owner or '')}  {locks}  {state}"
    output.result({"session": session._asdict()}, [line])


def list_sessions(client: Client, arguments: Any, output: Output) -> None:
    sessions = client.sessions()
    rows = [(one.session_id, one.owner or "", str(one.lock_count), until(one.expires_at)) for one in sessions]
    output.result({"sessions": [one._asdict() for one in sessions]}, table(rows) if rows else ["No sessions."])


def end_session(client: Client, arguments: Any, output: Output) -> None:
    client.end_session(arguments.session_id)
    output.success({"session": {"session_id": arguments.session_id}}, ["The session has ended, and its locks are free"])


def create_webhook(client: Client, arguments: Any, output: Output) -> None:
    body = {"url": arguments.target, "kinds": arguments.kind or [], "prefix": arguments.prefix or ""}
    webhook = expect(client.request("POST", "/webhooks", body), id=str, url=str, secret=str)
    output.result({"webhook": webhook}, [f"{webhook['id']}  {webhook['url']}", f"  Secret: {webhook['secret']}"])
    output.note("The secret is shown this once.")


def list_webhooks(client: Client, arguments: Any, output: Output) -> None:
    _list(client, output, "/webhooks", "webhooks", ("id", "url", "kinds", "prefix", "paused", "created_at"))


def webhook_deliveries(client: Client, arguments: Any, output: Output) -> None:
    columns = ("id", "event", "lock_name", "status", "attempts", "created_at")
    _list(client, output, f"/webhooks/{arguments.webhook}/deliveries", "deliveries", columns)


def test_webhook(client: Client, arguments: Any, output: Output) -> None:
    answer = client.request("POST", f"/webhooks/{arguments.webhook}/test", {})
    output.success({"webhook": {"id": arguments.webhook, "test": answer}}, ["A test event is on its way"])


def delete_webhook(client: Client, arguments: Any, output: Output) -> None:
    client.request("DELETE", f"/webhooks/{arguments.webhook}")
    output.success({"webhook": {"id": arguments.webhook}}, [f"{arguments.webhook} is deleted"])


class Check(NamedTuple):
    check: str
    ok: bool
    detail: str


def doctor(arguments: Any, output: Output) -> int:
    """Everything that can be wrong, in the order in which it would be noticed."""
    checks = list(_checks(arguments))
    labels = {True: colorize("ok  ", "green", sys.stdout), False: colorize("FAIL", "red", sys.stdout)}
    healthy = all(one.ok for one in checks)
    output.result(
        {"healthy": healthy, "checks": [one._asdict() for one in checks]},
        [f"{labels[one.ok]} {one.check}: {one.detail}" for one in checks],
    )
    return ExitCode.DONE if healthy else ExitCode.ENVIRONMENT


def _checks(arguments: Any) -> Iterator[Check]:
    try:
        settings = config.resolve(url=arguments.url, token_file=arguments.token_file, profile=arguments.profile)
    except errors.ConfigurationError as problem:
        yield Check("configuration", False, str(problem))
        return
    yield Check("configuration", True, f"{settings.url}, the token from {settings.token_file or 'the environment'}")
    wrong = config.validate_token(settings.token)
    yield Check("token", wrong is None, wrong or f"{config.public_id(settings.token)} is well-formed")
    yield _state_file(settings)
    with connect(arguments) as client:
        yield from _server(client)


def _state_file(settings: config.Settings) -> Check:
    saved = SavedLeases(settings)
    try:
        count = len(saved.all())
    except errors.ConfigurationError as problem:
        return Check("state file", False, str(problem))
    if os.path.isdir(directory()) and not os.access(directory(), os.W_OK):
        return Check("state file", False, f"{directory()} cannot be written to.")
    return Check("state file", True, f"{saved.path}, {count} saved by this shell")


def _server(client: Client) -> Iterator[Check]:
    def health() -> Any:
        response: Response = yield Request("GET", "/health")
        return response

    started = time.monotonic()
    try:
        answer = client.execute(health())
        if answer.status != 200:
            raise errors.TransportError(f"/health answers {answer.status}")
    except errors.TransportError as problem:
        yield Check("server", False, str(problem))
        return
    yield Check("server", True, f"answers in {(time.monotonic() - started) * 1000:.0f} ms")
    yield _clock(answer.headers.get("date"))
    try:
        identity = client.whoami()
    except errors.OctoError as problem:
        yield Check("authorisation", False, str(problem))
        return
    yield Check("authorisation", True, f"{sanitize(identity.name)}, in the space {identity.team}/{identity.space}")
    needed = {"locks:read", "locks:write"} - set(identity.scopes)
    missing = f"cannot hold locks without {', '.join(sorted(needed))}" if needed else ", ".join(identity.scopes)
    yield Check("scopes", not needed, missing)


def _clock(date: str | None) -> Check:
    """Leases do not depend on it, since deadlines are counted; the times that are shown do."""
    if date is None:
        return Check("clock", True, "the server does not tell the time")
    server = parsedate_to_datetime(date)
    difference = (datetime.now(server.tzinfo) - server).total_seconds()
    direction = "ahead of" if difference > 0 else "behind"
    return Check("clock", abs(difference) <= MAX_CLOCK_DIFFERENCE, f"{abs(difference):.0f} s {direction} the server")
