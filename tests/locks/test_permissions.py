"""Every cell of the table in tests/permissions.py: role by page, and token scope by endpoint.

Resources of another team answer 404 everywhere: pages, forms, API, exports and live streams.
"""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from locks.api.limits import limits
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import Event, Membership, Role, Scope, Session, Space, SpaceRole, Team, Token, Transport, User
from locks.models.team import RESERVED_SLUGS
from locks.services import bulk_release, freezes, invites, snooze, tokens, webhooks
from locks.services.alerts.rules import RuleValues
from locks.services.alerts.rules import create as create_rule
from locks.services.audit import Actor
from locks.token_format import parse
from tests.conftest import issue
from tests.permissions import (
    ANONYMOUS,
    ELECTIONS,
    ENDPOINTS,
    OPEN_PATHS,
    PAGES,
    PERSONAL,
    USERS,
    Access,
    Cell,
    Endpoint,
    Page,
)
from tests.sample_run import sample_run


@dataclass(frozen=True, kw_only=True)
class Fixtures:
    """One object of each kind, of one team."""

    plaintext: str = field(repr=False)
    lock: str
    lease: str
    session: str
    token: str
    event: int
    team_event: int
    member: int
    invite: int
    batch: int
    snoozed: int
    freeze: int
    webhook: str
    delivery: str
    rule: str
    archived: str
    run: str
    lead: str = field(repr=False)

    def fill(self, template: Any) -> Any:
        if isinstance(template, dict):
            return {key: self.fill(value) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value) for value in template]
        return template.format(**vars(self)) if isinstance(template, str) else template


def make_fixtures(space: Space, *, admin: User, member: User) -> Fixtures:
    team, actor = space.team, Actor.of_user(admin)
    plaintext = issue(space, "worker", "locks:read", "locks:write")
    presented = parse(plaintext)
    assert presented is not None
    claim = requests.Acquire(digest=presented.digest.hex(), name=f"{team.slug}-job", ttl_seconds=600)
    (held,) = run(acquire([claim]))
    _code, invite = invites.create(
        actor=actor, by=admin, team=team, role=Role.VIEWER, lifetime=timedelta(days=1), note="for Erin"
    )
    selected = [bulk_release.SelectedLock(name="gone", fencing_token=1, owner=None)]
    batch = bulk_release.prepare(space=space, user=admin, selection_label="a test", locks=selected)
    bulk_release.confirm(batch=batch, actor=actor, reason="a test", lock_delay_seconds=0)
    snooze.snooze(
        space=space, lock_name=held.name, fencing_token=held.fencing_token, owner="worker", hours=1, note="",
        actor=actor,
    )  # fmt: skip
    frozen = freezes.freeze(actor=actor, space=space, prefix="frozen/", reason="a test", duration=timedelta(hours=1))
    session = Session.objects.create(
        space=space, token=Token.objects.get(space=space, name="worker"), owner="worker", ttl_seconds=300,
        expires_at=timezone.now() + timedelta(minutes=5),
    )  # fmt: skip
    archived = Space.objects.create(team=team, slug=f"{team.slug}-past", name="Past", archived_at=timezone.now())
    sample = sample_run(space, name=f"{team.slug}-nightly")
    _secret, webhook = webhooks.create(actor=actor, space=space, url="https://hooks.example/in")
    delivery = webhooks.send_test(actor=actor, webhook=webhook)
    delivery.status, delivery.finished_at = "dead", timezone.now()
    delivery.save()
    values = RuleValues(
        name="On call", kinds=["stuck"], prefix="", transport=Transport.SLACK, destination="https://hooks.example/in"
    )
    _none, rule = create_rule(actor=actor, space=space, values=values)
    return Fixtures(
        plaintext=plaintext, lock=held.name,
        lease=str(held.lease_id), session=str(session.pk), token=plaintext.split("_")[1],
        event=Event.objects.get(space_id=space.pk, kind="acquired", lock_name=held.name).pk,
        team_event=Event.objects.get(team_id=team.pk, kind="invite_created").pk,
        member=member.pk, invite=invite.pk, batch=batch.pk, snoozed=held.fencing_token, freeze=frozen.pk,
        webhook=webhook.public_id, delivery=str(delivery.public_id), rule=rule.public_id, archived=archived.slug,
        run=sample.id, lead=sample.lead.plaintext,
    )  # fmt: skip


@pytest.fixture
def blue_fixtures(space, alice, erin) -> Fixtures:
    return make_fixtures(space, admin=alice, member=erin)


