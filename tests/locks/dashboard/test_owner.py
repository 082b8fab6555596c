"""Who holds a lock and from where, and the page of one owner."""

import pytest

from locks.api.usage_flusher import usage_flusher
from locks.engine.execution import run
from locks.engine.handover import enqueue
from locks.engine.operations import force_release
from locks.engine.requests import ForceRelease
from locks.models import Lock, Token, TokenClient
from locks.services import token_clients
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer

pytestmark = pytest.mark.django_db

ADDRESS = "192.0.2.7"


@pytest.fixture
def url(now_url):
    return f"{now_url}owner"


@pytest.fixture
def seen(worker):
    """The worker's program was seen at its address."""
    token_clients.record(digest=bytes.fromhex(worker.digest), address=ADDRESS, user_agent="octo/1.2 (build <7>)")


class TestWhoAndWhere:
    def test_the_lock_and_its_row_show_token_address_program_and_session(self, worker, seen, visit, victor, now_url):
        worker.takes("job", owner="runner-7", address=ADDRESS)
        token = Token.objects.get()
        for path in ("locks/job", f"?open={Lock.objects.get().pk}"):
            text = visit(victor).get(now_url + path).content.decode()
            for shown in (token.public_id, ADDRESS, "octo/1.2 (build &lt;7&gt;)", Lock.objects.get().holder_id):
                assert shown in text, path

    def test_a_free_lock_has_no_holder(self, worker, visit, victor, now_url):
        worker.gives_back("job", worker.takes("job", address=ADDRESS).lease_id)
        assert visit(victor).get(f"{now_url}locks/job").context["origin"] is None

    def test_it_is_that_of_the_present_lease(self, worker, visit, victor, now_url):
        worker.gives_back("job", worker.takes("job", address="192.0.2.1").lease_id)
        worker.takes("job", address=ADDRESS)
        assert visit(victor).get(f"{now_url}locks/job").context["origin"].address == ADDRESS

    def test_a_request_leaves_the_program_that_sent_it(self, client, worker_token):
        headers = {"Authorization": f"Bearer {worker_token}", "User-Agent": "x" * 300}
        usage_flusher.reset()
        for address in (ADDRESS, "192.0.2.8"):
            reply = client.post(
                f"/locks/{address}/acquire", "{}", content_type="application/json", headers=headers, REMOTE_ADDR=address
            )
            assert reply.status_code == 200
        usage_flusher.flush()
        clients = TokenClient.objects.order_by("address")
        assert [(one.address, one.user_agent) for one in clients] == [(ADDRESS, "x" * 256), ("192.0.2.8", "x" * 256)]

    def test_the_latest_addresses_of_a_token_are_remembered(self, worker, monkeypatch):
        monkeypatch.setattr(token_clients, "MAX_CLIENTS", 2)
        for number in (1, 2, 3, 1):
            address, agent = f"192.0.2.{number}", f"agent {number}"
            token_clients.record(digest=bytes.fromhex(worker.digest), address=address, user_agent=agent)
        assert sorted(TokenClient.objects.values_list("user_agent", flat=True)) == ["agent 1", "agent 3"]
        token_clients.purge(days=1)
        assert TokenClient.objects.count() == 2


class TestOwner:
    def test_it_shows_locks_waits_history_and_the_failure_rate(
        self, worker, worker_token, seen, visit, victor, url, space, olga
    ):
        worker.gives_back("a", worker.takes("a", owner="runner-7").lease_id)
        held = worker.takes("b", owner="runner-7", address=ADDRESS)
        run(
            force_release(
                [
                    ForceRelease(
                        digest=None, space_id=space.pk, actor_id=olga.pk, actor_name="olga", channel="web", name="b",
                        expected_fencing_token=held.fencing_token, reason="hung",
                    )
                ]
            )
        )  # fmt: skip
        worker.takes("busy", owner="other")
        run(enqueue([WaitingServer(Engine(worker_token)).wait("busy", owner="runner-7")]))
        worker.takes("held", owner="runner-7", address=ADDRESS)
        reply = visit(victor).get(url, {"name": "runner-7"})
        detail = reply.context["detail"]
        assert [lock.name for lock in detail.locks] == ["held"]
        assert [(wait.name, wait.holder, wait.position) for wait in detail.waits] == [("busy", "other", 1)]
        assert [(hold.lock_name, hold.end_label) for hold in detail.holds] == [
            ("b", "Force-released by olga"), ("a", "Released"),
        ]  # fmt: skip
        assert (detail.outcomes.ended, detail.outcomes.forced, detail.outcomes.failure_percent) == (2, 1, 50.0)
        text = reply.content.decode()
        assert ADDRESS in text
        assert "octo/1.2" in text
        assert Token.objects.get().public_id in text
        assert "Force-release all" not in text

    def test_an_owner_that_is_gone_is_found_in_the_history(self, worker, visit, victor, url):
        worker.gives_back("a", worker.takes("a", owner="odd / <name>?").lease_id)
        reply = visit(victor).get(url, {"name": "odd / <name>?"})
        assert reply.status_code == 200
        assert "Not active now" in reply.content.decode()

    def test_an_operator_can_release_all_its_locks(self, worker, visit, olga, url):
        worker.takes("a", owner="runner-7")
        assert "Force-release all" in visit(olga).get(url, {"name": "runner-7"}).content.decode()

    @pytest.mark.parametrize("query", ["", "?name=", "?name=unknown", "?name=%00"])
    def test_an_unknown_owner_is_not_found(self, worker, visit, victor, url, query):
        worker.takes("a", owner="runner-7")
        assert visit(victor).get(url + query).status_code == 404

    def test_another_team_finds_nothing(self, worker, visit, bob, red_space, url):
        worker.takes("a", owner="runner-7")
        assert visit(bob).get(url, {"name": "runner-7"}).status_code == 404
        assert visit(bob).get("/ui/red/main/owner", {"name": "runner-7"}).status_code == 404

    @pytest.mark.parametrize("page", ["", "locks/a", "names", "owners"])
    def test_owners_lead_to_their_page(self, worker, visit, victor, now_url, page):
        worker.takes("a", owner="runner 7")
        assert f'{now_url}owner?name=runner+7"' in visit(victor).get(now_url + page).content.decode()
