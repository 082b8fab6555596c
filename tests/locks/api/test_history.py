"""GET /events and /locks/{name}/history: who sees what, by which filter, and pages in both directions."""

import pytest
from django.db import connection

from locks.engine.execution import run
from locks.engine.maintenance import sweep
from locks.models import Space, Token
from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def auditor(space: Space) -> str:
    return issue(space, "auditor", "audit:read")


def kinds(reply) -> list[str]:
    assert reply.status_code == 200, reply.content
    return [event["kind"] for event in reply.json()["events"]]


def names(reply) -> list[str]:
    assert reply.status_code == 200, reply.content
    return [event["lock_name"] for event in reply.json()["events"]]


def acquire(call, name: str, **terms) -> dict:
    return call("POST", f"/locks/{name}/acquire", terms or None).json()


def test_the_events_of_a_lock_newest_first(call, auditor):
    lease = acquire(call, "deploy", owner="runner-7", metadata="build=1", ttl_seconds=2)
    pass_seconds(3)
    run(sweep())
    again = acquire(call, "deploy", owner="runner-8")
    call("POST", "/locks/deploy/release", {"lease_id": again["lease_id"]})
    acquire(call, "deploy")
    call("POST", "/locks/deploy/force-release", {"reason": "host is gone"})
    reply = call("GET", "/locks/deploy/history", token=auditor)
    assert kinds(reply) == ["force_released", "acquired", "released", "acquired", "expired", "acquired"]
    forced, *_others, expired, first = reply.json()["events"]
    assert forced["reason"] == "host is gone"
    assert (expired["actor"], expired["held_ms"]) == ({"kind": "system", "name": "expiry"}, 2000)
    assert first["fencing_token"] == lease["fencing_token"]
    assert (first["owner"], first["metadata"], first["actor"]["name"]) == ("runner-7", "build=1", "operator")
    assert first["token"] == Token.objects.get(name="operator").public_id
    assert first["request_id"].startswith("req_")


def test_no_lease_id_is_ever_shown(call, auditor):
    lease = acquire(call, "deploy")
    for path in ("/events", "/locks/deploy/history", "/events/export?format=jsonl", "/events/export"):
        reply = call("GET", path, token=auditor)
        text = (reply.getvalue() if reply.streaming else reply.content).decode()
        assert lease["lease_id"] not in text
        assert "deploy" in text


def test_the_scope_is_needed(call, worker_token):
    for path in ("/events", "/locks/deploy/history", "/events/export"):
        refused = call("GET", path, token=worker_token)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "audit:read" in refused.json()["details"]
        assert call("GET", path, token=None).status_code == 401


def test_other_spaces_are_invisible(call, auditor, red_space):
    stranger = issue(red_space, "stranger", "locks:write", "audit:read")
    call("POST", "/locks/theirs/acquire", token=stranger)
    assert "theirs" not in names(call("GET", "/events", token=auditor))
    assert names(call("GET", "/locks/theirs/history", token=auditor)) == []
    public_id = stranger.split("_")[1]
    assert names(call("GET", f"/events?token={public_id}", token=auditor)) == []
    assert names(call("GET", "/events?name=theirs", token=stranger)) == ["theirs"]


def test_a_token_bound_to_prefixes_sees_these_names_only(call, space):
    for name in ("ci/build", "ci", "deploy", "cj"):
        acquire(call, name)
    bound = issue(space, "bound", "audit:read", prefixes=["ci/", "dep"])
    assert names(call("GET", "/events", token=bound)) == ["deploy", "ci/build"]
    assert names(call("GET", "/events?prefix=c", token=bound)) == ["ci/build"]
    assert call("GET", "/locks/cj/history", token=bound).status_code == 403
    assert names(call("GET", "/locks/ci/build/history", token=bound)) == ["ci/build"]


