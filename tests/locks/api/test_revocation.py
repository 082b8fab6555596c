"""A revoked token is refused from its very next request on, also while many are under way."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from locks.models import Event
from tests.conftest import issue

CALLERS = 6
SECONDS = 1.0


def test_nothing_that_starts_after_the_revocation_gets_through(server, space):
    """A few hundred requests a second, reads and writes, on whatever lane answers them."""
    token = issue(space, "busy", "locks:read", "locks:write")
    manager = server.api(issue(space, "manager", "tokens:manage"))
    over = threading.Event()
    # When each request began, and what it got.
    answers: list[tuple[float, int]] = []

    def calls(number: int) -> None:
        api = server.api(token)
        step = 0
        while not over.is_set():
            began = time.monotonic()
            step += 1
            if step % 2:
                status = api.call("GET", f"/locks/job-{number}").status
            else:
                status = api.call("POST", f"/locks/job-{number}-{step}/acquire", {"ttl_seconds": 60}).status
            answers.append((began, status))

    with ThreadPoolExecutor(CALLERS) as threads:
        callers = [threads.submit(calls, number) for number in range(CALLERS)]
        time.sleep(SECONDS)
        assert manager.call("DELETE", f"/tokens/{token.split('_')[1]}").status == 204
        revoked = time.monotonic()
        time.sleep(SECONDS / 2)
        over.set()
        for caller in callers:
            caller.result()
    before = [status for began, status in answers if began < revoked]
    after = [status for began, status in answers if began >= revoked]
    print(f"{before.count(200) / SECONDS:.0f} requests a second before, {len(after)} requests after")
    assert before.count(200) > CALLERS
    # Refused, and soon slowed down like everybody who presents a wrong token.
    assert len(after) > CALLERS
    assert set(after) <= {401, 429}
    assert 401 in before + after
    # What was under way in that moment may have been granted; nothing else was.
    revocation = Event.objects.get(kind="token_revoked")
    granted = Event.objects.filter(kind="acquired", token_id=revocation.token_id)
    assert granted.count() > 0
    assert granted.filter(at__gt=revocation.at).count() <= CALLERS
