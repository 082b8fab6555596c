"""The protocol core without a network, on a clock that the test moves."""

import json
from typing import Any

import pytest

from octo import clock, errors, operations
from octo.lease import LeaseBase, LeaseEvent, SessionBase, Status
from octo.protocol import Request, Response, Sleep, lock_path, send_with_retry
from octo.renewer import BATCH_PAUSE, RenewalSet
from octo.watch import lock_events

ID = "11111111-1111-4111-8111-111111111111"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(clock, "now", fake)
    return fake


class Lease(LeaseBase):
    def __init__(self, name: str = "a", *, lease_id: str = ID, ttl: int = 60, sent_at: float = 1000.0) -> None:
        body = {"name": name, "lease_id": lease_id, "fencing_token": 7, "renew_after_ms": ttl * 500}
        super().__init__(body, options={"ttl": ttl}, sent_at=sent_at)
        self.events: list[LeaseEvent] = []
        self.observe(lambda event, _detail: self.events.append(event))


def answer(body: Any, status: int = 200, sent_at: float = 1000.0, **headers: str) -> Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, headers, content, sent_at)


def renewal(lease_id: str = ID, *, seconds: float = 60, **more: Any) -> dict[str, Any]:
    return {"lease_id": lease_id, "expires_at": "2026-01-01T00:00:00Z", "renew_after_ms": int(seconds * 500), **more}


def refusal(code: str) -> dict[str, str]:
    return {"error": "Title", "code": code, "details": "why", "request_id": "req_1"}


def run(operation, time: Clock, *answers: Any) -> Any:
    """Executes an operation: each answer is a response, or an exception. Returns the result and what was sent."""
    left = list(answers)
    requests: list[Request] = []
    try:
        effect = next(operation)
        while True:
            if isinstance(effect, Sleep):
                time.now += effect.seconds
                effect = operation.send(None)
                continue
            requests.append(effect)
            given = left.pop(0)
            time.now += 0.01
            effect = operation.throw(given) if isinstance(given, Exception) else operation.send(given)
    except StopIteration as end:
        return end.value, requests


NOT_OURS = [
    answer(b"<html>"), answer(b'{"lease'), answer([]), answer("ok"), answer(None), answer({"status": "ok"}),
    answer(renewal("22222222-2222-4222-8222-222222222222")), answer({**renewal(), "renew_after_ms": "soon"}),
    answer({**renewal(), "expires_at": "tomorrow"}), answer({}, 302), answer(b"<html>", 404),
    answer({"code": "x"}, 404), answer({"code": "lease_not_current"}, 404), answer(b"", 500), answer(b"[" * 100_000),
]  # fmt: skip


@pytest.mark.parametrize("response", NOT_OURS)
def test_what_the_contract_does_not_say_neither_renews_nor_ends_a_lease(time, response):
    lease, kept = Lease(), RenewalSet()
    kept.add(lease)
    time.now = 1030
    (attempt,), _pause = kept.poll()
    attempt.finish(response)
    assert (lease.status, lease.deadline) == (Status.HELD, 1060)
    assert lease.events == [LeaseEvent.RENEW_FAILED]
    assert 1030 < lease.renew_at < 1038


def test_a_renewal_counts_from_when_it_was_sent(time):
    lease, kept = Lease(), RenewalSet()
    kept.add(lease)
    assert kept.poll() == ([], 1.0)
    time.now = 1030
    (attempt,), _pause = kept.poll()
    assert (attempt.request.path, attempt.request.timeout) == ("/locks/a/renew", 10)
    time.now = 1035
    attempt.finish(answer(renewal(), sent_at=1030))
    assert lease.deadline == 1090
    assert lease.renew_at == 1035 + 55 / 2
    assert lease.events == [LeaseEvent.RENEWED]


