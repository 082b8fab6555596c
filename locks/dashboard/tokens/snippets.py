"""Lines to paste: how a program with this token begins."""

from collections.abc import Sequence
from dataclasses import dataclass

from locks.models import Scope

EXAMPLE = "deploy-main"


@dataclass(frozen=True, kw_only=True)
class Snippet:
    id: str
    title: str
    text: str


def environment(*, url: str, token: str) -> Snippet:
    """The only one with the token in it; the others read it from here."""
    return Snippet(id="environment", title="Environment", text=f"export OCTO_URL={url}\nexport OCTO_TOKEN={token}")


def usage(*, scopes: Sequence[str], prefixes: Sequence[str]) -> list[Snippet]:
    name = _example(prefixes)
    bearer = '-H "Authorization: Bearer $OCTO_TOKEN"'
    if Scope.LOCKS_WRITE not in scopes:
        path = "locks" if Scope.LOCKS_READ in scopes else "whoami"
        return [Snippet(id="curl", title="curl", text=f'curl "$OCTO_URL/{path}" \\\n  {bearer}')]
    return [
        Snippet(
            id="curl",
            title="curl",
            text=f'curl -X POST "$OCTO_URL/locks/{name}/acquire" \\\n  {bearer} \\\n'
            '  -H "Content-Type: application/json" -d \'{"ttl_seconds": 60}\'',
        ),
        Snippet(
            id="python",
            title="Python",
            text=f'from octo import Client\n\nwith Client().lock("{name}", ttl=60) as lease:\n    ...',
        ),
        Snippet(id="cli", title="Command line", text=f"octo run {name} --ttl 60 -- ./deploy.sh"),
    ]


def _example(prefixes: Sequence[str]) -> str:
    """A name that the token may touch."""
    if not prefixes:
        return EXAMPLE
    return f"{prefixes[0]}-main" if prefixes[0][-1].isalnum() else f"{prefixes[0]}main"
