"""octo token: what the token is, and a new one in its place."""

from __future__ import annotations

import os
from typing import Any

from octo import settings
from octo import token as tokens
from octo.cli.connecting import connect
from octo.cli.output import Output, at, unix_ms
from octo.errors import ConfigurationProblem


def check(arguments: Any, output: Output) -> None:
    """The token of the environment: one that is typed as an argument would be in everybody's list of processes."""
    found = settings.resolve(url=arguments.url, token_file=arguments.token_file)
    problem = tokens.problem_with(found.token)
    if problem is not None:
        raise ConfigurationProblem(f"This is not a token. {problem}")
    public_id = tokens.public_id(found.token)
    output.done({"token": {"public_id": public_id, "well_formed": True}}, [f"{public_id}: well-formed"])


def whoami(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        identity = client.whoami()
    data = {**identity._asdict(), "expires_at": None, "expires_unix_ms": unix_ms(identity.expires_at)}
    del data["expires_at"]
    lines = [
        f"{identity.name} ({identity.public_id})",
        f"  Space: {identity.team}/{identity.space}",
        f"  Scopes: {', '.join(identity.scopes)}",
        f"  Names: {', '.join(f'{prefix}…' for prefix in identity.prefixes) or 'all'}",
        f"  Expires: {at(identity.expires_at) if identity.expires_at else 'never'}",
    ]
    output.done({"token": data}, lines)


def rotate(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        new = client.rotate_token(overlap=arguments.overlap)
        file = client.settings.token_file
    data = {"public_id": new.public_id, "expires_unix_ms": unix_ms(new.expires_at)}
    if file is None:
        output.done({"token": {**data, "token": new.token}}, [new.token])
        output.say("The new token is shown this once.")
        return
    draft = f"{file}.{os.getpid()}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new_file:
        new_file.write(f"{new.token}\n")
        new_file.flush()
        os.fsync(new_file.fileno())
    os.replace(draft, file)
    output.done({"token": {**data, "file": file}}, [f"{file} now holds the token {new.public_id}"])
