"""Lock: the state and the history of one lock."""

import re

import pytest
from django.test import Client

from locks.models import Lock
from tests.locks.dashboard.test_now import age
from tests.locks.engine.test_freezes import freeze

pytestmark = pytest.mark.django_db


def text_of(client: Client, url: str) -> str:
    return " ".join(client.get(url).content.decode().split())


def test_the_sentence_names_the_holder(worker, visit, victor, now_url):
    held = worker.takes("deploy/api", owner="runner-7")
    age("deploy/api", seconds=12)
    worker.renews("deploy/api", held.lease_id)
    text = text_of(visit(victor), now_url + "locks/deploy/api")
    assert re.search(r"Held by <b><a [^>]*><bdi>runner-7</bdi></a></b> for", text)
    assert re.search(r">1[2-9] s</time>", text)
    assert "none waiting" in text
    assert str(held.lease_id) not in text


def test_the_history_has_the_end_of_each_hold(worker, visit, victor, olga, now_url):
    worker.gives_back("job", worker.takes("job", owner="a").lease_id)
    held = worker.takes("job", owner="b", ttl_seconds=60)
    visit(olga).post(
        now_url + "locks/job/force-release",
        {"fencing_token": held.fencing_token, "reason": "dead host", "lock_delay_seconds": 0, "typed_name": "job"},
    )
    worker.takes("job", owner="c", ttl_seconds=60)
    age("job", seconds=61)
    worker.takes("job", owner="d")
    reply = visit(victor).get(now_url + "locks/job")
    assert [(hold.owner, hold.end_label) for hold in reply.context["holds"]] == [
        ("c", "Expired"),
        ("b", "Force-released by olga"),
        ("a", "Released"),
    ]
    timeline = reply.context["timeline"]
    assert {share.owner for share in timeline.shares} == {"a", "b", "c", "d"}
    assert [end.label.endswith("dead host") for end in timeline.forced_ends] == [True]
    assert reply.context["percentiles"].count == 3


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(70, "the next claim acquires the lock."), (50, "Expiring"), (40, "never renewed (late);")],
)
def test_a_lock_that_needs_attention_says_so(worker, visit, victor, now_url, seconds, words):
    worker.takes("job", ttl_seconds=60)
    age("job", seconds=seconds)
    assert words in text_of(visit(victor), now_url + "locks/job")


def test_a_free_lock_and_one_whose_row_is_gone_still_have_their_history(worker, visit, victor, now_url):
    worker.gives_back("job", worker.takes("job").lease_id)
    assert "Free: the next claim acquires it" in text_of(visit(victor), now_url + "locks/job")
    Lock.objects.all().delete()
    assert "Released" in text_of(visit(victor), now_url + "locks/job")


def test_a_free_lock_that_is_frozen_or_overlaps_is_not_announced_as_free(worker, visit, victor, now_url, space):
    """tell_me.js goes by this."""
    page = now_url + "locks/path:src/a"
    worker.gives_back("path:src/a", worker.takes("path:src/a").lease_id)
    assert 'data-lock-state="free"' in text_of(visit(victor), page)
    overlapping = worker.takes("path:src")
    assert 'data-lock-state="blocked"' in text_of(visit(victor), page)
    assert "Tell me when it is free" in text_of(visit(victor), page)
    worker.gives_back("path:src", overlapping.lease_id)
    freeze(space, "path:")
    assert 'data-lock-state="blocked"' in text_of(visit(victor), page)


def test_a_name_that_was_never_used_has_no_page(visit, victor, now_url):
    assert visit(victor).get(now_url + "locks/never").status_code == 404


def test_holds_are_paged(worker, visit, victor, now_url):
    for _ in range(26):
        worker.gives_back("job", worker.takes("job").lease_id)
    reply = visit(victor).get(now_url + "locks/job")
    assert len(reply.context["holds"]) == 25
    older = visit(victor).get(now_url + "locks/job", {"before": reply.context["older"]})
    assert (len(older.context["holds"]), older.context["older"]) == (1, None)
    assert visit(victor).get(now_url + "locks/job?before=nonsense_1&span=9y").status_code == 200
    for edge in ("0001-01-01T00:00:00+23:59_1", "9999-12-31T23:59:59-23:59_1"):
        assert visit(victor).get(now_url + "locks/job", {"before": edge}).status_code == 200
