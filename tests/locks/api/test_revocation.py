"""A token that was revoked, or rotated without overlap, is refused from its very next request on, however many requests
a second use it."""

import json
import os
from collections.abc import Iterator
from datetime import datetime

import pytest
from django.db import connection

from locks.models import Event
from tests.conftest import issue
from tests.locks.api.load import request, run_load
from tests.servers import running_server

CONNECTIONS = 32
SECONDS = 1.5
# So that every request is judged by its token.
UNSLOWED = {"OCTO_REQUESTS_PER_SECOND": "100000", "OCTO_FAILED_AUTHENTICATIONS_PER_MINUTE": "1000000"}


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("act", ["revoked", "rotated"])
def test_no_request_succeeds_after_its_token_has_ended(space, act, record_property):
    """Reads and claims, on both paths. The rate is only recorded, because it depends on the machine."""
    token = issue(space, "busy", "locks:read", "locks:write")
    claim = json.dumps({"ttl_seconds": 60}).encode()

    def requests(number: int) -> Iterator[bytes]:
        step = 0
        while True:
            step += 1
            yield request("GET", f"/locks/job-{number}", token)
            yield request("POST", f"/locks/job-{number}-{step}/acquire", token, claim)

    with running_server(os.environ["DATABASE_URL"], **UNSLOWED) as server:
        manager, own = server.api(issue(space, "manager", "tokens:manage")), server.api(token)

        def end() -> None:
            if act == "revoked":
                assert manager.call("DELETE", f"/tokens/{token.split('_')[1]}").status == 204
            else:
                assert own.call("POST", "/auth/token/rotate").status == 200
            with connection.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                acknowledged.append(cursor.fetchone()[0])
            # Of this thread, which ends with the load.
            connection.close()

        acknowledged: list[datetime] = []
        answers, ended = run_load(
            port=server.port, connections=CONNECTIONS, requests=requests, before=SECONDS, after=SECONDS / 3, act=end
        )
    before = [answer for answer in answers if answer.answered < ended]
    after = [answer.status for answer in answers if answer.sent > ended]
    rate = sum(answer.status == 200 for answer in before) / (ended - min(answer.sent for answer in answers))
    record_property("requests_a_second", round(rate))
    print(f"{act}: {rate:.0f} requests a second before, {len(after)} requests after")
    assert len(before) > CONNECTIONS
    assert len(after) > CONNECTIONS
    assert set(after) == {401}
    # What was in progress when the end was acknowledged may have been granted; nothing else was.
    assert Event.objects.filter(kind=f"token_{act}").count() == 1
    granted = Event.objects.filter(kind="acquired", actor_name="busy")
    assert granted.count() > 0
    assert granted.filter(at__gt=acknowledged[0]).count() <= CONNECTIONS