@pytest.fixture
def red_fixtures(red_space, bob, red) -> Fixtures:
    ron = User.objects.create_user("ron")
    Membership.objects.create(team=red, user=ron, role=Role.VIEWER)
    return make_fixtures(red_space, admin=bob, member=ron)


@pytest.fixture
def erin(blue: Team) -> User:
    """The member that the forms change."""
    user = User.objects.create_user("erin")
    Membership.objects.create(team=blue, user=user, role=Role.VIEWER)
    return user


@pytest.fixture
def browsers(bob, victor, olga, alice, root) -> dict[str, Client]:
    browsers = {ANONYMOUS: Client()}
    for user in (bob, victor, olga, alice, root):
        browsers[user.username] = Client()
        browsers[user.username].force_login(user)
    return browsers


def address(page: Page, fixtures: Fixtures, parameters: set[str]) -> str:
    given = {"team": "blue", "space": "main", **fixtures.fill(page.arguments)}
    return reverse(f"dashboard:{page.name}", kwargs={name: given[name] for name in parameters}) + page.query


def cell_of(reply: Any) -> Cell:
    assert reply.status_code < 500
    match reply.status_code:
        case 403:
            return Cell.FORBIDDEN
        case 404:
            return Cell.NOT_FOUND
        case 302 if reply["Location"].startswith("/ui/sign-in?next="):
            return Cell.SIGN_IN
    return Cell.ALLOWED


def visit(browser: Client, page: Page, path: str, fixtures: Fixtures) -> Cell:
    """In a transaction that is rolled back, so that the cells do not affect each other."""
    with transaction.atomic():
        # A response may sign the browser out; the next cell needs the session again.
        cookies = browser.cookies.copy()
        reply = browser.generic(page.method, path, **posted(page, fixtures))
        cell = cell_of(reply)
        if reply.streaming:
            b"".join(reply.streaming_content)
        browser.cookies = cookies
        transaction.set_rollback(True)
    return cell


def posted(page: Page, fixtures: Fixtures) -> dict[str, Any]:
    if page.method == "GET":
        return {}
    body = "&".join(f"{name}={value}" for name, value in fixtures.fill(page.form).items())
    return {"data": body, "content_type": "application/x-www-form-urlencoded"}


@pytest.mark.django_db
@pytest.mark.timeout(180)
def test_role_by_page(browsers, blue_fixtures, red_fixtures):
    parameters = {pattern.name: set(pattern.pattern.converters) for _, pattern in walk(get_resolver().url_patterns)}
    wrong = {}
    for page in PAGES:
        path = address(page, blue_fixtures, parameters[page.name])
        for name, expected in zip(USERS, page.access.value, strict=True):
            if (cell := visit(browsers[name], page, path, blue_fixtures)) != expected:
                wrong[page.method, page.name, name] = cell
        if page.arguments and page.is_404_for_other_team:
            path = address(page, red_fixtures, parameters[page.name])
            for name in ("alice", "root"):
                if (cell := visit(browsers[name], page, path, red_fixtures)) != Cell.NOT_FOUND:
                    wrong[page.method, page.name, f"{name} in Blue, with an argument of Red"] = cell
    assert wrong == {}


# The cells of a user whose role in the space is not that in the team, and those that apply.
SPACE_ROLES = {"olga": (Role.VIEWER, "victor"), "victor": (Role.OPERATOR, "olga"), "alice": (Role.VIEWER, "alice")}


@pytest.mark.django_db
def test_a_role_in_the_space_replaces_that_in_the_team_but_for_admins(browsers, space, blue, blue_fixtures):
    parameters = {pattern.name: set(pattern.pattern.converters) for _, pattern in walk(get_resolver().url_patterns)}
    another = Space.objects.create(team=blue, slug="staging", name="Staging")
    for name, (role, _cells) in SPACE_ROLES.items():
        SpaceRole.objects.create(membership=blue.memberships.get(user__username=name), space=space, role=role)
    wrong = {}
    for page in PAGES:
        if page.access not in (Access.OPERATORS, Access.ADMINS) or page.name in ("archive-space", "restore-space"):
            continue
        path = address(page, blue_fixtures, parameters[page.name])
        for name, (_role, cells) in SPACE_ROLES.items():
            expected = page.access.value[USERS.index(cells)]
            if (cell := visit(browsers[name], page, path, blue_fixtures)) != expected:
                wrong[page.method, page.name, name] = cell
    assert wrong == {}
    # In the other space the role in the team applies.
    prepare = f"/ui/blue/{another.slug}/releases/prepare"
    assert {name: browsers[name].post(prepare).status_code == 403 for name in SPACE_ROLES} == {
        "olga": False, "victor": True, "alice": False,
    }  # fmt: skip


