"""Two processes with one token and a session each, on a real server: exactly one holds the lock, also after a crash."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from locks.models import Space
from tests.polling import until
from tests.servers import PROJECT_DIR, Api

pytestmark = pytest.mark.timeout(120)

# Opens a session, acquires the lock with it, says so, and never renews.
HOLDER = """
import sys
from tests.servers import Api

api = Api(int(sys.argv[1]), sys.argv[2])
session = api.call("POST", "/sessions", {"ttl_seconds": 10}).json()["session_id"]
lock = {"ttl_seconds": 3600, "session_id": session, "ephemeral": True}
print(api.call("POST", "/locks/deploy/acquire", lock).json()["fencing_token"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=[False, True], ids=["own terms", "octostore's terms"])
def terms(request, server, space) -> None:
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=request.param)


def acquire(api: Api, session: str) -> dict:
    body = {"ttl_seconds": 60, "session_id": session, "ephemeral": True}
    return api.call("POST", "/locks/deploy/acquire", body).json()


@pytest.mark.usefixtures("terms")
def test_of_many_sessions_that_ask_at_once_exactly_one_holds(server, worker_token):
    def ask(_number: int) -> str:
        with closing(Api(server.port, worker_token)) as api:
            session = api.call("POST", "/sessions", {"ttl_seconds": 60}).json()["session_id"]
            return acquire(api, session)["status"]

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(ask, range(16))) == ["acquired"] + ["held"] * 15


@pytest.mark.usefixtures("terms")
def test_when_the_first_is_killed_the_second_gets_the_lock_and_not_before(server, worker_token):
    command = [sys.executable, "-c", HOLDER, str(server.port), worker_token]
    holder = subprocess.Popen(command, cwd=PROJECT_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    first = int(holder.stdout.readline())
    with closing(Api(server.port, worker_token)) as api:
        session = api.call("POST", "/sessions", {"ttl_seconds": 300}).json()["session_id"]
        assert acquire(api, session)["status"] == "held"
        holder.kill()
        holder.communicate()
        second = until(lambda: (answer := acquire(api, session))["status"] == "acquired" and answer)
        assert second["fencing_token"] > first
