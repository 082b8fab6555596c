"""Lines to paste that set up a worker and claim a lock. Only `environment` may contain a token."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from locks.models import Scope

EXAMPLE_NAME = "hello-world"
_PLACEHOLDER = "'paste the token here'"
_EXAMPLE = "octo_…"
_BEARER = '-H "Authorization: Bearer $OCTO_TOKEN"'
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Snippet:
    id: str
    title: str
    text: str
    note: str = ""


def environment(*, url: str, token: str = "") -> Snippet:
    lines = [f"export OCTO_URL={url}", f"export OCTO_TOKEN={token or _PLACEHOLDER}"]
    if is_insecure(url):
        lines.append("export OCTO_ALLOW_HTTP=1   # only in a trusted network: http does not encrypt the token")
    return Snippet(id="environment", title="Environment", text="\n".join(lines))


def is_insecure(url: str) -> bool:
    """Plain http to another host: the client refuses it unless OCTO_ALLOW_HTTP is set."""
    parts = urlsplit(url)
    return parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname or "") is None


def usage(*, scopes: Sequence[str], prefixes: Sequence[str]) -> list[Snippet]:
    """What a token with these permissions can start with."""
    if Scope.LOCKS_WRITE in scopes:
        return claim(name=_example_name(prefixes))
    path = "locks" if Scope.LOCKS_READ in scopes else "whoami"
    return [Snippet(id="curl", title="curl", text=f'curl "$OCTO_URL/{path}" \\\n  {_BEARER}')]


def claim(*, name: str = EXAMPLE_NAME, url: str = "$OCTO_URL") -> list[Snippet]:
    return [
        Snippet(
            id="curl",
            title="curl",
            note="Prints the lease. Renew it with its lease_id before the 60 seconds are over, release it when done.",
            text=f"""curl -X POST "{url}/locks/{name}/acquire" \\
  {_BEARER} \\
  -H "Content-Type: application/json" \\
  -d '{{"ttl_seconds": 60, "metadata": "host=my-laptop"}}'""",
        ),
        Snippet(
            id="run",
            title="Command line",
            note="Claims the lock, runs the command, renews while it runs, releases when it ends.",
            text=f"""pip install ./client   # in a checkout of Octoadmin
octo run {name} --ttl 60 -- ./deploy.sh""",
        ),
        Snippet(
            id="python",
            title="Python",
            note="Renewed in the background until the block ends. Pass the fencing token to the storage you write to, "
            "so that it can reject late writes.",
            text=f"""from octo import Client

with Client() as client, client.lock("{name}", ttl=60) as lease:
    print(lease.fencing_token)""",
        ),
    ]


def github_actions(*, url: str) -> Snippet:
    return Snippet(
        id="actions",
        title="GitHub Actions",
        note="Keep the token as a secret of the repository. The runner must be able to reach this server.",
        text=f"""- name: Deploy, one at a time
  env:
    OCTO_URL: {url}
    OCTO_TOKEN: ${{{{ secrets.OCTO_TOKEN }}}}
  run: octo run deploy-main --ttl 60 --wait 5m -- ./deploy.sh""",
    )


def agents(*, url: str) -> list[Snippet]:
    """Entries for the clients of agents, which read a JSON file with `mcpServers`."""
    environment = {"OCTO_URL": url, "OCTO_TOKEN": _EXAMPLE, "OCTO_OWNER": "agent-7"}
    if is_insecure(url):
        environment["OCTO_ALLOW_HTTP"] = "1"
    stdio = {"command": "octo", "args": ["mcp"], "env": environment}
    http = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {_EXAMPLE}"}}
    return [
        Snippet(
            id="mcp-stdio",
            title="Agent on its own machine (MCP, stdio)",
            note="Needs octoadmin-client with its extra mcp. Leases are free when the agent's process ends.",
            text=_mcp_servers(stdio),
        ),
        Snippet(
            id="mcp-http",
            title="Hosted agent (MCP over HTTP)",
            note="Needs nothing installed. Leases end by their TTL, so the agent has to renew them.",
            text=_mcp_servers(http),
        ),
    ]


def _mcp_servers(entry: Mapping[str, object]) -> str:
    return json.dumps({"mcpServers": {"octoadmin": entry}}, indent=2, ensure_ascii=False)


def _example_name(prefixes: Sequence[str]) -> str:
    """A lock name that the token may use."""
    if not prefixes:
        return EXAMPLE_NAME
    return f"{prefixes[0]}-main" if prefixes[0][-1].isalnum() else f"{prefixes[0]}main"
