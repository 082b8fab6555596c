"""Permissions as data: a row for each page and form of the dashboard, and for each endpoint of the API.

`tests/locks/test_permissions.py` tries every cell, and fails if a path has no row here. A new page is a line in PAGES,
a new endpoint a line in ENDPOINTS. `{names}` in arguments, forms and paths are fields of `Fixtures` in that test: those
of team Blue, and in turn those of team Red, which members of Blue cannot find.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from locks.models import Scope


class Cell(Enum):
    ALLOWED = "allowed"
    SIGN_IN = "redirected to sign-in"
    FORBIDDEN = "403"
    NOT_FOUND = "404"


ANONYMOUS = "anonymous"
# In the order of the cells: not signed in, admin of another team, viewer, operator, admin, superuser.
USERS = (ANONYMOUS, "bob", "victor", "olga", "alice", "root")


class Access(Enum):
    """A cell for each of USERS."""

    PUBLIC = (Cell.ALLOWED,) * 6
    SIGNED_IN = (Cell.SIGN_IN, *(Cell.ALLOWED,) * 5)
    MEMBERS = (Cell.SIGN_IN, Cell.NOT_FOUND, *(Cell.ALLOWED,) * 4)
    # An event source cannot follow a redirect to the sign-in page.
    SIGNED_IN_ONLY = (Cell.NOT_FOUND, *(Cell.ALLOWED,) * 5)
    MEMBERS_ONLY = (Cell.NOT_FOUND, Cell.NOT_FOUND, *(Cell.ALLOWED,) * 4)
    OPERATORS = (Cell.SIGN_IN, Cell.NOT_FOUND, Cell.FORBIDDEN, *(Cell.ALLOWED,) * 3)
    ADMINS = (Cell.SIGN_IN, Cell.NOT_FOUND, Cell.FORBIDDEN, Cell.FORBIDDEN, Cell.ALLOWED, Cell.ALLOWED)
    SUPERUSERS = (Cell.SIGN_IN, *(Cell.FORBIDDEN,) * 4, Cell.ALLOWED)
    # Disabled by default.
    DISABLED = (Cell.SIGN_IN, *(Cell.NOT_FOUND,) * 5)
    DISABLED_PUBLIC = (Cell.NOT_FOUND,) * 6
    # Superusers see every team, but are not members.
    MEMBERS_THEMSELVES = (Cell.SIGN_IN, Cell.NOT_FOUND, *(Cell.ALLOWED,) * 3, Cell.NOT_FOUND)


@dataclass(frozen=True, kw_only=True)
class Page:
    name: str
    access: Access
    method: str = "GET"
    # Besides the slugs of team and space.
    arguments: dict[str, str] = field(default_factory=dict)
    query: str = ""
    form: dict[str, str] = field(default_factory=dict)
    # Whether the page answers 404 to arguments of another team.
    is_404_for_other_team: bool = True


def pages(*names: str, access: Access, **options: Any) -> list[Page]:
    return [Page(name=name, access=access, **options) for name in names]


NAMED = {"name": "{lock}"}
TOKEN = {"public_id": "{token}"}
WEBHOOK = {"public_id": "{webhook}"}
ONE = {"run_id": "{run}"}
RULE = {"public_id": "{rule}"}
RULE_FORM = {
    "name": "On call", "kinds": "stuck", "min_minutes": "5", "token_days": "7", "reasons": "overdue",
    "transport": "slack", "destination": "https://hooks.example/in", "quiet_zone": "UTC",
}  # fmt: skip
WEBHOOK_FORM = {"url": "https://hooks.example/in", "kinds": "expired"}

PAGES: list[Page] = [
    # Sign-in, sign-out and the user's own account.
    *pages("sign-in", "join", access=Access.PUBLIC),
    *pages("sign-in", "sign-out", "theme", "join", "join-accept", access=Access.PUBLIC, method="POST"),
    *pages("join-accept", access=Access.PUBLIC),
    *pages("home", "overview", "search", "account", access=Access.SIGNED_IN),
    *pages("overview-live", access=Access.SIGNED_IN_ONLY),
    *pages("account-profile", "account-password", "account-other-sessions", access=Access.SIGNED_IN, method="POST"),
    *pages("account-codes", "account-passkeys", "confirmation-passkey", access=Access.DISABLED),
    *pages("account-codes", "account-passkeys", "account-recovery-codes", access=Access.DISABLED, method="POST"),
    *pages("account-factor", access=Access.DISABLED, method="POST", arguments={"factor_id": "1"}),
    *pages("account-connect", access=Access.DISABLED, method="POST", arguments={"name": "github"}),
    *pages("account-disconnect", access=Access.DISABLED, method="POST", arguments={"connection_id": "1"}),
    *pages("sign-in-passkey", access=Access.DISABLED_PUBLIC),
    *pages("sign-in-passkey", access=Access.DISABLED_PUBLIC, method="POST"),
    *pages("sign-in-provider", access=Access.DISABLED_PUBLIC, method="POST", arguments={"name": "github"}),
    *pages("new-team", "elections", access=Access.SUPERUSERS),
    *pages("new-team", access=Access.SUPERUSERS, method="POST"),
    # Read-only pages.
    *pages("team", "now", "contention", "activity", "owners", "stuck", "releases", "connect", access=Access.MEMBERS),
    *pages("live", access=Access.MEMBERS_ONLY),
    *pages("runs", access=Access.MEMBERS),
    *pages("run", access=Access.MEMBERS, arguments=ONE),
    *pages("tokens", "team-page", "system", "activity-new-count", "names", "timeline", "waits", access=Access.MEMBERS),
    *pages("now-export", "contention-export", access=Access.MEMBERS, method="POST"),
    *pages("activity-export", access=Access.MEMBERS, method="POST", form={"format": "csv"}),
    *pages("event", access=Access.MEMBERS, arguments={"event_id": "{event}"}),
    *pages("lock", access=Access.MEMBERS, arguments=NAMED),
    *pages("owner", access=Access.MEMBERS, query="?name=worker"),
    *pages("alerts", access=Access.MEMBERS),
    *pages("alert", access=Access.MEMBERS, arguments=RULE),
    *pages("release", access=Access.MEMBERS, arguments={"number": "{batch}"}),
    *pages("token-first-use", access=Access.MEMBERS, arguments=TOKEN),
    *pages("ask-for-release", access=Access.MEMBERS, arguments=NAMED),
    *pages("ask-for-release", access=Access.MEMBERS, method="POST", arguments=NAMED),
    # Of the user's own: a person whose role has changed since may still release it.
    *pages("release-reservation", access=Access.MEMBERS, method="POST", arguments=NAMED),
    *pages("save-filter", access=Access.MEMBERS, method="POST", form={"page": "now"}),
    # For operators.
    *pages("force-release", "snooze", "note", access=Access.OPERATORS, arguments=NAMED),
    *pages("force-release", "snooze", "note", access=Access.OPERATORS, method="POST", arguments=NAMED),
    *pages("end-snooze", access=Access.OPERATORS, method="POST", arguments=NAMED, form={"fencing_token": "{snoozed}"}),
    *pages("prepare-release", access=Access.OPERATORS, method="POST"),
    *pages("confirm-release", "stop-release", access=Access.OPERATORS, method="POST", arguments={"number": "{batch}"}),
    *pages("drain-run", "finish-run", access=Access.OPERATORS, arguments=ONE),
    *pages("drain-run", "finish-run", "export-run", access=Access.OPERATORS, method="POST", arguments=ONE),
    *pages("end-actor", access=Access.OPERATORS, arguments={**ONE, "actor_name": "lead"}),
    *pages("end-actor", access=Access.OPERATORS, method="POST", arguments={**ONE, "actor_name": "lead"}),
    *pages("freeze", "reserve-name", access=Access.OPERATORS),
    *pages("freeze", "freeze-preview", "reserve-name", access=Access.OPERATORS, method="POST"),
    *pages("lift-freeze", access=Access.OPERATORS, method="POST", arguments={"freeze_id": "{freeze}"}),
    *pages("reserve", "extend-reservation", "hand-over", access=Access.OPERATORS, arguments=NAMED),
    *pages("reserve", "extend-reservation", "hand-over", access=Access.OPERATORS, method="POST", arguments=NAMED),
    # For admins.
    *pages("issue-token", "team-activity", "new-invite", "new-space", "limits", "archive-space", access=Access.ADMINS),
    *pages("issue-token", "token-preview", "rename-team", "new-space", "limits", access=Access.ADMINS, method="POST"),
    *pages("namespaces", access=Access.ADMINS),
    *pages("namespaces", "namespaces-preview", access=Access.ADMINS, method="POST"),
    *pages("new-invite", access=Access.ADMINS, method="POST", form={"role": "viewer", "days": "7"}),
    *pages("archive-space", access=Access.ADMINS, method="POST", form={"typed_name": "main", "release": "on"}),
    *pages("restore-space", access=Access.ADMINS, arguments={"archived": "{archived}"}),
    *pages("restore-space", access=Access.ADMINS, method="POST", arguments={"archived": "{archived}"}),
    *pages("rotate-token", "revoke-token", access=Access.ADMINS, arguments=TOKEN),
    *pages("rotate-token", access=Access.ADMINS, method="POST", arguments=TOKEN, form={"overlap": "0"}),
    *pages("revoke-token", access=Access.ADMINS, method="POST", arguments=TOKEN, form={"leases": "release"}),
    *pages("webhooks", "new-webhook", access=Access.ADMINS),
    *pages("new-webhook", access=Access.ADMINS, method="POST", form=WEBHOOK_FORM),
    *pages("webhook", "change-webhook", "rotate-webhook", "delete-webhook", access=Access.ADMINS, arguments=WEBHOOK),
    *pages(
        "test-webhook",
        "pause-webhook",
        "resume-webhook",
        "replay-webhook",
        access=Access.ADMINS,
        method="POST",
        arguments=WEBHOOK,
    ),
    *pages("replay-delivery", access=Access.ADMINS, method="POST", arguments={**WEBHOOK, "delivery_id": "{delivery}"}),
    *pages("change-webhook", access=Access.ADMINS, method="POST", arguments=WEBHOOK, form=WEBHOOK_FORM),
    *pages("rotate-webhook", access=Access.ADMINS, method="POST", arguments=WEBHOOK, form={"overlap": "0"}),
    *pages("delete-webhook", access=Access.ADMINS, method="POST", arguments=WEBHOOK),
    *pages("new-alert", access=Access.ADMINS),
    *pages("new-alert", access=Access.ADMINS, method="POST", form=RULE_FORM),
    *pages("change-alert", access=Access.ADMINS, arguments=RULE),
    *pages("change-alert", access=Access.ADMINS, method="POST", arguments=RULE, form=RULE_FORM),
    # A rule is tested, paused and deleted as its webhook.
    *pages("delete-webhook", access=Access.ADMINS, arguments=RULE),
    *pages("test-webhook", "pause-webhook", "delete-webhook", access=Access.ADMINS, method="POST", arguments=RULE),
    *pages("team-event", access=Access.ADMINS, arguments={"event_id": "{team_event}"}),
    *pages(
        "change-role", access=Access.ADMINS, method="POST", arguments={"user_id": "{member}"}, form={"role": "viewer"}
    ),
    *pages("space-roles", access=Access.ADMINS, arguments={"user_id": "{member}"}),
    *pages("space-roles", access=Access.ADMINS, method="POST", arguments={"user_id": "{member}"}),
    *pages("remove-member", access=Access.ADMINS, arguments={"user_id": "{member}"}),
    *pages("remove-member", access=Access.ADMINS, method="POST", arguments={"user_id": "{member}"}),
    # Reports that there is no open invitation, instead of 404.
    *pages(
        "revoke-invite",
        access=Access.ADMINS,
        method="POST",
        arguments={"invite_id": "{invite}"},
        is_404_for_other_team=False,
    ),
    *pages("leave-team", access=Access.MEMBERS_THEMSELVES),
    *pages("leave-team", access=Access.MEMBERS_THEMSELVES, method="POST"),
]

# Paths that concern only the user who requests them, and the tests for them.
PERSONAL = {
    "account_login": "the sign-in page under the name that allauth redirects to",
    "mfa_authenticate": "the second step of a sign-in: test_mfa.py",
    "second-step-passkey": "the second step of a sign-in: test_mfa.py",
    "github_callback": "a redirect from the provider: test_providers.py",
    "openid_connect_callback": "a redirect from the provider: test_providers.py",
    "confirmation": "the user's own password: test_reauthentication.py",
    "account-session": "sessions of other users are not found: test_account.py",
    "delete-filter": "the user's own filters: test_saved_filters.py",
    "account-sign-out": "the user's own sessions: test_account.py",
}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """`scope` is the required one; None if every token is allowed. A token with `or_scope` is always allowed."""

    route: str
    path: str
    method: str = "GET"
    scope: Scope | None = None
    or_scope: Scope | None = None
    body: Any = None
    # Tested on a real server where it is allowed.
    streams: bool = False
    # Works only with the token that created the resource; others get `another_token`.
    own: bool = False
    another_token: int = 404
    # A second scope that it takes.
    also: Scope | None = None
    # Works only with the token of a run's actor; others get 403.
    actor_only: bool = False
    # The status for a token of another team, whose space does not have the resource; 2xx if None.
    other_team: int | None = None


READ, WRITE, HOOKS = Scope.LOCKS_READ, Scope.LOCKS_WRITE, Scope.WEBHOOKS_MANAGE
RUNS = Scope.RUNS_MANAGE
ONE_RUN = "runs/<uuid:run_id>"
ONE_TOKEN = "tokens/<publicid:public_id>"
ONE_HOOK = "webhooks/<webhookid:public_id>"
LEASE = {"lease_id": "{lease}"}

ENDPOINTS: list[Endpoint] = [
    Endpoint(route="locks", path="/locks", scope=READ),
    Endpoint(route="locks/<lockname:name>", path="/locks/{lock}", scope=READ),
    Endpoint(route="locks/<lockname:name>/acquire", path="/locks/new/acquire", method="POST", scope=WRITE),
    Endpoint(
        route="locks/<lockname:name>/renew", path="/locks/{lock}/renew", method="POST", scope=WRITE, body=LEASE,
        other_team=404, own=True, another_token=400,
    ),
    Endpoint(
        route="locks/<lockname:name>/release", path="/locks/{lock}/release", method="POST", scope=WRITE, body=LEASE,
        other_team=404, own=True, another_token=400,
    ),
    Endpoint(
        route="locks/<lockname:name>/force-release", path="/locks/{lock}/force-release", method="POST",
        scope=Scope.LOCKS_FORCE, body={"reason": "stuck"}, other_team=404,
    ),
    Endpoint(
        route="locks/<lockname:name>/acl", path="/locks/{lock}/acl", method="PUT", scope=WRITE, body={"acl": None},
        or_scope=Scope.LOCKS_FORCE, other_team=404, own=True, another_token=403,
    ),
    Endpoint(route="locks/<lockname:name>/history", path="/locks/{lock}/history", scope=Scope.AUDIT_READ),
    Endpoint(route="locks/<lockname:name>/watch", path="/locks/{lock}/watch", scope=READ, streams=True),
    Endpoint(route="watch", path="/watch", scope=READ, streams=True),
    Endpoint(route="locks/check", path="/locks/check", scope=READ),
    Endpoint(route="locks/check", path="/locks/check", method="POST", scope=READ, body={"names": ["new"]}),
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
    Endpoint(route="freezes", path="/freezes", scope=READ),
    Endpoint(
        route="freezes", path="/freezes", method="POST", scope=Scope.LOCKS_FORCE,
        body={"reason": "a test", "duration_seconds": 60},
    ),
    Endpoint(
        route="freezes/<int:freeze_id>", path="/freezes/{freeze}", method="DELETE", scope=Scope.LOCKS_FORCE,
        other_team=404,
    ),
    Endpoint(route="events", path="/events", scope=Scope.AUDIT_READ),
    Endpoint(route="events/export", path="/events/export?format=csv", scope=Scope.AUDIT_READ),
    Endpoint(route="sessions", path="/sessions", scope=READ),
    Endpoint(route="sessions", path="/sessions", method="POST", scope=WRITE, body={"owner": "me"}),
    Endpoint(route="sessions/<uuid:session_id>", path="/sessions/{session}", scope=READ, own=True, other_team=404),
    Endpoint(
        route="sessions/<uuid:session_id>", path="/sessions/{session}", method="DELETE", scope=WRITE, own=True,
        other_team=404,
    ),
    Endpoint(
        route="sessions/<uuid:session_id>/keepalive", path="/sessions/{session}/keepalive", method="POST",
        scope=WRITE, own=True, other_team=404,
    ),
    Endpoint(route="runs", path="/runs", scope=RUNS),
    Endpoint(route="runs", path="/runs", method="POST", scope=RUNS, also=READ),
    Endpoint(route=ONE_RUN, path="/runs/{run}", scope=RUNS, other_team=404),
    Endpoint(route=f"{ONE_RUN}/export", path="/runs/{run}/export", scope=RUNS, other_team=404),
    *(
        Endpoint(route=f"{ONE_RUN}/{act}", path=f"/runs/{{run}}/{act}", method="POST", scope=RUNS, other_team=404)
        for act in ("drain", "finish")
    ),
    Endpoint(
        route=f"{ONE_RUN}/layers", path="/runs/{run}/layers", method="POST", scope=RUNS, body={"lead": "sub-9"},
        actor_only=True, other_team=404,
    ),
    Endpoint(
        route=f"{ONE_RUN}/actors", path="/runs/{run}/actors", method="POST", scope=RUNS, body={"actor_id": "worker-9"},
        actor_only=True, other_team=404,
    ),
    Endpoint(
        route=f"{ONE_RUN}/actors/<str:actor_id>", path="/runs/{run}/actors/lead", method="DELETE", scope=RUNS,
        other_team=404,
    ),
    Endpoint(route="kv", path="/kv", scope=READ, actor_only=True, other_team=403),
    Endpoint(route="kv/<lockname:path>", path="/kv/shared/1", scope=READ, actor_only=True, other_team=403),
    Endpoint(
        route="kv/<lockname:path>", path="/kv/shared/1", method="PUT", scope=WRITE, body={"value": 1}, actor_only=True,
        other_team=403,
    ),
    Endpoint(
        route="kv/<lockname:path>", path="/kv/shared/1", method="DELETE", scope=WRITE, actor_only=True, other_team=403,
    ),
    Endpoint(route="webhooks", path="/webhooks", scope=HOOKS),
    Endpoint(route="webhooks", path="/webhooks", method="POST", scope=HOOKS, body={"url": "https://hooks.example/in"}),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", scope=HOOKS, other_team=404),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", method="PATCH", scope=HOOKS, other_team=404),
    Endpoint(route=ONE_HOOK, path="/webhooks/{webhook}", method="DELETE", scope=HOOKS, other_team=404),
    Endpoint(route=f"{ONE_HOOK}/deliveries", path="/webhooks/{webhook}/deliveries", scope=HOOKS, other_team=404),
    *(
        Endpoint(
            route=f"{ONE_HOOK}/{act}", path=f"/webhooks/{{webhook}}/{act}", method="POST", scope=HOOKS, other_team=404,
        )
        for act in ("test", "rotate-secret", "replay")
    ),
    Endpoint(
        route=f"{ONE_HOOK}/deliveries/<uuid:delivery_id>/replay",
        path="/webhooks/{webhook}/deliveries/{delivery}/replay", method="POST", scope=HOOKS, other_team=404,
    ),
    Endpoint(route="whoami", path="/whoami"),
    Endpoint(route="auth/token/rotate", path="/auth/token/rotate", method="POST"),
    Endpoint(route="tokens", path="/tokens", scope=Scope.TOKENS_MANAGE),
    Endpoint(route="tokens", path="/tokens", method="POST", scope=Scope.TOKENS_MANAGE, body={"name": "another"}),
    Endpoint(route=ONE_TOKEN, path="/tokens/{token}", scope=Scope.TOKENS_MANAGE, other_team=404),
    Endpoint(route=ONE_TOKEN, path="/tokens/{token}", method="DELETE", scope=Scope.TOKENS_MANAGE, other_team=404),
    Endpoint(
        route=ONE_TOKEN, path="/tokens/{token}?leases=release", method="DELETE", scope=Scope.TOKENS_MANAGE,
        other_team=404,
    ),
]  # fmt: skip

# Without a token, and only if the server has elections on: route and method.
ELECTIONS = {
    ("elections", "POST"),
    ("elections/<str:room>", "GET"),
    ("elections/<str:room>/campaign", "POST"),
    ("elections/<str:room>/renew", "POST"),
    ("elections/<str:room>/resign", "POST"),
    ("elections/<str:room>/watch", "GET"),
}

# Public.
OPEN_PATHS = ("/health", "/status", "/metrics", "/openapi.yaml", "/openapi.json", "/docs")
