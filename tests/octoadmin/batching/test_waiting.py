"""A waiting acquire gets the same response from the fast path and from Django, and is counted when it ends."""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from locks.models import Space
from locks.services import freezes
from locks.services.audit import Actor
from tests.polling import until
from tests.servers import Response, RunningServer, running_server

# The fast path leaves requests with a query string to Django.
QUERY = {"batched": "", "django": "?plain=no"}
MASKS = (
    (rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"a time"),
    (rb'("(?:lease_id|holder_id)":)"[^"]+"', rb"\1an id"),
    (rb'("(?:fencing_token|renew_after_ms|retry_after_ms|waited_ms)":)\d+', rb"\1a number"),
    (rb"(batched|django)-", b"one-"),
)


@pytest.fixture
def server(committed: None) -> Iterator[RunningServer]:
    """Of its own: what it has counted is compared."""
    with running_server(os.environ["DATABASE_URL"]) as running:
        yield running


def masked(answer: Response) -> tuple[int, dict[str, str], bytes]:
    """Without what differs between any two responses."""
    content = answer.content
    for pattern, word in MASKS:
        content = re.sub(pattern, word, content)
    own = ("x-request-id", "date", "content-length")
    return answer.status, {k.lower(): v for k, v in answer.headers.items() if k.lower() not in own}, content


def test_waiting_acquires_get_the_same_response_on_both_paths(
    server: RunningServer, worker_token: str, space: Space
) -> None:
    def ask(path: str, name: str, **body: Any) -> Response:
        return server.api(worker_token).call("POST", f"/locks/{path}-{name}/acquire{QUERY[path]}", body)

    def counted(kind: str, status: str) -> int:
        scraped = server.api().call("GET", "/metrics").content.decode()
        series = rf'requests_total{{kind="{kind}",method="POST",status="{status}"}} (\S+)'
        return sum(int(float(n)) for n in re.findall(series, scraped))

    api = server.api(worker_token)
    leases = {}
    for path in QUERY:
        leases[path] = ask(path, "busy", owner="runner-7", ttl_seconds=600).json()["lease_id"]
        shut = ask(path, "shut", lock_delay_seconds=60).json()
        api.call("POST", f"/locks/{shut['name']}/release", {"lease_id": shut["lease_id"]})
        freezes.freeze(
            actor=Actor.of_shell(), space=space, prefix=f"{path}-frozen", reason="ice", duration=timedelta(hours=1)
        )
    with ThreadPoolExecutor(8) as pool:
        timed_out = {path: pool.submit(ask, path, "busy", wait_seconds=1) for path in QUERY}
        cooling_down = {path: pool.submit(ask, path, "shut", wait_seconds=1) for path in QUERY}
        frozen = {path: pool.submit(ask, path, "frozen", wait_seconds=1) for path in QUERY}
        for answers in (timed_out, cooling_down, frozen):
            assert masked(answers["batched"].result()) == masked(answers["django"].result())
        assert timed_out["batched"].result().json()["queue_position"] == 1
        assert cooling_down["batched"].result().status == 409
        assert frozen["batched"].result().json()["reason"] == "ice"
        assert (counted("waiting", "2xx"), counted("waiting", "4xx")) == (2, 4)
        handed = {path: pool.submit(ask, path, "busy", wait_seconds=30, metadata="mine") for path in QUERY}
        for path in QUERY:
            until(lambda path=path: api.call("GET", f"/locks/{path}-busy").json()["waiters"] == 1)
        assert counted("waiting", "2xx") == 2
        for path, lease_id in leases.items():
            api.call("POST", f"/locks/{path}-busy/release", {"lease_id": lease_id})
        assert masked(handed["batched"].result()) == masked(handed["django"].result())
        assert handed["batched"].result().json()["status"] == "acquired"
    assert counted("waiting", "2xx") == 4
    scraped = server.api().call("GET", "/metrics").content.decode()
    (seconds,) = re.findall(r'octoadmin_request_seconds_sum{kind="waiting"} (\S+)', scraped)
    # Six of them waited for a second.
    assert float(seconds) > 5.9
