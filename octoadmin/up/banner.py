"""What `up` prints once it serves."""

import json
from pathlib import Path
from typing import Protocol


class Welcome(Protocol):
    """What the first run has made; see locks.bootstrap."""

    @property
    def username(self) -> str: ...
    @property
    def password(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def space(self) -> str: ...


def first(*, url: str, data: Path, welcome: Welcome) -> str:
    body = json.dumps({"ttl_seconds": 60, "metadata": "host=runner-7 build=1842"})
    return f"""
  Octoadmin is running.

    Dashboard   {url}
    Sign in     {welcome.username}   {welcome.password}
    Token       {welcome.token}
                for workers, in the space {welcome.space}, for 90 days
    Data        {data}

  The password and the token are shown this once. Take a lock:

curl -X POST {url}/locks/deploy-main/acquire -H "Authorization: Bearer {welcome.token}" \
-H "Content-Type: application/json" -d '{body}'

  Ctrl-C stops everything.
"""


def later(*, url: str, data: Path) -> str:
    return f"""
  Octoadmin is running.

    Dashboard   {url}
    Data        {data}

  Ctrl-C stops everything.
"""
