"""A space has only so many layers, bytes and actors of runs, and a dump only so many bytes."""

import contextlib

import pytest
from django.db.models.functions import Now

from locks.models import KvEntry, Layer, RunDump, RunState, Token
from locks.runs import export, lifecycle
from locks.services.audit import Actor
from tests.locks.runs.conftest import orchestrator_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def creator(space):
    orchestrator_token(space)
    return Token.objects.select_related("space__team").get(name="orchestrator")


def start(creator, **options):
    options = {"name": None, "metadata": None, "ttl_seconds": 600, "max_depth": 3, "dump": False, **options}
    return lifecycle.start(actor=Actor.of_shell(), creator=creator, **options).actor


def test_layers_of_finished_runs_leave_room_for_new_ones(creator, space, monkeypatch):
    monkeypatch.setattr(lifecycle, "MAX_OPEN_LAYERS", 2)
    lead = start(creator)
    lifecycle.add_layer(actor=Actor.of_shell(), lead=lead, name=None, sublead="sub-1", read_down=False)
    with pytest.raises(lifecycle.SpaceFull, match="2 layers"):
        lifecycle.add_layer(actor=Actor.of_shell(), lead=lead, name=None, sublead="sub-2", read_down=False)
    with pytest.raises(lifecycle.SpaceFull, match="2 layers"):
        start(creator)
    lifecycle.finish(actor=Actor.of_shell(), run_id=lead.run_id, space=space, reason=None)
    start(creator)


def test_bytes_of_finished_runs_count_until_they_are_purged(creator, space, monkeypatch):
    lead = start(creator)
    Layer.objects.filter(pk=lead.layer_id).update(kv_bytes=lifecycle.MAX_STORE_BYTES)
    lifecycle.finish(actor=Actor.of_shell(), run_id=lead.run_id, space=space, reason=None)
    with pytest.raises(lifecycle.SpaceFull, match="4 GiB"):
        start(creator)
    Layer.objects.update(kv_bytes=0)
    start(creator)


def test_an_actor_is_one_of_the_live_sessions_of_a_space(creator, monkeypatch):
    lead = start(creator)
    monkeypatch.setattr(lifecycle, "MAX_LIVE_SESSIONS", 1)
    with pytest.raises(lifecycle.SpaceFull, match="live sessions"):
        lifecycle.add_worker(actor=Actor.of_shell(), lead=lead, name="worker-1")


@pytest.mark.parametrize("max_bytes", [100, export.MAX_DUMP_BYTES])
def test_a_run_finishes_without_a_dump_that_is_too_large(creator, space, monkeypatch, max_bytes):
    monkeypatch.setattr(export, "MAX_DUMP_BYTES", max_bytes)
    lead = start(creator, dump=True)
    KvEntry.objects.create(
        layer_id=lead.layer_id, path="/shared/plan", value=b"x" * 5_000_000, size=5_000_000, encoding="text",
        version=1, written_by="lead", written_at=Now(),
    )  # fmt: skip
    run = lifecycle.finish(actor=Actor.of_shell(), run_id=lead.run_id, space=space, reason=None)
    assert run.state == RunState.FINISHED
    assert RunDump.objects.count() == (max_bytes > 100)
    with contextlib.closing(export.export_response(run.pk, team_id=space.team_id, actor="lead")) as response:
        content = b"".join(response.streaming_content)
    assert content.startswith(b'{"finalized_at"')
    assert len(content) > 5_000_000
