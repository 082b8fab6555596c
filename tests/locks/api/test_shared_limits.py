"""Two servers on one database share the rate limits."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from locks.models import Server
from tests.polling import until
from tests.servers import RunningServer, running_server

RATE = 20
# A bucket holds this many seconds of it.
BURST_SECONDS = 2
REQUESTS = 400


@pytest.mark.timeout(120)
def test_a_token_has_one_limit_on_two_servers(committed: None, worker_token: str) -> None:
    def send(server: RunningServer) -> list[int]:
        api = server.api(worker_token)
        return [api.call("GET", "/locks/deploy").status for _ in range(REQUESTS)]

    environment = {"OCTO_REQUESTS_PER_SECOND": str(RATE)}
    url = os.environ["DATABASE_URL"]
    with running_server(url, **environment) as first, running_server(url, **environment) as second:
        until(lambda: Server.objects.count() == 2, "both servers have reported")
        names = set(Server.objects.values_list("name", flat=True))
        assert {name.rpartition(":")[2] for name in names} == {str(first.port), str(second.port)}
        # Both have learned of each other when they report again.
        seen = dict(Server.objects.values_list("name", "seen_at"))
        until(
            lambda: all(at > seen[name] for name, at in Server.objects.values_list("name", "seen_at")), "another report"
        )
        began = time.monotonic()
        with ThreadPoolExecutor(2) as threads:
            statuses = [status for reply in threads.map(send, (first, second)) for status in reply]
        elapsed = time.monotonic() - began
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= RATE * (BURST_SECONDS + elapsed) + 2