@pytest.mark.django_db
def test_every_form_needs_a_csrf_token_and_every_page_has_a_strict_policy(root, blue_fixtures):
    parameters = {pattern.name: set(pattern.pattern.converters) for _, pattern in walk(get_resolver().url_patterns)}
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(root)
    wrong = {}
    for page in PAGES:
        path = address(page, blue_fixtures, parameters[page.name])
        with transaction.atomic():
            reply = browser.generic(page.method, path, **posted(page, blue_fixtures))
            transaction.set_rollback(True)
        policy = reply.headers.get("Content-Security-Policy", "")
        is_strict = "default-src" in policy and "unsafe-inline" not in policy and "unsafe-eval" not in policy
        if reply.headers.get("Content-Type", "").startswith("text/html") and not is_strict:
            wrong[page.method, page.name] = policy
        if page.method != "GET" and reply.status_code != 403:
            wrong[page.method, page.name] = reply.status_code
    assert wrong == {}


def walk(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, route)
        else:
            yield route, pattern


def test_every_path_of_the_dashboard_is_in_the_table():
    known = {page.name for page in PAGES} | set(PERSONAL)
    paths = {pattern.name: route for route, pattern in walk(get_resolver().url_patterns) if route.startswith("ui/")}
    assert set(paths) - known == set(), "add them to PAGES in tests/permissions.py"
    assert known - set(paths) == set(), "these do not exist any more"


@pytest.mark.django_db
def test_every_method_of_a_path_is_in_the_table(blue_fixtures):
    """A request with an unknown method is answered with the allowed ones."""
    known = {(page.name, page.method) for page in PAGES}
    missing = set()
    for route, pattern in walk(get_resolver().url_patterns):
        if not route.startswith("ui/") or pattern.name in PERSONAL:
            continue
        rows = [page for page in PAGES if page.name == pattern.name]
        path = address(rows[0], blue_fixtures, set(pattern.pattern.converters))
        reply = Client().generic("BREW", path)
        taken = reply["Allow"].split(", ") if reply.status_code == 405 else ["GET"]
        missing |= {(pattern.name, method) for method in taken if method not in ("HEAD", "OPTIONS")} - known
    assert missing == set(), "add them to PAGES in tests/permissions.py"


def test_no_team_can_be_called_like_a_page():
    firsts = {route.split("/")[1] for route, _ in walk(get_resolver().url_patterns) if route.startswith("ui/")}
    assert {first for first in firsts if first and not first.startswith("<")} <= RESERVED_SLUGS


def test_every_endpoint_is_in_the_table():
    known = {(endpoint.route, endpoint.method) for endpoint in ENDPOINTS} | ELECTIONS
    existing = set()
    for route, pattern in walk(get_resolver().url_patterns):
        if route == "" or route.startswith(("ui/", "admin/", "help/")) or f"/{route}" in OPEN_PATHS:
            continue
        methods = [name for name in ("get", "post", "put", "patch", "delete") if hasattr(pattern.callback.cls, name)]
        existing |= {(route, method.upper()) for method in methods}
    assert existing - known == set(), "add them to ENDPOINTS in tests/permissions.py"
    assert known - existing == set(), "these do not exist any more"


def call(endpoint: Endpoint, fixtures: Fixtures, token: str | None) -> Any:
    limits.reset()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = json.dumps(fixtures.fill(endpoint.body)) if endpoint.body is not None else ""
    with transaction.atomic():
        reply = Client().generic(
            endpoint.method, fixtures.fill(endpoint.path), body, content_type="application/json" if body else "",
            headers=headers,
        )  # fmt: skip
        reply.seen = b"".join(reply.streaming_content) if reply.streaming else reply.content
        transaction.set_rollback(True)
    return reply


