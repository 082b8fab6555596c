"""The lists of Now and Contention as CSV."""

import csv
import io

import pytest

from locks.dashboard.now import queries
from locks.engine.execution import run
from locks.events.history.rollup import UsageCounts, add_usage
from locks.models import Event

pytestmark = pytest.mark.django_db

NOW, CONTENTION = "/ui/blue/main/export", "/ui/blue/main/contention/export"


def rows(reply) -> list[dict[str, str]]:
    assert reply["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(b"".join(reply.streaming_content).decode())))


def test_the_locks_of_the_filter_are_exported_in_batches(space, worker, victor, visit, monkeypatch):
    monkeypatch.setattr(queries, "EXPORT_BATCH", 2)
    for number in range(5):
        worker.takes(f"deploy/{number}", owner="runner-7", metadata="=1+1")
    worker.takes("other")
    reply = visit(victor).post(f"{NOW}?prefix=deploy/&sort=left")
    assert reply["Content-Disposition"] == 'attachment; filename="blue-main-now.csv"'
    exported = rows(reply)
    assert [row["name"] for row in exported] == [f"deploy/{number}" for number in range(5)]
    assert exported[0]["metadata"] == "'=1+1"
    assert (exported[0]["state"], exported[0]["owner"]) == ("held", "runner-7")
    assert exported[0]["acquired_at"].endswith("Z")
    event = Event.objects.get(kind="list_exported")
    assert (event.actor_name, event.detail) == ("victor", {"page": "now", "prefix": "deploy/"})


def test_names_in_demand_are_exported(space, victor, visit):
    from django.utils import timezone

    minute = timezone.now().replace(second=0, microsecond=0).isoformat()
    names = {"@sum": 7, "deploy": 9}
    run(add_usage([UsageCounts(space_id=space.pk, minute=minute, refused=16, waited=0, waits={}, names=names,
                               waited_names={})]))  # fmt: skip
    exported = rows(visit(victor).post(f"{CONTENTION}?span=1h"))
    assert [(row["name"], row["refused"]) for row in exported] == [("deploy", "9"), ("'@sum", "7")]


def test_an_empty_list_has_its_header(space, victor, visit):
    reply = visit(victor).post(NOW)
    assert b"".join(reply.streaming_content).startswith(b"name,state,owner,")
    assert visit(victor).get(NOW).status_code == 405


def test_too_many_exports_are_refused(space, victor, visit):
    browser = visit(victor)
    under_way = [browser.post(NOW) for _ in range(2)]
    refused = browser.post(NOW)
    assert refused["Location"] == "/ui/blue/main/"
    assert "Too many of your exports" in browser.get("/ui/blue/main/").text
    for reply in under_way:
        reply.close()
    browser.post(NOW).close()
