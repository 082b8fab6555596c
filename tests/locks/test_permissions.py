"""Every cell of the table in tests/permissions.py: role by page and act, token scope by endpoint.

What belongs to another team answers 404 everywhere: pages, acts, API, exports and live streams.
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
from locks.models import Event, Membership, Role, Scope, Session, Space, Team, Token, User
from locks.models.team import RESERVED_SLUGS
from locks.services import bulk_release, invites, snooze, tokens, webhooks
from locks.services.audit import Actor
from locks.token_format import parse
from tests.conftest import issue
from tests.permissions import ENDPOINTS, OPEN_PATHS, PAGES, PEOPLE, PERSONAL, Cell, Endpoint, Page


@dataclass(frozen=True, kw_only=True)
class Things:
    """One of everything, of one team."""

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
    webhook: str
    delivery: str
    archived: str

    def fill(self, wanted: Any) -> Any:
        if isinstance(wanted, dict):
            return {key: self.fill(value) for key, value in wanted.items()}
        if isinstance(wanted, list):
            return [self.fill(value) for value in wanted]
        return wanted.format(**vars(self)) if isinstance(wanted, str) else wanted


def make_things(space: Space, *, admin: User, member: User) -> Things:
    team, actor = space.team, Actor.of_user(admin)
    plaintext = issue(space, "worker", "locks:read", "locks:write")
    presented = parse(plaintext)
    assert presented is not None
    asked = requests.Acquire(digest=presented.digest.hex(), name=f"{team.slug}-job", ttl_seconds=600)
    (held,) = run(acquire([asked]))
    _code, invite = invites.create(
        actor=actor, by=admin, team=team, role=Role.VIEWER, lifetime=timedelta(days=1), note="somebody"
    )
    chosen = [bulk_release.SelectedLock(name="gone", fencing_token=1, owner=None)]
    batch = bulk_release.prepare(space=space, user=admin, selection_label="a test", locks=chosen)
    bulk_release.confirm(batch=batch, actor=actor, reason="a test", lock_delay_seconds=0)
    snooze.snooze(
        space=space, lock_name=held.name, fencing_token=held.fencing_token, owner="worker", hours=1, note="",
        actor=actor,
    )  # fmt: skip
    session = Session.objects.create(
        space=space, token=Token.objects.get(space=space), owner="worker", ttl_seconds=300,
        expires_at=timezone.now() + timedelta(minutes=5),
    )  # fmt: skip
    archived = Space.objects.create(team=team, slug=f"{team.slug}-past", name="Past", archived_at=timezone.now())
    _secret, webhook = webhooks.create(actor=actor, space=space, url="https://hooks.example/in")
    delivery = webhooks.send_test(actor=actor, webhook=webhook)
    delivery.status, delivery.finished_at = "dead", timezone.now()
    delivery.save()
    return Things(
        plaintext=plaintext, lock=held.name,
        lease=str(held.lease_id), session=str(session.pk), token=plaintext.split("_")[1],
        event=Event.objects.get(space_id=space.pk, kind="acquired").pk,
        team_event=Event.objects.get(team_id=team.pk, kind="invite_created").pk,
        member=member.pk, invite=invite.pk, batch=batch.pk, snoozed=held.fencing_token,
        webhook=webhook.public_id, delivery=str(delivery.public_id), archived=archived.slug,
    )  # fmt: skip


@pytest.fixture
def blue_things(space, alice, erin) -> Things:
    return make_things(space, admin=alice, member=erin)


@pytest.fixture
def red_things(red_space, bob, red) -> Things:
    ron = User.objects.create_user("ron")
    Membership.objects.create(team=red, user=ron, role=Role.VIEWER)
    return make_things(red_space, admin=bob, member=ron)


@pytest.fixture
def erin(blue: Team) -> User:
    """A member of Blue to whom things are done."""
    user = User.objects.create_user("erin")
    Membership.objects.create(team=blue, user=user, role=Role.VIEWER)
    return user


@pytest.fixture
def browsers(bob, victor, olga, alice, root) -> dict[str, Client]:
    people = {"bob": bob, "victor": victor, "olga": olga, "alice": alice, "root": root}
    opened = {"nobody": Client()}
    for name, user in people.items():
        opened[name] = Client()
        opened[name].force_login(user)
    return opened


def address(page: Page, things: Things, parameters: set[str]) -> str:
    given = {"team": "blue", "space": "main", **things.fill(page.arguments)}
    return reverse(f"dashboard:{page.name}", kwargs={name: given[name] for name in parameters})


def cell_of(reply: Any) -> Cell:
    assert reply.status_code < 500
    match reply.status_code:
        case 403:
            return Cell.FORBIDDEN
        case 404:
            return Cell.NOTHING
        case 302 if reply["Location"].startswith("/ui/sign-in?next="):
            return Cell.SIGN_IN
    return Cell.ALLOWED


def visit(browser: Client, page: Page, path: str, things: Things) -> Cell:
    """In a transaction that is undone, so that one person's act is not in the way of the next one's."""
    with transaction.atomic():
        # The test client keeps the cookies of an answer; whoever was signed out comes back for the next cell.
        cookies = browser.cookies.copy()
        reply = browser.generic(page.method, path, **posted(page, things))
        cell = cell_of(reply)
        if reply.streaming:
            b"".join(reply.streaming_content)
        browser.cookies = cookies
        transaction.set_rollback(True)
    return cell


def posted(page: Page, things: Things) -> dict[str, Any]:
    if page.method == "GET":
        return {}
    body = "&".join(f"{name}={value}" for name, value in things.fill(page.form).items())
    return {"data": body, "content_type": "application/x-www-form-urlencoded"}


@pytest.mark.django_db
def test_role_by_page(browsers, blue_things, red_things):
    parameters = {pattern.name: set(pattern.pattern.converters) for _, pattern in walk(get_resolver().url_patterns)}
    wrong = {}
    for page in PAGES:
        path = address(page, blue_things, parameters[page.name])
        for name, expected in zip(PEOPLE, page.whom.value, strict=True):
            if (found := visit(browsers[name], page, path, blue_things)) != expected:
                wrong[page.method, page.name, name] = found
        if page.arguments and page.finds:
            path = address(page, red_things, parameters[page.name])
            for name in ("alice", "root"):
                if (found := visit(browsers[name], page, path, red_things)) != Cell.NOTHING:
                    wrong[page.method, page.name, f"{name} in Blue, with a thing of Red"] = found
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
    assert known - set(paths) == set(), "these are gone"


@pytest.mark.django_db
def test_every_method_of_a_path_is_in_the_table(blue_things):
    """A page tells which methods it takes when it is asked with one that nobody has."""
    known = {(page.name, page.method) for page in PAGES}
    missing = set()
    for route, pattern in walk(get_resolver().url_patterns):
        if not route.startswith("ui/") or pattern.name in PERSONAL:
            continue
        rows = [page for page in PAGES if page.name == pattern.name]
        path = address(rows[0], blue_things, set(pattern.pattern.converters))
        reply = Client().generic("BREW", path)
        taken = reply["Allow"].split(", ") if reply.status_code == 405 else ["GET"]
        missing |= {(pattern.name, method) for method in taken if method not in ("HEAD", "OPTIONS")} - known
    assert missing == set(), "add them to PAGES in tests/permissions.py"


def test_no_team_can_be_called_like_a_page():
    firsts = {route.split("/")[1] for route, _ in walk(get_resolver().url_patterns) if route.startswith("ui/")}
    assert {first for first in firsts if first and not first.startswith("<")} <= RESERVED_SLUGS


def test_every_endpoint_is_in_the_table():
    known = {(endpoint.route, endpoint.method) for endpoint in ENDPOINTS}
    found = set()
    for route, pattern in walk(get_resolver().url_patterns):
        if route == "" or route.startswith(("ui/", "admin/")) or f"/{route}" in OPEN_PATHS:
            continue
        methods = [name for name in ("get", "post", "put", "patch", "delete") if hasattr(pattern.callback.cls, name)]
        found |= {(route, method.upper()) for method in methods}
    assert found - known == set(), "add them to ENDPOINTS in tests/permissions.py"
    assert known - found == set(), "these are gone"


def call(endpoint: Endpoint, things: Things, token: str | None) -> Any:
    limits.reset()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = json.dumps(things.fill(endpoint.body)) if endpoint.body is not None else ""
    with transaction.atomic():
        reply = Client().generic(
            endpoint.method, things.fill(endpoint.path), body, content_type="application/json" if body else "",
            headers=headers,
        )  # fmt: skip
        reply.seen = b"".join(reply.streaming_content) if reply.streaming else reply.content
        transaction.set_rollback(True)
    return reply


def tokens_that_are_none(space: Space) -> dict[str, str | None]:
    everything = list(Scope)
    archived = Space.objects.create(team=space.team, slug="old", name="Old", archived_at=timezone.now())
    revoked = issue(space, "revoked", *everything)
    tokens.revoke(actor=Actor.of_shell(), token=Token.objects.get(name="revoked"))
    issued = issue(space, "changed", *everything)
    return {
        "no token": None,
        "not a token": "nonsense",
        "a changed one": issued[:-1] + ("a" if issued[-1] != "a" else "b"),
        "revoked": revoked,
        "expired": issue(space, "expired", *everything, expires_at=timezone.now() - timedelta(seconds=1)),
        "of an archived space": issue(archived, "archived", *everything),
    }


@pytest.mark.django_db
def test_scope_by_endpoint(space, red_space, blue_things):
    bad = tokens_that_are_none(space)
    single = {scope: issue(space, f"only {scope}", scope) for scope in Scope}
    stranger = issue(red_space, "stranger", *Scope)
    wrong: dict[Any, Any] = {}

    def expect(endpoint: Endpoint, who: str, token: str | None, *statuses: int) -> Any:
        reply = call(endpoint, blue_things, token)
        if reply.status_code not in statuses:
            wrong[endpoint.method, endpoint.path, who] = (reply.status_code, statuses)
        return reply

    for endpoint in ENDPOINTS:
        for why, token in bad.items():
            expect(endpoint, why, token, 401)
        for scope, token in single.items():
            if endpoint.scope is not None and scope != endpoint.scope:
                refused = expect(endpoint, scope, token, 403).json()
                assert refused["code"] == "forbidden"
                assert endpoint.scope in refused["details"]
            elif endpoint.own:
                expect(endpoint, f"another token with {scope}", token, 404)
            elif not endpoint.streams:
                expect(endpoint, scope, token, 200, 201, 202, 204)
        if endpoint.own:
            expect(endpoint, "its own token", blue_things.plaintext, 200, 204)
        if not endpoint.streams:
            reply = expect(endpoint, "of another team", stranger, endpoint.elsewhere or 200, 201)
            # Its own space answers, and knows nothing of Blue's holder.
            assert b'"owner":"worker"' not in reply.seen
            assert blue_things.token.encode() not in reply.seen
    assert wrong == {}


@pytest.mark.django_db
@pytest.mark.parametrize("path", OPEN_PATHS)
def test_open_paths_ask_nobody(path):
    assert Client().get(path).status_code == 200


@pytest.mark.django_db
def test_the_admin_console_is_for_staff(browsers):
    assert {name: browsers[name].get("/admin/").status_code for name in PEOPLE} == {
        "nobody": 302, "bob": 302, "victor": 302, "olga": 302, "alice": 302, "root": 200,
    }  # fmt: skip


def test_streams(server, browsers, space, blue_things, red_space):
    """On a real server: they are answered by the event loop."""

    def open_stream(path: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        opened.append(connection)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    opened: list[http.client.HTTPConnection] = []
    cookies = {name: browsers[name].cookies.output(header="", sep=";").strip() for name in PEOPLE}
    live = {name: open_stream("/ui/blue/main/live", Cookie=cookies[name]).status for name in PEOPLE}
    assert live == {"nobody": 404, "bob": 404, "victor": 200, "olga": 200, "alice": 200, "root": 200}
    for endpoint in ENDPOINTS:
        if endpoint.streams:
            path = blue_things.fill(endpoint.path)
            for scope in Scope:
                token = issue(space, f"{endpoint.route} {scope}", scope)
                expected = 200 if scope == endpoint.scope else 403
                assert open_stream(path, Authorization=f"Bearer {token}").status == expected, (endpoint.route, scope)
            assert open_stream(path).status == 401
            stranger = issue(red_space, endpoint.route, *Scope)
            told = open_stream(path, Authorization=f"Bearer {stranger}")
            first = b""
            while b"data:" not in first:
                first += told.readline()
            assert b'"held"' not in first
            assert b"worker" not in first
    for connection in opened:
        connection.close()
