"""Runs on the dashboard: the list, the page of a run, its store, and what operators do to it."""

import pytest

from locks.dashboard.runs.queries import hex_dump
from locks.models import Event, Run, Space, Token
from tests.sample_run import SampleRun, sample_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def sample(space: Space) -> SampleRun:
    return sample_run(space)


@pytest.fixture
def run_url(sample: SampleRun) -> str:
    return f"/ui/blue/main/runs/{sample.id}"


def text_of(reply) -> str:
    assert reply.status_code == 200
    return reply.content.decode()


def test_the_list_shows_state_lead_actors_and_leases(sample, victor, visit):
    page = text_of(visit(victor).get("/ui/blue/main/runs"))
    assert "nightly" in page
    assert ">Active<" in page.replace("</svg>", ">")
    assert 'data-label="Actors"><b>4</b>' in page
    assert 'data-label="Leases"><b>2</b>' in page
    assert "nightly" not in text_of(visit(victor).get("/ui/blue/main/runs?state=finished"))


def test_without_runs_the_page_says_how_to_start_one(space, victor, visit):
    assert "POST /runs" in text_of(visit(victor).get("/ui/blue/main/runs"))


def test_a_run_shows_its_tree_and_leases_under_their_short_names(sample, run_url, victor, visit):
    page = text_of(visit(victor).get(run_url))
    for text in ("research", "worker-1", "worker-2", "sub-1", "layer:next-chunk", "run:deploy", "kv:0", "lease:0"):
        assert text in page
    assert "Force-release…" not in page
    assert "Finish" not in page


def test_the_store_shows_values_pretty_printed_and_binary_as_hex(sample, run_url, olga, visit):
    browser = visit(olga)
    assert "&quot;found&quot;: [\n    1," in text_of(browser.get(f"{run_url}?path=/shared/1"))
    layer = sample.sublead.actor.layer_id
    page = text_of(browser.get(f"{run_url}?layer={layer}&path=/shared/blob"))
    assert "00000010  10 11 12" in page
    assert "no such" not in text_of(browser.get(f"{run_url}?layer=nonsense&path=/nothing"))


def test_viewers_see_values_under_peer_only_if_the_space_allows_it(sample, run_url, space, victor, olga, visit):
    url = f"{run_url}?layer={sample.sublead.actor.layer_id}&path=/peer/worker-1/result"
    assert "the secret of worker-1" in text_of(visit(olga).get(url))
    hidden = text_of(visit(victor).get(url))
    assert "the secret of worker-1" not in hidden
    assert "/peer/worker-1/result" in hidden
    Space.objects.filter(pk=space.pk).update(viewers_see_peer_values=True)
    assert "the secret of worker-1" in text_of(visit(victor).get(url))


def test_an_operator_drains_and_finishes_a_run_with_a_reason(sample, run_url, olga, visit):
    browser = visit(olga)
    assert "grants" not in text_of(browser.get(f"{run_url}/drain"))
    assert browser.post(f"{run_url}/drain").status_code == 302
    assert Run.objects.get().state == "draining"
    assert browser.post(f"{run_url}/finish", {"reason": ""}).status_code == 422
    assert browser.post(f"{run_url}/finish", {"reason": "host is gone"}).status_code == 302
    run = Run.objects.get()
    assert (run.state, run.finish_reason) == ("finished", "host is gone")
    released = Event.objects.filter(kind="released")
    assert {(event.actor_name, event.reason) for event in released} == {("olga", "host is gone")}
    assert not Token.objects.valid().filter(actor_session_id__isnull=False).exists()
    # Too late.
    for act in ("drain", "finish"):
        assert browser.post(f"{run_url}/{act}", {"reason": "again"}).status_code == 409
    assert "host is gone" in text_of(browser.get(run_url))


def test_an_operator_ends_an_actor(sample, run_url, olga, visit):
    browser = visit(olga)
    assert browser.get(f"{run_url}/actors/nobody/end").status_code == 404
    assert "worker-1" in text_of(browser.get(f"{run_url}/actors/worker-1/end"))
    assert browser.post(f"{run_url}/actors/worker-1/end", {"reason": "hangs"}).status_code == 302
    event = Event.objects.get(kind="actor_ended")
    assert (event.owner, event.reason, event.actor_name) == ("worker-1", "hangs", "olga")
    assert browser.post(f"{run_url}/actors/worker-1/end", {"reason": "hangs"}).status_code == 409
    assert "layer:next-chunk" not in text_of(browser.get(run_url))


def test_exports_that_are_not_read_are_limited(sample, run_url, olga, visit):
    """Each is a file of the size of the run's stores."""
    browser = visit(olga)
    unread = [browser.post(f"{run_url}/export") for _ in range(2)]
    assert browser.post(f"{run_url}/export")["Location"] == run_url
    assert "Too many of your exports" in text_of(browser.get(run_url))
    assert Event.objects.filter(kind="run_exported").count() == 2
    for reply in unread:
        reply.close()


def test_an_export_is_for_operators_and_recorded(sample, run_url, olga, victor, visit):
    assert visit(victor).post(f"{run_url}/export").status_code == 403
    reply = visit(olga).post(f"{run_url}/export")
    assert reply["Content-Disposition"] == f'attachment; filename="run-{sample.id}.json"'
    assert b"/peer/worker-1/result" in b"".join(reply.streaming_content)
    assert Event.objects.get(kind="run_exported").actor_name == "olga"


def test_activity_filters_by_run(sample, space, alice, visit, worker):
    worker.takes("unrelated")
    page = text_of(visit(alice).get(f"/ui/blue/main/activity?run={sample.id}"))
    assert "layer:next-chunk" in page
    assert "unrelated" not in page
    assert "worker-1</bdi> joined" in page or "joined" in page
    # What is no id filters nothing.
    assert "unrelated" in text_of(visit(alice).get("/ui/blue/main/activity?run=nonsense"))


def test_the_page_of_a_lock_leads_to_its_run(sample, victor, visit):
    name = f"layer:{sample.sublead.actor.layer_id}/next-chunk"
    page = text_of(visit(victor).get(f"/ui/blue/main/locks/{name}"))
    assert f'href="/ui/blue/main/runs/{sample.id}"' in page


def test_tokens_of_actors_are_not_on_the_tokens_page(sample, alice, visit):
    page = text_of(visit(alice).get("/ui/blue/main/tokens"))
    assert "orchestrator" in page
    assert "worker-1@" not in page


def test_a_hex_dump_has_offset_digits_and_letters():
    assert hex_dump(b"AB\x00") == "00000000  41 42 00" + " " * 39 + "  AB."