def test_an_answer_after_the_deadline_changes_nothing(time):
    lease, kept = Lease(ttl=10), RenewalSet()
    kept.add(lease)
    time.now = 1006
    (attempt,), _pause = kept.poll()
    time.now = 1010
    assert kept.poll() == ([], 1.0)
    assert (lease.status, len(kept)) == (Status.UNCERTAIN, 0)
    attempt.finish(answer(renewal(), sent_at=1006))
    assert lease.status is Status.UNCERTAIN
    assert lease.events == [LeaseEvent.UNCERTAIN]


@pytest.mark.parametrize("code", ["lease_not_current", "not_found", "session_expired"])
def test_only_our_own_error_body_is_a_loss(time, code):
    lease, kept = Lease(), RenewalSet()
    kept.add(lease)
    time.now = 1031
    (attempt,), _pause = kept.poll()
    attempt.finish(answer(refusal(code), 404))
    assert lease.events == [LeaseEvent.LOST]
    with pytest.raises(errors.LeaseLost):
        lease.check()


@pytest.mark.parametrize(
    "code", ["authentication_failed", "forbidden", "rate_limited", "unavailable", "internal_error"]
)
def test_other_refusals_are_no_loss(time, code):
    lease, kept = Lease(), RenewalSet()
    kept.add(lease)
    time.now = 1031
    (attempt,), _pause = kept.poll()
    attempt.finish(answer(refusal(code), 503))
    assert lease.status is Status.HELD


def test_many_are_renewed_by_one_request_and_each_has_its_result(time):
    leases = [Lease(f"{number}", lease_id=f"id-{number}") for number in range(4)]
    kept = RenewalSet()
    for lease in leases:
        kept.add(lease)
    time.now = 1030
    (attempt,), _pause = kept.poll()
    assert attempt.request.path == "/locks/renew-all"
    for item in attempt.items:
        item.in_flight = True
    assert kept.poll()[0] == []
    results = [
        {"name": "0", "ok": True, **renewal("id-0")},
        {"name": "1", "ok": False, "lease_id": "id-1", "code": "lease_not_current", "details": "gone"},
        {"name": "2", "ok": True, "lease_id": "id-2"},
    ]
    attempt.finish(answer({"results": results}, sent_at=1030))
    assert [lease.events for lease in leases] == [
        [LeaseEvent.RENEWED], [LeaseEvent.LOST], [LeaseEvent.RENEW_FAILED], [LeaseEvent.RENEW_FAILED]
    ]  # fmt: skip


def test_a_server_without_renew_all_is_asked_one_by_one_for_a_while(time):
    kept = RenewalSet()
    for number in range(2):
        kept.add(Lease(f"{number}", lease_id=f"id-{number}", ttl=600))
    time.now = 1300
    (attempt,), _pause = kept.poll()
    attempt.finish(answer(b"no such route", 404))
    time.now = 1310
    assert [one.request.path for one in kept.poll()[0]] == ["/locks/0/renew", "/locks/1/renew"]
    time.now += BATCH_PAUSE
    assert [one.request.path for one in kept.poll()[0]] == ["/locks/renew-all"]


def test_the_end_of_a_session_ends_its_leases(time):
    class Session(SessionBase):
        pass

    session, lease = Session(ttl=10), Lease()
    session.opened({"session_id": "s", "expires_at": "2026-01-01T00:00:00Z"}, sent_at=1000)
    session.attach(lease)
    time.now = 1010
    assert session.status is Status.UNCERTAIN
    assert lease.status is Status.UNCERTAIN
    assert Session(ttl=4000).ttl == 300


def test_a_request_is_repeated_until_its_time_is_over(time):
    unavailable = answer(refusal("unavailable"), 503)
    reply, requests = run(
        send_with_retry(Request("GET", "/x"), lambda body: body, retry_for=30), time,
        errors.TransportError("no"), unavailable, answer(b"<html>"), answer({"a": 1}),
    )  # fmt: skip
    assert (reply.value, len(requests)) == ({"a": 1}, 4)
    began = time.now
    with pytest.raises(errors.Unavailable):
        run(send_with_retry(Request("GET", "/x"), lambda body: body, retry_for=30), time, *[unavailable] * 100)
    # The last request is sent in time, and each takes a hundredth of a second.
    assert 25 < time.now - began < 30.02