def invalid_tokens(space: Space) -> dict[str, str | None]:
    scopes = list(Scope)
    archived = Space.objects.create(team=space.team, slug="old", name="Old", archived_at=timezone.now())
    revoked = issue(space, "revoked", *scopes)
    tokens.revoke(actor=Actor.of_shell(), token=Token.objects.get(name="revoked"))
    issued = issue(space, "changed", *scopes)
    return {
        "missing": None,
        "malformed": "nonsense",
        "wrong checksum": issued[:-1] + ("a" if issued[-1] != "a" else "b"),
        "revoked": revoked,
        "expired": issue(space, "expired", *scopes, expires_at=timezone.now() - timedelta(seconds=1)),
        "of an archived space": issue(archived, "archived", *scopes),
    }


@pytest.mark.django_db
def test_scope_by_endpoint(space, red_space, blue_fixtures):
    invalid = invalid_tokens(space)
    single = {scope: issue(space, f"only {scope}", scope) for scope in Scope}
    other_team = issue(red_space, "other-team", *Scope)
    wrong: dict[Any, Any] = {}

    def expect(endpoint: Endpoint, caller: str, token: str | None, *statuses: int) -> Any:
        reply = call(endpoint, blue_fixtures, token)
        if reply.status_code not in statuses:
            wrong[endpoint.method, endpoint.path, caller] = (reply.status_code, statuses)
        return reply

    for endpoint in ENDPOINTS:
        for reason, token in invalid.items():
            expect(endpoint, reason, token, 401)
        for scope, token in single.items():
            if scope == endpoint.or_scope:
                expect(endpoint, scope, token, 200)
            elif endpoint.scope is not None and scope != endpoint.scope:
                error = expect(endpoint, scope, token, 403).json()
                assert error["code"] == "forbidden"
                assert endpoint.scope in error["details"]
            elif endpoint.also is not None:
                assert endpoint.also in expect(endpoint, f"only {scope}", token, 403).json()["details"]
                both = issue(space, f"{endpoint.method} {endpoint.path}", scope, endpoint.also)
                expect(endpoint, f"{scope} and {endpoint.also}", both, 200, 201)
            elif endpoint.actor_only:
                expect(endpoint, f"no actor, with {scope}", token, 403)
            elif endpoint.own:
                expect(endpoint, f"another token with {scope}", token, endpoint.another_token)
            elif not endpoint.streams:
                expect(endpoint, scope, token, 200, 201, 202, 204)
        if endpoint.actor_only:
            expect(endpoint, "a lead", blue_fixtures.lead, 200, 201, 204)
        if endpoint.own:
            expect(endpoint, "its own token", blue_fixtures.plaintext, 200, 204)
        if not endpoint.streams:
            reply = expect(endpoint, "of another team", other_team, endpoint.other_team or 200, 201)
            # The response is about the space of the token, and reveals nothing of Blue.
            assert b'"owner":"worker"' not in reply.seen
            assert blue_fixtures.token.encode() not in reply.seen
    assert wrong == {}


@pytest.mark.django_db
@pytest.mark.parametrize("path", OPEN_PATHS)
def test_open_paths_need_no_token(path):
    assert Client().get(path).status_code == 200


@pytest.mark.django_db
def test_the_admin_console_is_for_staff(browsers):
    assert {name: browsers[name].get("/admin/").status_code for name in USERS} == {
        ANONYMOUS: 302, "bob": 302, "victor": 302, "olga": 302, "alice": 302, "root": 200,
    }  # fmt: skip


def test_streams(server, browsers, space, blue_fixtures, red_space):
    """On a real server, because the event loop answers them."""

    def open_stream(path: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        opened.append(connection)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    opened: list[http.client.HTTPConnection] = []
    cookies = {name: browsers[name].cookies.output(header="", sep=";").strip() for name in USERS}
    live = {name: open_stream("/ui/blue/main/live", Cookie=cookies[name]).status for name in USERS}
    assert live == {ANONYMOUS: 404, "bob": 404, "victor": 200, "olga": 200, "alice": 200, "root": 200}
    for endpoint in ENDPOINTS:
        if endpoint.streams:
            path = blue_fixtures.fill(endpoint.path)
            for scope in Scope:
                token = issue(space, f"{endpoint.route} {scope}", scope)
                expected = 200 if scope == endpoint.scope else 403
                assert open_stream(path, Authorization=f"Bearer {token}").status == expected, (endpoint.route, scope)
            assert open_stream(path).status == 401
            other_team = issue(red_space, endpoint.route, *Scope)
            stream = open_stream(path, Authorization=f"Bearer {other_team}")
            first = b""
            while b"data:" not in first:
                first += stream.readline()
            assert b'"held"' not in first
            assert b"worker" not in first
    for connection in opened:
        connection.close()
