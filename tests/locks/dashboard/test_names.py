"""Names: the tree of all names, free ones included."""

import pytest

from locks.dashboard.names import queries
from locks.engine.execution import run
from locks.engine.handover import enqueue
from locks.models import Lock, StuckCount
from tests.locks.dashboard.conftest import linked
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer

pytestmark = pytest.mark.django_db


def shown(reply) -> list[tuple[int, str]]:
    return [(node.depth, getattr(node, "label", "more")) for node in reply.context["tree"].nodes]


def row(reply, name: str) -> queries.NodeRow:
    return next(node.row for node in reply.context["tree"].nodes if node.row.name == name)


@pytest.fixture
def url(now_url):
    return f"{now_url}names"


@pytest.fixture
def tree_of_names(worker):
    for name in ("path:src", "deploy/old", "issue:1"):
        worker.gives_back(name, worker.takes(name).lease_id)
    for name in ("path:src/a.rs", "path:src/engine/b.rs", "deploy/api", "deploy/web", "cron", "cron-2"):
        worker.takes(name, owner=f"agent of {name}")


class TestLevels:
    def test_the_top_has_a_node_for_each_folder_namespace_and_lock(self, visit, victor, url, tree_of_names):
        reply = visit(victor).get(url)
        assert shown(reply) == [(0, label) for label in ("cron", "cron-2", "deploy/", "issue:", "path:")]
        assert "a.rs" not in reply.content.decode()

    def test_folders_open_one_by_one_and_show_free_locks(self, visit, victor, url, tree_of_names):
        reply = visit(victor).get(f"{url}?open=deploy/&open=path:&open=issue:")
        assert shown(reply) == [
            (0, "cron"), (0, "cron-2"), (0, "deploy/"), (1, "api"), (1, "old"), (1, "web"), (0, "issue:"), (1, "1"),
            (0, "path:"), (1, "src"),
        ]  # fmt: skip
        assert row(reply, "deploy/old").state == "free"
        # `path:src` is a lock and a folder.
        deeper = visit(victor).get(f"{url}?prefix=path:&open=path:src/")
        assert shown(deeper) == [(0, "src"), (1, "a.rs"), (1, "engine/")]
        assert row(deeper, "path:src").state == "free"

    def test_a_prefix_may_end_within_a_segment(self, visit, victor, url, tree_of_names):
        assert shown(visit(victor).get(f"{url}?prefix=cr")) == [(0, "cron"), (0, "cron-2")]
        assert shown(visit(victor).get(f"{url}?prefix=deploy/w")) == [(0, "web")]
        assert shown(visit(victor).get(f"{url}?prefix=path:./src/")) == [(0, "a.rs"), (0, "engine/")]

    def test_each_node_counts_what_is_below_it(self, visit, victor, url, tree_of_names, space, worker_token):
        run(enqueue([WaitingServer(Engine(worker_token)).wait("deploy/api")]))
        stuck = Lock.objects.get(name="path:src/a.rs")
        StuckCount.objects.create(space=space, stuck=1, lock_ids=[stuck.pk], fencing_tokens=[stuck.fencing_token])
        reply = visit(victor).get(f"{url}?open=path:")
        deploy, src = row(reply, "deploy"), row(reply, "path:src")
        assert (deploy.total_names, deploy.total_held, deploy.total_waiters, deploy.total_stuck) == ("3", "2", "1", 0)
        assert (src.total_names, src.total_held, src.total_waiters, src.total_stuck) == ("3", "2", "0", 1)
        assert row(reply, "path:").total_held == "2"

    def test_large_folders_are_counted_and_shown_in_part(self, visit, victor, url, tree_of_names, monkeypatch):
        monkeypatch.setattr(queries, "MAX_COUNTED", 1)
        monkeypatch.setattr(queries, "OPENED_ROWS", 2)
        monkeypatch.setattr(queries, "ROWS", 3)
        first = visit(victor).get(f"{url}?open=deploy/")
        assert shown(first) == [(0, "cron"), (0, "cron-2"), (0, "deploy/"), (1, "api"), (1, "old"), (1, "more")]
        assert row(first, "deploy").total_names == "1+"
        second = visit(victor).get(url + linked(first, "next"))
        assert shown(second) == [(0, "issue:"), (0, "path:")]
        assert shown(visit(victor).get(url + linked(second, "prev")))[0] == (0, "cron")


class TestActions:
    def test_an_operator_prepares_the_release_of_a_folder(self, visit, olga, url, now_url, tree_of_names):
        text = visit(olga).get(url).content.decode()
        assert 'name="prefix" value="deploy/"' in text
        reply = visit(olga).post(f"{now_url}releases/prepare", {"all": "now", "prefix": "deploy/"}, follow=True)
        assert "deploy/api" in reply.content.decode()
        assert "cron-2" not in reply.content.decode()

    def test_a_viewer_gets_links_only(self, visit, victor, url, tree_of_names):
        text = visit(victor).get(url).content.decode()
        assert "?prefix=deploy%2F" in text
        assert "releases/prepare" not in text
        assert "Force-release…" not in text
        assert "Force-release all…" not in text


def test_it_is_refreshed_as_a_fragment(visit, victor, url, worker):
    worker.takes("path:src")
    text = visit(victor).get(url, headers={"HX-Request": "true", "HX-Target": "live-content"}).content.decode()
    assert "path:" in text
    assert "<html" not in text


def test_an_empty_tree_says_what_it_will_show(visit, victor, url, worker):
    assert "No names yet" in visit(victor).get(url).content.decode()
    worker.takes("job")
    assert "No name begins like this" in visit(victor).get(f"{url}?prefix=nothing").content.decode()


def test_any_value_of_a_list_is_valid(visit, victor, url, now_url, tree_of_names):
    for path in (f"{url}?open=%00&open=path:%00&start=%00", f"{now_url}?group=owner&closed=%00&open=%00"):
        assert visit(victor).get(path).status_code == 200


def test_the_names_of_another_space_are_not_in_it(visit, bob, red_space, url, tree_of_names):
    assert shown(visit(bob).get("/ui/red/main/names")) == []
    assert visit(bob).get(url).status_code == 404
