"""Rate limits: a request beyond the limit is rejected without a query, with the time to retry."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from locks import token_format
from locks.api.election_limits import ElectionLimits
from locks.api.errors import ApiError
from locks.api.limits import Buckets, Limits
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import Event, Space

pytestmark = pytest.mark.django_db


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_allows_its_burst_and_then_its_rate():
    clock = Clock()
    buckets = Buckets(rate=10, burst_seconds=2, clock=clock)
    assert [buckets.take("a") for _ in range(20)] == [0] * 20
    assert buckets.take("a") == 100
    clock.now += 0.1
    assert buckets.take("a") == 0
    assert buckets.take("a") > 0
    assert buckets.take("b") == 0


def test_a_refund_can_be_taken_again():
    buckets = Buckets(rate=1, burst_seconds=1, clock=Clock())
    assert buckets.take("a") == 0
    buckets.charge("a", -1)
    assert [buckets.take("a") > 0 for _ in range(2)] == [False, True]


def test_a_bucket_refills_to_its_burst_and_no_further():
    clock = Clock()
    buckets = Buckets(rate=10, burst_seconds=1, clock=clock)
    buckets.take("a")
    clock.now += 3600
    assert [buckets.take("a") for _ in range(10)] == [0] * 10
    assert buckets.take("a") > 0


def test_a_key_can_have_its_own_rate():
    clock = Clock()
    buckets = Buckets(rate=100, burst_seconds=1, clock=clock)
    buckets.take("a")
    buckets.set_rate("a", 2)
    assert [buckets.take("a") for _ in range(2)] == [0, 0]
    assert buckets.take("a") == 500


def test_the_limits_are_shared_by_all_processes():
    clock = Clock()
    limits = Limits(requests_per_second=10, failures_per_minute=60, processes=1, clock=clock)

    def allowed() -> int:
        """Of a token without a limit of its own, after a pause."""
        clock.now += 3600
        limits.set_rate(b"token", space_id=1, requests_per_second=None)
        count = 0
        while not count > 100:
            try:
                limits.check_token(b"token")
            except ApiError:
                return count
            count += 1
        raise AssertionError

    assert allowed() == 20
    limits.share(4)
    assert allowed() == 5
    limits.share(1)
    assert allowed() == 20


def test_a_space_can_have_its_own_limit(call, space, worker_token):
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)
    answers = [call("POST", f"/locks/n{n}/acquire", token=worker_token) for n in range(20)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert answers[0].status_code == 200
    body = refused[-1].json()
    assert body["code"] == "rate_limited"
    assert 0 < body["retry_after_ms"] <= 1000
    assert int(refused[-1]["Retry-After"]) >= 1
    assert Event.objects.filter(kind="acquired").count() == len(answers) - len(refused)


def test_a_rejected_request_never_reaches_the_database(call, space, worker_token):
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)
    counts: dict[int, int] = {}
    for _ in range(20):
        with CaptureQueriesContext(connection) as queries:
            answer = call("GET", "/whoami", token=worker_token)
        counts[answer.status_code] = len(queries)
    assert counts[200] > 0
    assert counts[429] == 0


def test_an_address_with_invalid_tokens_is_throttled(call, settings):
    attempts = settings.FAILED_AUTHENTICATIONS_PER_MINUTE * 2
    answers = [call("GET", "/locks/a", token=token_format.generate()) for _ in range(attempts)]
    statuses = [answer.status_code for answer in answers]
    assert set(statuses[: settings.FAILED_AUTHENTICATIONS_PER_MINUTE]) == {401}
    assert 429 in statuses
    assert answers[statuses.index(429)].json()["code"] == "rate_limited"


def test_a_valid_token_is_not_throttled_with_its_address():
    limits = Limits(requests_per_second=100, failures_per_minute=1, processes=1)
    limits.set_rate(b"worker", space_id=1, requests_per_second=None)
    limits.record_failure("192.0.2.1", None)
    for other_token in (None, b"another"):
        with pytest.raises(ApiError):
            limits.check_address("192.0.2.1", other_token)
    limits.check_address("192.0.2.1", b"worker")
    limits.check_address("192.0.2.2", b"another")
    limits.record_failure("192.0.2.1", b"worker")
    with pytest.raises(ApiError):
        limits.check_address("192.0.2.1", b"worker")


def test_the_tokens_of_a_space_share_a_limit():
    limits = Limits(requests_per_second=1, failures_per_minute=1, processes=1)
    tokens = [f"token {number}".encode() for number in range(20)]
    for token in tokens:
        limits.check_token(token)
        limits.set_rate(token, space_id=1, requests_per_second=1)
    # Each has a second request, and all together ten.
    for token in tokens[:10]:
        limits.check_room(token)
        limits.check_token(token)
    for check in (limits.check_room, limits.check_token):
        with pytest.raises(ApiError, match="tokens of this space") as refused:
            check(tokens[10])
        assert refused.value.status == 429
    limits.set_rate(b"neighbour", space_id=2, requests_per_second=1)
    limits.check_token(b"neighbour")


def test_the_addresses_of_an_ipv6_network_share_a_limit():
    limits = Limits(requests_per_second=100, failures_per_minute=1, processes=1)
    limits.record_failure("2001:db8::1", None)
    with pytest.raises(ApiError):
        limits.check_address("2001:db8::2", None)
    limits.check_address("2001:db8:0:1::1", None)


@pytest.mark.parametrize(
    ("path", "many"),
    [
        ("/locks/acquire-all", {"names": [f"n{n}" for n in range(10)]}),
        ("/locks/claim-next", {"names": [f"n{n}" for n in range(10)]}),
        ("/locks/renew-all", {"leases": [{"name": f"n{n}", "lease_id": str(uuid4())} for n in range(10)]}),
        ("/locks/release-all", {"leases": [{"name": f"n{n}", "lease_id": str(uuid4())} for n in range(10)]}),
    ],
)
def test_a_request_for_many_names_counts_as_one_for_each(call, space, worker_token, path, many):
    Space.objects.filter(pk=space.pk).update(requests_per_second=2)
    # The limit of its space is known from the first request on.
    assert call("GET", "/whoami", token=worker_token).status_code == 200
    assert call("POST", path, many, token=worker_token).status_code == 200
    refused = call("GET", "/whoami", token=worker_token)
    assert refused.status_code == 429
    assert 2_500 < refused.json()["retry_after_ms"] < 5_000


@pytest.mark.parametrize("path", ["/locks", "/locks?limit=200", "/events?limit=200"])
def test_a_long_list_counts_as_several_requests(call, space, operator_token, path):
    digest = token_format.parse(operator_token).digest.hex()
    run(acquire([requests.Acquire(digest=digest, name=f"job-{n}") for n in range(160)]))
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)
    # The limit of its space is known from the first request on: two at once, and the list is four.
    assert call("GET", "/whoami").status_code == 200
    assert call("GET", path).status_code == 200
    refused = call("GET", "/whoami")
    assert refused.status_code == 429
    assert refused.json()["retry_after_ms"] > 1_500


def test_the_limits_of_elections_are_shared_with_the_other_servers() -> None:
    limits = ElectionLimits(requests_per_minute=60, processes=1)
    limits.check_request("192.0.2.1")
    limits.share(4)
    # A quarter of a minute's requests at once, and a few that come back meanwhile.
    for address in ("192.0.2.1", "192.0.2.2"):
        assert sum(_is_admitted(limits, address) for _ in range(60)) < 30
    streams = [limits.admit_stream("192.0.2.1") for _ in range(2)]
    with pytest.raises(ApiError):
        limits.admit_stream("192.0.2.1")
    assert len(streams) == 2


def _is_admitted(limits: ElectionLimits, address: str) -> bool:
    try:
        limits.check_request(address)
    except ApiError:
        return False
    return True
