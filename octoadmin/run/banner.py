"""What `up` prints when the server is ready."""

import json
from pathlib import Path
from typing import Protocol


class FirstRun(Protocol):
    """What the first run has created; see locks.bootstrap."""

    @property
    def username(self) -> str: ...
    @property
    def password(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def space(self) -> str: ...


def first_run(*, url: str, data: Path, created: FirstRun) -> str:
    body = json.dumps({"ttl_seconds": 60, "metadata": "host=runner-7 build=1842"})
    return f"""
  Octoadmin is running.

    Dashboard   {url}
    Sign in     {created.username}   {created.password}
    Token       {created.token}
                for workers, in the space {created.space}, for 90 days
    Data        {data}

  The password and the token are shown this once. Take a lock:

curl -X POST {url}/locks/deploy-main/acquire -H "Authorization: Bearer {created.token}" \
-H "Content-Type: application/json" -d '{body}'

  Ctrl-C stops everything.
"""


def running(*, url: str, data: Path, secrets: Path | None = None) -> str:
    """`secrets` is the file with the text of the first run."""
    hint = "" if secrets is None else f"    Sign in     {secrets} has the password and a token: read it and delete it\n"
    return f"""
  Octoadmin is running.

    Dashboard   {url}
{hint}    Data        {data}

  Ctrl-C stops everything.
"""
