"""Whether a lock is in trouble: Now, Lock, Owners, Stuck and the dialogs say the same."""

import pytest

from locks.models import Lock, Token
from locks.services.stuck import count_stuck
from tests.locks.dashboard.test_now import age, names
from tests.locks.dashboard.test_stuck import reasons

pytestmark = pytest.mark.django_db

HOUR = 3600


def verdicts(browser, now_url) -> dict[str, bool]:
    """Whether each page says that the holder of `job` is late."""
    (row,) = browser.get(now_url).context["lock_list"].rows
    (owner,) = browser.get(now_url + "owners").context["owners"].rows
    form = browser.get(now_url + "locks/job/force-release").context["form"]
    return {
        "now": row.lock.is_late,
        "lock": browser.get(now_url + "locks/job").context["lock"].is_late,
        "owners": owner.owner.status.value == "silent",
        "dialog": "typed_name" not in form.fields,
    }


@pytest.mark.parametrize(("minutes", "is_late"), [(2, False), (27, False), (37, True)])
def test_a_holder_is_late_only_after_the_renewal_that_was_advised(worker, visit, olga, now_url, minutes, is_late):
    worker.takes("job", ttl_seconds=HOUR)
    age("job", seconds=minutes * 60)
    assert verdicts(visit(olga), now_url) == dict.fromkeys(("now", "lock", "owners", "dialog"), is_late)


def test_now_and_the_lock_give_the_reasons_that_stuck_gives(worker, visit, victor, now_url):
    worker.takes("older", ttl_seconds=600)
    worker.takes("job", ttl_seconds=HOUR)
    Lock.objects.filter(name="job").update(token_id=revoked_token().pk)
    browser = visit(victor)
    assert reasons(browser.get(now_url + "stuck")) == {"job": ["invalid_token"]}
    reply = browser.get(now_url)
    rows = {row.lock.name: [reason.value for reason, _ in row.reasons] for row in reply.context["lock_list"].rows}
    assert rows == {"older": [], "job": ["invalid_token"]}
    assert "Token no longer valid" in reply.content.decode()
    assert "was revoked" in browser.get(now_url + "locks/job").content.decode()


@pytest.mark.parametrize("query", ["", "?group=owner"])
def test_stuck_locks_come_first_on_now_in_the_order_of_stuck(worker, visit, victor, now_url, query):
    for name in ("calm", "expiring", "revoked", "overdue"):
        worker.takes(name, ttl_seconds=60, owner="runner-1")
    Lock.objects.filter(name="revoked").update(token_id=revoked_token().pk)
    age("expiring", seconds=50)
    age("overdue", seconds=90)
    assert count_stuck() == 3
    browser = visit(victor)
    assert list(reasons(browser.get(now_url + "stuck"))) == ["overdue", "revoked", "expiring"]
    assert names(browser.get(now_url + query)) == ["overdue", "revoked", "expiring", "calm"]


def test_the_next_holder_of_a_stuck_lock_is_not_sorted_first(worker, visit, victor, now_url):
    worker.takes("calm", ttl_seconds=60)
    held = worker.takes("job", ttl_seconds=60)
    Lock.objects.filter(name="job").update(token_id=revoked_token().pk)
    assert count_stuck() == 1
    assert names(visit(victor).get(now_url)) == ["job", "calm"]
    successor = {"fencing_token": held.fencing_token + 1, "token_id": Token.objects.get(name="worker").pk}
    Lock.objects.filter(name="job").update(**successor)
    assert names(visit(victor).get(now_url)) == ["calm", "job"]


def test_a_snoozed_lock_keeps_its_reason_and_is_marked(worker, visit, olga, now_url):
    held = worker.takes("job", ttl_seconds=HOUR)
    Lock.objects.filter(name="job").update(token_id=revoked_token().pk)
    browser = visit(olga)
    browser.post(now_url + "snooze/job", {"fencing_token": held.fencing_token, "hours": 4, "note": "Ada knows"})
    (row,) = browser.get(now_url).context["lock_list"].rows
    assert (row.is_stuck, [reason.value for reason, _ in row.reasons]) == (False, ["invalid_token"])
    assert "Snoozed" in browser.get(now_url).content.decode()


def revoked_token() -> Token:
    worker = Token.objects.get(name="worker")
    return Token.objects.create(
        space=worker.space, name="revoked", public_id="revoked00000", digest=b"0" * 32, scopes=["locks:write"],
        revoked_at="2020-01-01T00:00Z",
    )  # fmt: skip
