"""Access lists where the API does not reach: lists that change meanwhile, and handovers."""

import pytest
from django.db import transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import set_acl
from locks.models import Lock
from tests.conftest import issue
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer

ACL = ["user:operator"]


@pytest.fixture
def stranger(space) -> Engine:
    return Engine(issue(space, "stranger", "locks:read", "locks:write"))


def restrict(engine: Engine) -> str:
    return run(set_acl(requests.SetAcl(digest=engine.digest, name="deploy", acl=ACL))).verdict


@pytest.mark.usefixtures("committed")
class TestMeanwhile:
    @pytest.fixture
    def free(self, engine, committed):
        engine.release("deploy", engine.acquire("deploy").lease_id)

    def test_a_request_that_waited_for_the_row_sees_the_list_that_was_set(self, engine, stranger, free):
        with concurrent_session() as other:
            with transaction.atomic():
                assert restrict(engine) == "changed"
                future = other.run_blocked(stranger.acquire, "deploy")
            assert future.result(MAX_WAIT).verdict == "not_listed"

    def test_so_does_an_acquire_all(self, engine, stranger, free):
        with concurrent_session() as other:
            with transaction.atomic():
                assert restrict(engine) == "changed"
                future = other.run_blocked(stranger.acquire_all, ["deploy"])
            assert future.result(MAX_WAIT)[0].verdict == "not_listed"

    def test_so_does_a_claim_next(self, engine, stranger, free):
        with concurrent_session() as other:
            with transaction.atomic():
                assert restrict(engine) == "changed"
                future = other.run_blocked(stranger.claim_next, ["deploy"])
            assert future.result(MAX_WAIT).verdict == "held"

    def test_a_holder_that_lost_the_lock_meanwhile_changes_nothing(self, engine, stranger, free):
        lease = stranger.acquire("deploy")
        with concurrent_session() as other:
            with transaction.atomic():
                stranger.release("deploy", lease.lease_id)
                future = other.run_blocked(restrict, stranger)
            assert future.result(MAX_WAIT) == "not_permitted"
        assert Lock.objects.get(name="deploy").acl is None


@pytest.mark.django_db
class TestQueue:
    def test_a_waiter_that_the_list_excludes_is_passed_over(self, engine, stranger):
        lease = engine.acquire("deploy")
        waiters = WaitingServer(stranger), WaitingServer(engine)
        for server in waiters:
            assert server.enqueue().verdict == "waiting"
        restrict(engine)
        engine.force_release("deploy", expected_fencing_token=lease.fencing_token)
        passed_over, served = (server.claim_handovers() for server in waiters)
        assert [handover.verdict for handover in passed_over] == []
        assert [handover.verdict for handover in served] == ["acquired"]

    def test_a_request_that_the_list_excludes_does_not_join(self, engine, stranger):
        engine.acquire("deploy")
        restrict(engine)
        assert WaitingServer(stranger).enqueue().verdict == "retry"