def test_what_must_not_be_sent_twice_is_not(time):
    once = Request("POST", "/x", {}, idempotent=False)
    with pytest.raises(errors.TransportError):
        run(send_with_retry(once, lambda body: body, retry_for=30), time, errors.TransportError("lost"))
    unsent = errors.TransportError("refused", maybe_sent=False)
    assert run(send_with_retry(once, lambda body: body, retry_for=30), time, unsent, answer(1))[0].value == 1


def test_a_second_release_is_fine_only_after_a_lost_answer(time):
    gone = answer(refusal("lease_not_current"), 404)
    release = operations.release("a", ID, retry_for=30)
    assert run(release, time, errors.TransportError("lost"), gone)[0] is None
    with pytest.raises(errors.LeaseNotCurrent):
        run(operations.release("a", ID, retry_for=30), time, gone)
    with pytest.raises(errors.TransportError):
        run(operations.release("a", ID, retry_for=0), time, answer(b"<html>"))


GRANTED = {"status": "acquired", "name": "a", "lease_id": ID, "fencing_token": 7, "renew_after_ms": 30_000}
HELD = {"status": "held", "name": "a", "owner": "b", "retry_after_ms": 1000}


def make(body, *, options, sent_at):
    return LeaseBase(body, options=options, sent_at=sent_at)


def test_a_retry_has_the_same_key_and_a_new_request_another(time):
    lost = errors.TransportError("lost")
    operation = operations.acquire("a", {"wait": 60}, make=make, retry_for=30)
    (lease,), requests = run(operation, time, lost, answer(HELD), answer({**GRANTED}, sent_at=1000.0))
    keys = [request.headers["Idempotency-Key"] for request in requests]
    assert keys[0] == keys[1] != keys[2]
    assert [request.body.get("wait_seconds") for request in requests] == [None, None, 60]
    assert lease.deadline == 1060


def test_an_acquire_takes_no_longer_than_its_wait(time):
    lost = errors.TransportError("lost")
    with pytest.raises(errors.TransportError):
        run(operations.acquire("a", {"wait": 1}, make=make, retry_for=30), time, *[lost] * 100)
    assert time.now <= 1001.5
    operation = operations.acquire("a", {"wait": 1}, make=make, retry_for=30)
    assert next(operation).timeout <= 3
    operation.close()


def test_a_late_answer_is_renewed_before_the_lease_is_used(time):
    """The deadline counts from the request, and that was nearly a lease ago."""
    operation = operations.acquire("a", {"ttl": 60}, make=make, retry_for=30)
    next(operation)
    time.now = 1050
    effect = operation.send(answer(GRANTED, sent_at=1000))
    assert effect.path == "/locks/a/renew"
    with pytest.raises(StopIteration) as end:
        operation.send(answer(renewal(), sent_at=1050))
    assert end.value.value[0].deadline == 1110


@pytest.mark.parametrize("name", ["a/b", "a b", "..", "über", "a%2Fb"])
def test_a_name_is_one_segment(name):
    assert lock_path(name, "renew").count("/") == 3
    assert "/../" not in lock_path(name, "renew")


def test_a_stream_that_breaks_resumes_after_its_last_event(time):
    stream = lock_events(name="a", prefix=None, after=None, retry_for=30)
    assert "Last-Event-ID" not in stream.request().headers
    stream.check_response(answer(b"", **{"content-type": "text/event-stream"}))
    assert stream.feed_line(": comment") == stream.feed_line("id: 5") == []
    stream.feed_line('data: {"event": "acquired", "lock_name": "a"}')
    (event,) = stream.feed_line("")
    assert (event.event, event.id) == ("acquired", "5")
    assert stream.request().headers["Last-Event-ID"] == "5"
    with pytest.raises(errors.TransportError):
        stream.check_response(answer(b"<html>", **{"content-type": "text/html"}))
    for _ in range(100):
        time.now += 1
        try:
            stream.next_backoff(None)
        except errors.TransportError:
            break
    assert 1020 < time.now <= 1032
