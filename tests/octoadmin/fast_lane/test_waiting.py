"""An acquire that waits is answered by the fast lane as it is by the sync lane."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.polling import until
from tests.servers import Response, RunningServer

# A query string is not plain.
QUERY = {"fast": "", "sync": "?plain=no"}
MASKS = (
    (rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"a time"),
    (rb'("(?:lease_id|holder_id)":)"[^"]+"', rb"\1an id"),
    (rb'("(?:fencing_token|renew_after_ms|retry_after_ms|waited_ms)":)\d+', rb"\1a number"),
    (rb"(fast|sync)-", b"one-"),
)


def masked(answer: Response) -> tuple[int, dict[str, str], bytes]:
    """Without what differs between any two answers."""
    content = answer.content
    for pattern, word in MASKS:
        content = re.sub(pattern, word, content)
    own = ("x-request-id", "date", "content-length")
    return answer.status, {k.lower(): v for k, v in answer.headers.items() if k.lower() not in own}, content


def test_both_lanes_answer_the_same_to_those_who_wait(server: RunningServer, worker_token: str) -> None:
    def ask(lane: str, name: str, **body: Any) -> Response:
        return server.api(worker_token).call("POST", f"/locks/{lane}-{name}/acquire{QUERY[lane]}", body)

    def counted(lane: str) -> int:
        scraped = server.api().call("GET", "/metrics").content.decode()
        return sum(
            int(float(n)) for n in re.findall(rf'requests_total{{lane="{lane}",method="POST".*}} (\S+)', scraped)
        )

    api = server.api(worker_token)
    leases = {}
    for lane in QUERY:
        leases[lane] = ask(lane, "busy", owner="runner-7").json()["lease_id"]
        shut = ask(lane, "shut", lock_delay_seconds=60).json()
        api.call("POST", f"/locks/{shut['name']}/release", {"lease_id": shut["lease_id"]})
    before = {lane: counted(lane) for lane in QUERY}
    with ThreadPoolExecutor(8) as pool:
        in_vain = {lane: pool.submit(ask, lane, "busy", wait_seconds=1) for lane in QUERY}
        closed = {lane: pool.submit(ask, lane, "shut", wait_seconds=1) for lane in QUERY}
        for answers in (in_vain, closed):
            assert masked(answers["fast"].result()) == masked(answers["sync"].result())
        assert in_vain["fast"].result().json()["queue_position"] == 1
        assert closed["fast"].result().status == 409
        handed = {lane: pool.submit(ask, lane, "busy", wait_seconds=30, metadata="mine") for lane in QUERY}
        for lane, lease_id in leases.items():
            until(lambda lane=lane: api.call("GET", f"/locks/{lane}-busy").json()["waiters"] == 1)
            api.call("POST", f"/locks/{lane}-busy/release", {"lease_id": lease_id})
        assert masked(handed["fast"].result()) == masked(handed["sync"].result())
        assert handed["fast"].result().json()["status"] == "acquired"
    # Three that waited, each. The releases were the fast lane's too, and it left them to be settled.
    assert counted("sync") - before["sync"] == 5
    assert counted("fast") - before["fast"] == 3
