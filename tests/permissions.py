"""Who may do what, as data: a row for each page and act of the dashboard, and for each endpoint of the API.

`tests/locks/test_permissions.py` tries every cell, and fails when a path has no row here. A new page is a line in
PAGES, a new endpoint a line in ENDPOINTS. `{things}` in arguments, forms and paths are those of `Things` in that test:
Blue's, and in turn Red's, which do not exist for anybody in Blue.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from locks.models import Scope


class Cell(Enum):
    ALLOWED = "allowed"
    SIGN_IN = "is led to sign-in"
    FORBIDDEN = "403"
    NOTHING = "404"


# In this order: nobody signed in, somebody of another team, viewer, operator, admin, superuser.
PEOPLE = ("nobody", "bob", "victor", "olga", "alice", "root")


class For(Enum):
    """Whom a page is for, and what the others get."""

    EVERYBODY = (Cell.ALLOWED,) * 6
    SIGNED_IN = (Cell.SIGN_IN, *(Cell.ALLOWED,) * 5)
    MEMBERS = (Cell.SIGN_IN, Cell.NOTHING, *(Cell.ALLOWED,) * 4)
    OPERATORS = (Cell.SIGN_IN, Cell.NOTHING, Cell.FORBIDDEN, *(Cell.ALLOWED,) * 3)
    ADMINS = (Cell.SIGN_IN, Cell.NOTHING, Cell.FORBIDDEN, Cell.FORBIDDEN, Cell.ALLOWED, Cell.ALLOWED)
    SUPERUSERS = (Cell.SIGN_IN, *(Cell.FORBIDDEN,) * 4, Cell.ALLOWED)
    # Off until configured.
    OFF = (Cell.SIGN_IN, *(Cell.NOTHING,) * 5)
    OFF_FOR_ALL = (Cell.NOTHING,) * 6
    # A superuser sees every team, and still is no member.
    THEMSELVES = (Cell.SIGN_IN, Cell.NOTHING, *(Cell.ALLOWED,) * 3, Cell.NOTHING)


@dataclass(frozen=True, kw_only=True)
class Page:
    name: str
    whom: For
    method: str = "GET"
    # Besides team and space, which every page of a space has.
    arguments: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    # Of a path that is about one of Blue's things: nobody in Blue finds one of Red's there.
    finds: bool = True


def pages(*names: str, whom: For, **terms: Any) -> list[Page]:
    return [Page(name=name, whom=whom, **terms) for name in names]


NAMED = {"name": "{lock}"}
TOKEN = {"public_id": "{token}"}
WEBHOOK = {"public_id": "{webhook}"}
WEBHOOK_FORM = {"url": "https://hooks.example/in", "kinds": "expired"}

PAGES: list[Page] = [
    # The way in and out, and one's own account.
    *pages("sign-in", "join", whom=For.EVERYBODY),
    *pages("sign-in", "sign-out", "theme", "join", "join-accept", whom=For.EVERYBODY, method="POST"),
    *pages("join-accept", whom=For.EVERYBODY),
    *pages("home", "account", whom=For.SIGNED_IN),
    *pages("account-profile", "account-password", "account-other-sessions", whom=For.SIGNED_IN, method="POST"),
    *pages("account-codes", "account-passkeys", "confirmation-passkey", whom=For.OFF),
    *pages("account-codes", "account-passkeys", "account-recovery-codes", whom=For.OFF, method="POST"),
    *pages("account-factor", whom=For.OFF, method="POST", arguments={"factor_id": "1"}),
    *pages("account-connect", whom=For.OFF, method="POST", arguments={"name": "github"}),
    *pages("account-disconnect", whom=For.OFF, method="POST", arguments={"connection_id": "1"}),
    *pages("sign-in-passkey", whom=For.OFF_FOR_ALL),
    *pages("sign-in-passkey", whom=For.OFF_FOR_ALL, method="POST"),
    *pages("sign-in-provider", whom=For.OFF_FOR_ALL, method="POST", arguments={"name": "github"}),
    *pages("new-team", whom=For.SUPERUSERS),
    *pages("new-team", whom=For.SUPERUSERS, method="POST"),
    # What there is to see.
    *pages("team", "now", "contention", "activity", "owners", "stuck", "releases", "connect", whom=For.MEMBERS),
    *pages("tokens", "team-page", "system", "activity-new-count", whom=For.MEMBERS),
    *pages("activity-export", whom=For.MEMBERS, method="POST", form={"format": "csv"}),
    *pages("event", whom=For.MEMBERS, arguments={"event_id": "{event}"}),
    *pages("lock", whom=For.MEMBERS, arguments=NAMED),
    *pages("release", whom=For.MEMBERS, arguments={"number": "{batch}"}),
    *pages("token-first-use", whom=For.MEMBERS, arguments=TOKEN),
    # What operators do.
    *pages("force-release", "snooze", whom=For.OPERATORS, arguments=NAMED),
    *pages("force-release", "snooze", whom=For.OPERATORS, method="POST", arguments=NAMED),
    *pages("end-snooze", whom=For.OPERATORS, method="POST", arguments=NAMED, form={"fencing_token": "{snoozed}"}),
    *pages("prepare-release", whom=For.OPERATORS, method="POST"),
    *pages("confirm-release", "stop-release", whom=For.OPERATORS, method="POST", arguments={"number": "{batch}"}),
    # What admins do.
    *pages("issue-token", "team-activity", "new-invite", "new-space", "limits", "archive-space", whom=For.ADMINS),
    *pages("issue-token", "token-preview", "rename-team", "new-space", "limits", whom=For.ADMINS, method="POST"),
    *pages("new-invite", whom=For.ADMINS, method="POST", form={"role": "viewer", "days": "7"}),
    *pages("archive-space", whom=For.ADMINS, method="POST", form={"typed_name": "main", "release": "on"}),
    *pages("restore-space", whom=For.ADMINS, arguments={"archived": "{archived}"}),
    *pages("restore-space", whom=For.ADMINS, method="POST", arguments={"archived": "{archived}"}),
    *pages("rotate-token", "revoke-token", whom=For.ADMINS, arguments=TOKEN),
    *pages("rotate-token", whom=For.ADMINS, method="POST", arguments=TOKEN, form={"overlap": "0"}),
    *pages("revoke-token", whom=For.ADMINS, method="POST", arguments=TOKEN, form={"leases": "release"}),
    *pages("webhooks", "new-webhook", whom=For.ADMINS),
    *pages("new-webhook", whom=For.ADMINS, method="POST", form=WEBHOOK_FORM),
    *pages("webhook", "change-webhook", "rotate-webhook", "delete-webhook", whom=For.ADMINS, arguments=WEBHOOK),
    *pages(
        "test-webhook",
        "pause-webhook",
        "resume-webhook",
        "replay-webhook",
        whom=For.ADMINS,
        method="POST",
        arguments=WEBHOOK,
    ),
    *pages("replay-delivery", whom=For.ADMINS, method="POST", arguments={**WEBHOOK, "delivery_id": "{delivery}"}),
    *pages("change-webhook", whom=For.ADMINS, method="POST", arguments=WEBHOOK, form=WEBHOOK_FORM),
    *pages("rotate-webhook", whom=For.ADMINS, method="POST", arguments=WEBHOOK, form={"overlap": "0"}),
    *pages("delete-webhook", whom=For.ADMINS, method="POST", arguments=WEBHOOK),
    *pages("team-event", whom=For.ADMINS, arguments={"event_id": "{team_event}"}),
    *pages("change-role", whom=For.ADMINS, method="POST", arguments={"user_id": "{member}"}, form={"role": "viewer"}),
    *pages("remove-member", whom=For.ADMINS, arguments={"user_id": "{member}"}),
    *pages("remove-member", whom=For.ADMINS, method="POST", arguments={"user_id": "{member}"}),
    # Takes back what is open, and says so when there is nothing.
    *pages("revoke-invite", whom=For.ADMINS, method="POST", arguments={"invite_id": "{invite}"}, finds=False),
    *pages("leave-team", whom=For.THEMSELVES),
    *pages("leave-team", whom=For.THEMSELVES, method="POST"),
]

# Paths of the dashboard that are about whoever asks and nobody else, and what has tests of its own for them.
PERSONAL = {
    "account_login": "the sign-in page, by the name that allauth leads to it",
    "mfa_authenticate": "for whoever is half-way through signing in: test_second_factors.py",
    "second-step-passkey": "for whoever is half-way through signing in: test_second_factors.py",
    "github_callback": "for whoever comes back from the provider: test_providers.py",
    "openid_connect_callback": "for whoever comes back from the provider: test_providers.py",
    "confirmation": "asks whoever is signed in for their own password: test_confirmation.py",
    "account-session": "a session of somebody else is not found: test_account.py",
    "account-sign-out": "signs out the person themselves: test_account.py",
}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """`scope` is the one it takes; None for every token."""

    route: str
    path: str
    method: str = "GET"
    scope: Scope | None = None
    body: Any = None
    # Answers with a stream: where it is allowed, that is tried on a real server.
    streams: bool = False
    # Belongs to the token that made it; to every other one it does not exist.
    own: bool = False
    # What a token of another team gets from the same path: its own space has nothing there.
    elsewhere: int | None = None


READ, WRITE, HOOKS = Scope.LOCKS_READ, Scope.LOCKS_WRITE, Scope.WEBHOOKS_MANAGE
ONE_TOKEN = "tokens/<publicid:public_id>"
ONE_HOOK = "webhooks/<webhookid:public_id>"
LEASE = {"lease_id": "{lease}"}

ENDPOINTS: list[Endpoint] = [
    Endpoint(route="locks", path="/locks", scope=READ),
    Endpoint(route="locks/<lockname:name>", path="/locks/{lock}", scope=READ),
    Endpoint(route="locks/<lockname:name>/acquire", path="/locks/new/acquire", method="POST", scope=WRITE),
    Endpoint(
        route="locks/<lockname:name>/renew", path="/locks/{lock}/renew", method="POST", scope=WRITE, body=LEASE,
        elsewhere=404,
    ),
    Endpoint(
        route="locks/<lockname:name>/release", path="/locks/{lock}/release", method="POST", scope=WRITE, body=LEASE,
        elsewhere=404,
    ),
    Endpoint(
        route="locks/<lockname:name>/force-release", path="/locks/{lock}/force-release", method="POST",
        scope=Scope.LOCKS_FORCE, body={"reason": "stuck"}, elsewhere=404,
    ),
    Endpoint(route="locks/<lockname:name>/history", path="/locks/{lock}/history", scope=Scope.AUDIT_READ),
    Endpoint(route="locks/<lockname:name>/watch", path="/locks/{lock}/watch", scope=READ, streams=True),
    Endpoint(route="watch", path="/watch", scope=READ, streams=True),
    Endpoint(route="locks/claim-next", path="/locks/claim-next", method="POST", scope=WRITE, body={"names": ["new"]}),
    Endpoint(route="locks/acquire-all", path="/locks/acquire-all", method="POST", scope=WRITE, body={"names": ["new"]}),
    Endpoint(
        route="locks/renew-all", path="/locks/renew-all", method="POST", scope=WRITE,
        body={"leases": [{"name": "{lock}", **LEASE}]},
    ),
    Endpoint(
        route="locks/release-all", path="/locks/release-all", method="POST", scope=WRITE,
        body={"leases": [{"name": "{lock}", **LEASE}]},
    ),
    Endpoint(route="events", path="/events", scope=Scope.AUDIT_READ),
    Endpoint(route="events/export", path="/events/export?format=csv", scope=Scope.AUDIT_READ),
    Endpoint(route="sessions", path="/sessions", scope=READ),
    Endpoint(route="sessions", path="/sessions", method="POST", scope=WRITE, body={"owner": "me"}),
    Endpoint(route="sessions/<uuid:session_id>", path="/sessions/{session}", scope=READ, own=True, elsewhere=404),
    Endpoint(
        route="sessions/<uuid:session_id>", path="/sessions/{session}", method="DELETE", scope=WRITE, own=True,
        elsewhere=404,
    ),
    Endpoint(
        route="sessions/<uuid:session_id>/keepalive", path="/sessions/{session}/keepalive", method="POST",
        scope=WRITE, own=True, elsewhere=404,
    ),
    Endpoint(route="webhooks", path="/webhooks", scope=HOOKS),
    Endpoint(route="webhooks", path="/webhooks", method="POST", scope=HOOKS, body={"url": "https://hooks.example/in"}),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", scope=HOOKS, elsewhere=404),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", method="PATCH", scope=HOOKS, elsewhere=404),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", method="DELETE", scope=HOOKS, elsewhere=404),
    Endpoint(route=f"{ONE_HOOK}/deliveries", path="/webhooks/{webhook}/deliveries", scope=HOOKS, elsewhere=404),
    *(
        Endpoint(
            route=f"{ONE_HOOK}/{act}", path=f"/webhooks/{{webhook}}/{act}", method="POST", scope=HOOKS, elsewhere=404,
        )
        for act in ("test", "rotate-secret", "replay")
    ),
    Endpoint(
        route=f"{ONE_HOOK}/deliveries/<uuid:delivery_id>/replay",
        path="/webhooks/{webhook}/deliveries/{delivery}/replay", method="POST", scope=HOOKS, elsewhere=404,
    ),
    Endpoint(route="whoami", path="/whoami"),
    Endpoint(route="auth/token/rotate", path="/auth/token/rotate", method="POST"),
    Endpoint(route="tokens", path="/tokens", scope=Scope.TOKENS_MANAGE),
    Endpoint(route="tokens", path="/tokens", method="POST", scope=Scope.TOKENS_MANAGE, body={"name": "another"}),
    Endpoint(route=ONE_TOKEN, path="/tokens/{token}", scope=Scope.TOKENS_MANAGE, elsewhere=404),
    Endpoint(route=ONE_TOKEN, path="/tokens/{token}", method="DELETE", scope=Scope.TOKENS_MANAGE, elsewhere=404),
    Endpoint(
        route=ONE_TOKEN, path="/tokens/{token}?leases=release", method="DELETE", scope=Scope.TOKENS_MANAGE,
        elsewhere=404,
    ),
]  # fmt: skip

# For everybody: whether it runs, its counters, and its own description.
OPEN_PATHS = ("/health", "/status", "/metrics", "/openapi.yaml", "/openapi.json", "/docs")
