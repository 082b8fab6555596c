"""The API of a real server process, over real connections."""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator

import pytest

from locks.models import Event
from tests.conftest import issue
from tests.servers import RunningServer, SharedServers

pytestmark = pytest.mark.timeout(120)

# What the guides of OctoStore send, line by line, and what they say is answered.
LIFE_OF_A_CLAIM = """
curl -X POST https://api.octostore.io/locks/issue-1842/acquire \
-H "Authorization: Bearer ***" \
-H "Content-Type: application/json" \
-d '{"ttl_seconds": 120, "metadata": "runner=agent-7 repo=acme/app issue=1842"}'
"""


@pytest.fixture(params=[{}, {"OCTO_BATCHING": "0"}], ids=["fast path", "django"])
def server(request: pytest.FixtureRequest, committed: None, shared_servers: SharedServers) -> Iterator[RunningServer]:
    """With the fast path, and with Django alone."""
    with shared_servers.used(**request.param) as running:
        yield running


def curl(line: str, *, url: str, token: str) -> bytes:
    command = shlex.split(line.replace("https://api.octostore.io", url).replace("***", token).replace("\\\n", " "))
    return subprocess.run([*command, "--silent", "--show-error"], check=True, capture_output=True).stdout


def test_octostores_curl_lines_work_as_written(server, space):
    token = issue(space, "agent", "locks:read", "locks:write")
    first = json.loads(curl(LIFE_OF_A_CLAIM, url=server.url, token=token))
    assert first["status"] == "acquired"
    assert {"lease_id", "expires_at"} <= set(first)
    second = json.loads(curl(LIFE_OF_A_CLAIM, url=server.url, token=token))
    assert second["status"] == "held"
    assert second["metadata"] == "runner=agent-7 repo=acme/app issue=1842"
    renew = LIFE_OF_A_CLAIM.replace("/acquire", "/renew")
    renew = re.sub(r"-d '.*'", f'-d \'{{"lease_id":"{first["lease_id"]}","ttl_seconds":120}}\'', renew)
    renewed = json.loads(curl(renew, url=server.url, token=token))
    assert renewed["lease_id"] == first["lease_id"]
    assert renewed["expires_at"] >= first["expires_at"]
    release = re.sub(r"-d '.*'", f'-d \'{{"lease_id":"{first["lease_id"]}"}}\'', renew.replace("/renew", "/release"))
    assert curl(release, url=server.url, token=token) == b"null"


def test_five_workers_claim_one_name_a_hundred_times(server, space):
    """Exactly one acquires the lock in each round; the others see the holder; fencing tokens rise."""
    token = issue(space, "fleet", "locks:read", "locks:write")
    workers, rounds = 5, 100
    answers: list[list[dict]] = [[] for _ in range(rounds)]
    barrier = threading.Barrier(workers)
    failures: list[BaseException] = []

    def claim(worker: int) -> None:
        api = server.api(token)
        try:
            for number in range(rounds):
                barrier.wait(30)
                body = {
                    "ttl_seconds": 60,
                    "owner": f"worker-{worker}",
                    "metadata": f"round={number} worker={worker}",
                }
                answer = api.call("POST", f"/locks/round-{number}/acquire", body)
                answers[number].append(answer.json())
        except BaseException as failure:
            failures.append(failure)
            barrier.abort()

    threads = [threading.Thread(target=claim, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for number, round_ in enumerate(answers):
        winners = [answer for answer in round_ if answer["status"] == "acquired"]
        losers = [answer for answer in round_ if answer["status"] == "held"]
        assert (len(winners), len(losers)) == (1, workers - 1)
        for loser in losers:
            for field in ("owner", "metadata", "fencing_token", "expires_at"):
                assert loser[field] == winners[0][field], (number, field)
    assert Event.objects.filter(kind="acquired").count() == rounds


def test_fencing_tokens_of_a_name_rise_from_holder_to_holder(server, space):
    token = issue(space, "fleet", "locks:read", "locks:write")
    tokens: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        api = server.api(token)
        for _ in range(400):
            lease = api.call("POST", "/locks/shared/acquire", {"ttl_seconds": 60}).json()
            if lease["status"] == "acquired":
                with lock:
                    tokens.append(lease["fencing_token"])
                api.call("POST", "/locks/shared/release", {"lease_id": lease["lease_id"]})

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) > 20
    assert tokens == sorted(set(tokens))
    kinds = list(Event.objects.filter(lock_name="shared").order_by("id").values_list("kind", flat=True))
    assert kinds == ["acquired", "released"] * len(tokens)


def test_a_response_has_its_request_id_and_no_server_internals(server, space):
    token = issue(space, "agent", "locks:read")
    answer = server.api(token).call("GET", "/locks/a")
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["X-Request-Id"])
    assert answer.headers["Content-Type"] == "application/json"


def test_paths_are_not_normalised(server, space):
    token = issue(space, "agent", "locks:read", "locks:write")
    api = server.api(token)
    assert api.call("POST", "/locks/path:src%2Fauth.rs/acquire").json()["name"] == "path:src/auth.rs"
    for path in ("/locks/../acquire", "/locks/a/%2e%2e/b/acquire", "/locks/%ff/acquire", "/locks/a%00/acquire"):
        answer = api.call("POST", path)
        assert (answer.status, answer.json()["code"]) == (400, "invalid_lock_name"), path


def test_a_huge_body_is_rejected(server, space):
    token = issue(space, "agent", "locks:read", "locks:write")
    answer = server.api(token).call("POST", "/locks/a/acquire", {"metadata": "x" * 1_000_000})
    assert (answer.status, answer.json()["code"]) == (413, "invalid_input")
