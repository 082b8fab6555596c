"""What a worker needs to take its first lock in a space, as lines to paste. There is never a secret in them."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from locks.dashboard.database import fetch
from locks.models import Space

_LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Snippet:
    id: str
    title: str
    text: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class FirstLease:
    """The latest lease of the space."""

    name: str
    owner: str
    token: str
    at: datetime
    is_first: bool
    now: datetime


def first_lease(*, space: Space) -> FirstLease | None:
    found = fetch("connect/first_lease", FirstLease, {"space_id": space.pk})
    return found[0] if found else None


def is_plain_http_elsewhere(address: str) -> bool:
    """A token sent there could be read on the way, so the client refuses unless it is told otherwise."""
    parts = urlsplit(address)
    return parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname or "") is None


def environment(*, address: str) -> Snippet:
    lines = [f"export OCTO_URL={address}", "export OCTO_TOKEN='paste the token here'"]
    if is_plain_http_elsewhere(address):
        lines.append("export OCTO_ALLOW_HTTP=1   # only in a network that you trust: a token over http can be read")
    return Snippet(id="environment", title="The environment", text="\n".join(lines))


def snippets(*, address: str) -> list[Snippet]:
    return [
        Snippet(
            id="curl",
            title="curl",
            note="Prints the lease. Renew it with its lease_id before the 60 seconds are over, release it when done.",
            text=f"""curl -X POST {address}/locks/hello-world/acquire \\
  -H "Authorization: Bearer $OCTO_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{{"ttl_seconds": 60, "metadata": "host=my-laptop"}}'""",
        ),
        Snippet(
            id="run",
            title="Command line",
            note="Claims, runs the command, renews while it runs, releases when it ends.",
            text="""pip install ./client   # in a checkout of Octoadmin
octo run hello-world --ttl 60 -- ./deploy.sh""",
        ),
        Snippet(
            id="python",
            title="Python",
            note="Renewed in the background until the block ends. Hand the fencing token to what you write to, so that "
            "late writes are refused.",
            text="""from octo import Client

with Client() as client, client.lock("hello-world", ttl=60) as lease:
    print(lease.fencing_token)""",
        ),
        Snippet(
            id="actions",
            title="GitHub Actions",
            note="Keep the token as a secret of the repository, never in the file. This server must be reachable from "
            "the runner.",
            text=f"""- name: Deploy, one at a time
  env:
    OCTO_URL: {address}
    OCTO_TOKEN: ${{{{ secrets.OCTO_TOKEN }}}}
  run: octo run deploy-main --ttl 60 --wait 5m -- ./deploy.sh""",
        ),
    ]
