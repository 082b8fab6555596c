"""The dashboard through Django's test client; locks are acquired through the engine, as workers do."""

import html
import re
from collections.abc import Callable
from uuid import UUID

import pytest
from django.test import Client

from locks.engine import requests, results
from locks.engine.execution import run
from locks.engine.operations import acquire, release, renew
from locks.models import Space, User
from locks.token_format import parse

Visit = Callable[[User], Client]


@pytest.fixture
def visit() -> Visit:
    """visit(alice) is a browser in which Alice is signed in."""

    def signed_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return signed_in


@pytest.fixture
def later(visit):
    """later(olga) is a browser in which Olga signed in more than fifteen minutes ago."""

    def signed_in(user: User):
        browser = visit(user)
        session = browser.session
        session["confirmed_at"] -= 15 * 60 + 1
        session.save()
        return browser

    return signed_in


class Worker:
    def __init__(self, token: str) -> None:
        presented = parse(token)
        assert presented is not None
        self.digest = presented.digest.hex()

    def takes(self, name: str, **options) -> results.Acquired:
        (outcome,) = run(acquire([requests.Acquire(digest=self.digest, name=name, **options)]))
        assert outcome.verdict == "acquired"
        return outcome

    def renews(self, name: str, lease_id: UUID | None) -> str:
        assert lease_id is not None
        return run(renew([requests.Renew(digest=self.digest, name=name, lease_id=lease_id)]))[0].verdict

    def gives_back(self, name: str, lease_id: UUID | None) -> None:
        assert lease_id is not None
        run(release([requests.Release(digest=self.digest, name=name, lease_id=lease_id)]))


def linked(reply, rel: str) -> str:
    """The query string of the link to the next or previous page."""
    match = re.search(rf'rel="{rel}" href="([^"#]*)', reply.content.decode())
    assert match, f"no {rel} link"
    return html.unescape(match[1])


@pytest.fixture
def worker(worker_token: str) -> Worker:
    return Worker(worker_token)


@pytest.fixture
def now_url(space: Space) -> str:
    return f"/ui/{space.team.slug}/{space.slug}/"
