"""Namespaces on the pages: the settings with their preview, and what blocks a lock."""

import pytest

from locks.engine.execution import run
from locks.engine.handover import enqueue, server_heartbeat
from locks.models import Event, Space
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer

pytestmark = pytest.mark.django_db

TABLE = {"rule-issue": "exact", "rule-path": "tree", "rule-repo": "all", "lock_policy": "warn", "new_rule": "tree"}


@pytest.fixture
def url(now_url):
    return f"{now_url}team/namespaces"


@pytest.fixture
def waiting(worker_token):
    return WaitingServer(Engine(worker_token))


class TestSettings:
    def test_a_namespace_and_the_policy_are_saved_and_on_the_record(self, visit, alice, url, space, worker):
        form = {**TABLE, "rule-issue": "", "new_namespace": "doc", "lock_policy": "require"}
        reply = visit(alice).post(url, form, follow=True)
        assert "Namespaces of Main saved" in reply.content.decode()
        stored = Space.objects.get(pk=space.pk)
        assert stored.namespaces == {"doc:": "tree", "path:": "tree", "repo:": "all"}
        assert stored.lock_policy == "require"
        event = Event.objects.get(kind="space_changed")
        assert event.detail["lock_policy"] == {"from": "warn", "to": "require"}
        assert event.detail["namespaces"]["to"] == stored.namespaces

    def test_leases_that_overlap_under_the_new_table_are_named(self, visit, alice, url, worker):
        for name in ("doc:a", "doc:a/b", "doc:c"):
            worker.takes(name)
        text = visit(alice).post(url, {**TABLE, "new_namespace": "doc:"}, follow=True).content.decode()
        assert "These leases overlap and stay held until they end: doc:a and doc:a/b." in text

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"new_namespace": "Doc:"}, "Lowercase letters"),
            ({"new_namespace": "run:"}, "reserved for runs"),
            ({"new_namespace": "layer:"}, "reserved for runs"),
            ({"rule-path": "some"}, "Select a valid choice"),
            ({"lock_policy": "never"}, "Select a valid choice"),
        ],
    )
    def test_what_is_not_valid_is_refused(self, visit, alice, url, space, wrong, message):
        reply = visit(alice).post(url, {**TABLE, **wrong})
        assert reply.status_code == 422
        assert message in reply.content.decode()
        assert not Event.objects.filter(kind="space_changed").exists()

    def test_the_preview_names_what_a_name_would_block(self, visit, alice, url, space, worker):
        for name in ("path:src/a", "path:src/b", "path:src/c/d", "path:docs", "doc:a", "doc:a/b"):
            worker.takes(name)
        headers = {"HX-Request": "true", "HX-Target": "preview"}
        text = visit(alice).post(f"{url}/preview", {**TABLE, "name": "path:./src/"}, headers=headers).content.decode()
        assert "these 3 held names" in " ".join(text.split())
        assert "path:src/c/d" in text
        assert "path:docs" not in text
        text = visit(alice).post(f"{url}/preview", {**TABLE, "new_namespace": "doc:"}).content.decode()
        assert "leases that are held now overlap" in text
        assert Space.objects.get(pk=space.pk).namespaces == {"issue:": "exact", "path:": "tree", "repo:": "all"}


class TestLock:
    def test_a_lock_shows_what_it_blocks_and_what_blocks_it(self, visit, victor, now_url, worker, waiting):
        worker.takes("path:src/a.rs", owner="holder-1")
        run(server_heartbeat(waiting.id))
        run(enqueue([waiting.wait("path:src", owner="wide-1")]))
        held = visit(victor).get(f"{now_url}locks/path:src/a.rs").content.decode()
        assert "Blocks" in held
        assert "wide-1" in held
        blocked = visit(victor).get(f"{now_url}locks/path:./src/").content.decode()
        assert "Blocked by" in blocked
        assert "holder-1" in blocked

    def test_the_namespace_is_set_off(self, visit, victor, now_url, worker):
        worker.takes("path:src")
        worker.takes("deploy")
        text = visit(victor).get(now_url).content.decode()
        assert '<span class="namespace">path:</span>src' in text
        assert "<bdi>deploy</bdi>" in text

    def test_search_and_filter_take_all_forms_of_a_path(self, visit, victor, now_url, worker):
        worker.takes("path:src/a")
        worker.takes("path:docs")
        for query in ("q=path:./src//a", "prefix=path:./src/"):
            text = visit(victor).get(f"{now_url}?{query}").content.decode()
            assert "path:</span>src/a" in text
            assert "path:</span>docs" not in text
