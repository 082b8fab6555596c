"""Owners: under which token and session they act, and everything they hold."""

import pytest
from django.db import connection

from locks.models import Lock, Session, Token, Waiter
from tests.conftest import issue
from tests.locks.dashboard.conftest import Worker, linked
from tests.locks.dashboard.test_now import age

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(now_url):
    return now_url + "owners"


def found(reply) -> dict[str, tuple[str, int, int]]:
    owners = [row.owner for row in reply.context["owners"].rows]
    return {owner.owner: (owner.status.value, owner.holding, owner.waiting) for owner in owners}


def wait_for(name: str, *, owner: str) -> None:
    token = Token.objects.get()
    Waiter.objects.create(space=token.space, name=name, token=token, owner=owner, deadline_at="2999-01-01T00:00Z")


def test_each_active_owner_has_a_row_with_what_it_holds_and_waits_for(worker, visit, victor, url):
    for number in range(2):
        worker.takes(f"job-{number}", owner="runner-1", ttl_seconds=300)
    worker.takes("lost", owner="runner-2", ttl_seconds=300)
    age("lost", seconds=200)
    wait_for("job-0", owner="runner-3")
    wait_for("job-0", owner="runner-1")
    reply = visit(victor).get(url)
    assert found(reply) == {
        "runner-1": ("alive", 2, 1), "runner-2": ("silent", 1, 0), "runner-3": ("waiting", 0, 1),
    }  # fmt: skip
    assert next(row.owner.owner for row in reply.context["owners"].rows) == "runner-2", "the silent come first"


def test_the_same_owner_under_two_tokens_or_in_a_session_is_two_rows(worker, space, visit, victor, url):
    worker.takes("one", owner="runner-1")
    Worker(issue(space, "other", "locks:write")).takes("two", owner="runner-1")
    session = Session.objects.create(
        space=space, token=Token.objects.get(name="worker"), owner="runner-1", ttl_seconds=60,
        expires_at="2999-01-01T00:00Z",
    )  # fmt: skip
    reply = visit(victor).get(url)
    rows = [row.owner for row in reply.context["owners"].rows]
    assert sorted((owner.token_name, owner.in_session, owner.holding) for owner in rows) == [
        ("other", False, 1), ("worker", False, 1), ("worker", True, 0),
    ]  # fmt: skip
    assert str(session.pk) not in reply.content.decode(), "the id of a session is a secret"


def test_a_lock_of_a_session_is_heartbeating_while_the_session_is_kept_alive(worker, space, visit, victor, url):
    worker.takes("job", owner="runner-1", ttl_seconds=3600)
    age("job", seconds=2400)
    session = Session.objects.create(
        space=space, token=Token.objects.get(), owner="runner-1", ttl_seconds=60, expires_at="2999-01-01T00:00Z"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE octo_lock SET session_id = %s, holder_id = octo_holder_id(%s, %s)",
            [session.pk, Token.objects.get().public_id, session.pk],
        )
    assert found(visit(victor).get(url)) == {"runner-1": ("alive", 1, 0)}
    Session.objects.update(last_keepalive_at="2020-01-01T00:00Z")
    assert found(visit(victor).get(url)) == {"runner-1": ("silent", 1, 0)}


def test_a_row_opens_to_its_locks(worker, visit, victor, url):
    worker.takes("deploy/api", owner="runner-1")
    worker.takes("elsewhere", owner="runner-2")
    closed = visit(victor).get(url)
    (key,) = next(row.toggled for row in closed.context["owners"].rows if row.owner.owner == "runner-1")
    assert "deploy/api" not in closed.content.decode()
    opened = visit(victor).get(f"{url}?open={key}").content.decode()
    assert "deploy/api" in opened
    assert "elsewhere" not in opened


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?q=RUNNER", {"runner-1"}),
        ("?q=%25", set()),
        ("?q=worker", {"runner-1", "cron"}),
        ("?sort=x&page=0&open=y", {"runner-1", "cron"}),
    ],
)
def test_search_and_nonsense(worker, visit, victor, url, query, expected):
    worker.takes("one", owner="runner-1")
    worker.takes("two", owner="cron")
    assert set(found(visit(victor).get(url + query))) == expected


def test_pages_are_turned_and_end(worker, visit, victor, url):
    for number in range(51):
        worker.takes(f"job-{number}", owner=f"runner-{number:02}")
    first = visit(victor).get(url + "?sort=name")
    assert (len(found(first)), first.context["owners"].total) == (50, 51)
    assert set(found(visit(victor).get(url + linked(first, "next")))) == {"runner-50"}
    assert visit(victor).get(url + "?page=99").status_code == 200


def test_only_operators_can_release_all_of_an_owner(worker, visit, victor, olga, bob, url):
    worker.takes("job", owner="runner-1")
    seen = visit(olga).get(url).content.decode()
    assert f"{Lock.objects.get().holder_id}:runner-1" in seen
    assert "Force-release all" in seen
    assert "Force-release all" not in visit(victor).get(url).content.decode()
    assert visit(bob).get(url).status_code == 404


def test_an_empty_space_says_so(visit, victor, url, space):
    assert "No active owners" in visit(victor).get(url).content.decode()
