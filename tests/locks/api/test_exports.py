"""Exports of the history: whole, safe to open in a spreadsheet, with the filters of the list, and recorded."""

import csv
import io
import json

import pytest

from locks.events.history import export
from locks.models import Event, Space
from tests.conftest import issue

pytestmark = pytest.mark.django_db


@pytest.fixture
def auditor(space: Space) -> str:
    return issue(space, "auditor", "audit:read")


def exported(call, query: str, token: str) -> str:
    reply = call("GET", f"/events/export?{query}", token=token)
    assert reply.status_code == 200
    assert reply.streaming
    assert reply["Cache-Control"] == "no-store"
    return reply.getvalue().decode()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_csv_has_the_events_of_the_list(call, auditor):
    lease = call("POST", "/locks/deploy/acquire", {"owner": "runner-7", "metadata": 'a "quoted", text\nof two lines'})
    (row,) = rows(exported(call, "kind=acquired", auditor))
    (event,) = call("GET", "/events?kind=acquired", token=auditor).json()["events"]
    assert (row["lock_name"], row["owner"]) == ("deploy", "runner-7")
    assert row["metadata"] == 'a "quoted", text\nof two lines'
    assert row["fencing_token"] == str(lease.json()["fencing_token"])
    assert (row["at"], row["id"], row["token"]) == (event["at"], str(event["id"]), event["token"])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1"])
def test_no_cell_of_a_csv_is_a_formula(call, auditor, text):
    call("POST", "/locks/deploy/acquire", {"owner": text, "metadata": text})
    call("POST", "/locks/deploy/force-release", {"reason": f"{text} indeed"})
    for row in rows(exported(call, "name=deploy", auditor)):
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "＝"))
        assert row["metadata"] == f"'{text}"
    json_lines = exported(call, "format=jsonl&kind=acquired", auditor).splitlines()
    assert [json.loads(line)["metadata"] for line in json_lines] == [text]


def test_a_name_that_looks_like_a_formula_is_no_formula_either(call, auditor):
    call("POST", "/locks/=cmd/acquire")
    (row,) = rows(exported(call, "kind=acquired", auditor))
    assert row["lock_name"] == "'=cmd"


def test_json_lines_are_the_events_of_the_list(call, auditor):
    for name in ("a", "b"):
        call("POST", f"/locks/{name}/acquire")
    lines = exported(call, "format=jsonl&kind=acquired", auditor).splitlines()
    assert [json.loads(line) for line in lines] == call("GET", "/events?kind=acquired", token=auditor).json()["events"]


def test_an_export_longer_than_a_batch_is_whole(call, auditor, monkeypatch):
    monkeypatch.setattr(export, "BATCH_SIZE", 7)
    for number in range(30):
        call("POST", f"/locks/job-{number}/acquire")
    names = [row["lock_name"] for row in rows(exported(call, "prefix=job-", auditor))]
    assert names == [f"job-{number}" for number in range(29, -1, -1)]


def test_an_export_is_recorded_with_what_was_asked_for(call, auditor, space):
    exported(call, "format=jsonl&prefix=job-&kind=acquired&since=2026-01-01T00:00:00Z", auditor)
    event = Event.objects.get(kind="history_exported")
    assert (event.actor_name, event.space_id) == ("auditor", space.pk)
    assert event.detail == {
        "format": "jsonl",
        "prefix": "job-",
        "kinds": ["acquired"],
        "since": "2026-01-01T00:00:00Z",
    }


def test_what_is_refused_is_not_recorded(call, auditor, worker_token):
    assert call("GET", "/events/export?format=xls", token=auditor).status_code == 422
    assert call("GET", "/events/export?kind=eaten", token=auditor).status_code == 422
    assert call("GET", "/events/export", token=worker_token).status_code == 403
    assert not Event.objects.filter(kind="history_exported").exists()


def test_an_export_has_nothing_of_other_spaces_or_names_outside_the_prefixes(call, space, red_space):
    stranger = issue(red_space, "stranger", "locks:write")
    call("POST", "/locks/ci/theirs/acquire", token=stranger)
    call("POST", "/locks/ci/ours/acquire")
    call("POST", "/locks/deploy/acquire")
    bound = issue(space, "bound", "audit:read", prefixes=["ci/"])
    assert [row["lock_name"] for row in rows(exported(call, "", bound))] == ["ci/ours"]


def test_exports_that_are_not_read_are_limited_for_each_token_and_team(call, space, red_space, auditor, monkeypatch):
    monkeypatch.setattr(export, "MAX_EXPORTS_PER_ACTOR", 2)
    monkeypatch.setattr(export, "MAX_EXPORTS_PER_TEAM", 3)
    # A team could otherwise get around the limit with further spaces.
    other_space = Space.objects.create(team=space.team, slug="other", name="Other")
    second, stranger = issue(other_space, "second", "audit:read"), issue(red_space, "stranger", "audit:read")

    def start(token: str):
        return call("GET", "/events/export", token=token)

    unread = [start(auditor), start(auditor)]
    refused = start(auditor)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused["Retry-After"] == "10"
    unread.append(start(second))
    assert [start(second).status_code, start(stranger).status_code] == [429, 200]
    assert Event.objects.filter(kind="history_exported").count() == 4
    unread[0].getvalue()
    unread.append(start(second))
    assert [unread[-1].status_code, start(second).status_code] == [200, 429]