def test_each_filter_alone_and_together(call, auditor, space):
    acquire(call, "a/1", owner="ada")
    acquire(call, "a/2", owner="bea")
    call("POST", "/locks/a/2/force-release", {"reason": "stuck"})
    other = issue(space, "other", "locks:write")
    request_id = call("POST", "/locks/b/acquire", token=other)["X-Request-Id"]

    def filtered(query: str) -> list[str]:
        return names(call("GET", f"/events?{query}", token=auditor))

    assert filtered("kind=acquired") == ["b", "a/2", "a/1"]
    assert filtered("kind=force_released,token_issued") == [None, "a/2", None, None]
    assert filtered("name=a/1") == ["a/1"]
    assert filtered("prefix=a/&kind=acquired") == ["a/2", "a/1"]
    assert filtered("owner=ada") == ["a/1"]
    assert filtered("actor=other") == ["b"]
    assert filtered("actor=operator") == ["a/2", "a/2", "a/1"]
    assert filtered(f"token={other.split('_')[1]}") == ["b", None]
    assert filtered(f"request_id={request_id}") == ["b"]
    assert filtered("owner=ada&name=b") == []
    assert filtered("token=unknown") == []


def test_a_time_range_includes_its_start_and_not_its_end(call, auditor):
    for name in ("a", "b", "c"):
        acquire(call, name)
    of_b = call("GET", "/locks/b/history", token=auditor).json()["events"][0]["at"]
    assert names(call("GET", f"/events?kind=acquired&since={of_b}", token=auditor)) == ["c", "b"]
    assert names(call("GET", f"/events?kind=acquired&until={of_b}", token=auditor)) == ["a"]


@pytest.mark.parametrize("prefix", ["é", "\ud7ff", "\U0010ffff", "z\U0010ffff"])
def test_a_prefix_ends_where_its_names_end(space, auditor, call, prefix):
    before, after = prefix[:-1] + chr(ord(prefix[-1]) - 1), "\U0010ffff" if prefix[0] != "\U0010ffff" else None
    with connection.cursor() as cursor:
        for name in filter(None, (before, prefix, prefix + "a", after)):
            cursor.execute(
                "INSERT INTO octo_event (kind, space_id, lock_name, actor_kind, actor_name, channel) "
                "VALUES ('released', %s, %s, 'system', 'test', 'task')",
                [space.pk, name],
            )
    reply = call("GET", "/events?" + "prefix=" + "".join(f"%{byte:02x}" for byte in prefix.encode()), token=auditor)
    assert names(reply) == [prefix + "a", prefix]


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+20:00", "2026-01-01T00:00:00-23:59", "9999-12-31T23:59:59-20:00"]
)
def test_any_time_is_a_valid_bound(call, auditor, time):
    for bound in ("since", "until"):
        assert call("GET", f"/events?{bound}={time.replace('+', '%2B')}", token=auditor).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "kind=eaten",
        "limit=0",
        "limit=1001",
        "cursor=x",
        "cursor=e30",
        "since=yesterday",
        "until=",
        "since=2026-01-01T00:00:00",
    ],
)
def test_invalid_parameters_are_refused(call, auditor, query):
    refused = call("GET", f"/events?{query}", token=auditor)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


def test_pages_lead_to_the_end_and_back(call, auditor, space):
    """Many events share a time, as those of a batch do."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_event (at, kind, space_id, lock_name, actor_kind, actor_name, channel) "
            "SELECT now() + n / 7 * interval '1 second', 'released', %s, 'job-' || n, 'system', 'test', 'task' "
            "FROM generate_series(1, 50) AS n",
            [space.pk],
        )
    expected = [f"job-{number}" for number in range(50, 0, -1)]
    pages = [call("GET", "/events?prefix=job-&limit=8", token=auditor).json()]
    assert pages[0]["previous_cursor"] is None
    while cursor_ := pages[-1]["next_cursor"]:
        pages.append(call("GET", f"/events?prefix=job-&limit=8&cursor={cursor_}", token=auditor).json())
    assert [event["lock_name"] for page in pages for event in page["events"]] == expected
    back = [pages[-1]]
    while cursor_ := back[-1]["previous_cursor"]:
        back.append(call("GET", f"/events?prefix=job-&limit=8&cursor={cursor_}", token=auditor).json())
    assert [event["lock_name"] for page in reversed(back) for event in page["events"]] == expected
    assert [page["events"] for page in reversed(back)] == [page["events"] for page in pages]
