"""Deliveries by Celery's real worker, to receivers that fail, hang, redirect and pour, and after it was killed."""

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta

import pytest

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import Delivery, Event, Space, TaskRun, Webhook
from locks.services import webhooks
from locks.services.audit import Actor
from locks.token_format import parse
from tests.locks.events.webhooks.receiver import Receiver, receiving
from tests.octoadmin.run.test_worker import data, running_worker
from tests.polling import until

__all__ = ["data"]

pytestmark = [pytest.mark.timeout(150), pytest.mark.xdist_group("up"), pytest.mark.usefixtures("committed")]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(autouse=True)
def _loopback_is_allowed(monkeypatch, settings) -> None:
    monkeypatch.setenv("OCTO_WEBHOOK_NETWORKS", "127.0.0.0/8")
    from ipaddress import ip_network

    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]


@pytest.fixture
def digest(worker_token: str) -> str:
    return parse(worker_token).digest.hex()


def create(space: Space, url: str) -> tuple[str, Webhook]:
    return webhooks.create(actor=Actor.of_shell(), space=space, url=url)


def acquire_all(digest: str, *names: str, **options) -> None:
    run(acquire([requests.Acquire(digest=digest, name=name, **options) for name in names]))


def make_due(webhook: Webhook) -> None:
    """Also what was claimed by a worker that died."""
    webhook.deliveries.filter(status="pending").update(next_attempt_at="2026-01-01T00:00Z", claimed_until=None)
    Webhook.objects.filter(pk=webhook.pk).update(backoff_until=None)


def test_bad_receivers_are_retried_and_delay_neither_the_others_nor_the_sweep(space, digest, data, receiver) -> None:
    bad = {path: create(space, receiver.url + path)[1] for path in ("/fails", "/hangs", "/redirects", "/configured")}
    pouring = create(space, f"{receiver.url}/pours")[1]
    secret, good = create(space, f"{receiver.url}/well")
    receiver.status = 503
    names = [f"n{number}" for number in range(8)]
    with running_worker(data):
        test = webhooks.send_test(actor=Actor.of_shell(), webhook=bad["/fails"])
        until(test.log.exists, "the test was tried")
        acquire_all(digest, *names)
        acquire_all(digest, "short", ttl_seconds=1)
        until(lambda: len(receiver.at("/hangs")) > 0, "the hanging one was called")
        # While it hangs, all others get their deliveries, and expired leases are recorded.
        until(lambda: good.deliveries.filter(status="delivered").count() == 10, "all for the good one")
        until(lambda: pouring.deliveries.filter(status="delivered").count() == 10, "all for the pouring one")
        until(lambda: Event.objects.filter(kind="expired", lock_name="short").exists(), "the sweep")
        for path in ("/fails", "/redirects", "/configured"):
            until(lambda path=path: bad[path].deliveries.filter(log__isnull=False).exists(), f"{path} was tried")
            failed = bad[path].deliveries.filter(log__isnull=False).first()
            assert failed.status == "pending"
            assert failed.next_attempt_at > failed.created_at
            bad[path].refresh_from_db()
            assert bad[path].backoff_until is not None
        # After an outage, a receiver gets everything.
        receiver.status = 200
        make_due(bad["/configured"])
        until(lambda: not bad["/configured"].deliveries.exclude(status="delivered").exists(), "all after the outage")
    for received in receiver.at("/well"):
        assert received.is_signed_with(secret)
        assert received.is_signed_as_by_octostore(secret)
        assert not received.is_signed_with("whsec_another")
        assert not received.is_signed_as_by_octostore("whsec_another")
        assert (received.json["lock"], received.json["timestamp"]) == (
            received.json["lock_name"], received.json["observed_at"]
        )  # fmt: skip
        assert received.headers["X-OctoStore-Event-Id"] == received.json["event_id"]
        assert "lease" not in received.json
    assert len({received.headers["X-OctoStore-Delivery-Id"] for received in receiver.at("/well")}) == 10
    assert {received.json["lock_name"] for received in receiver.at("/well")} == {*names, "short"}
    short = [one.json["event"] for one in receiver.at("/well") if one.json["lock_name"] == "short"]
    assert short == ["acquired", "expired"]
    assert receiver.at("/fails")[0].json["event"] == "test"
    assert test.log.first().status == 500
    assert TaskRun.objects.get(name="deliveries").failed is False


@pytest.mark.long
def test_nothing_is_lost_when_the_worker_is_killed(space, digest, data, receiver) -> None:
    secret, webhook = create(space, f"{receiver.url}/slowly")
    old = secret
    names = [f"n{number}" for number in range(20)]
    with running_worker(data) as worker:
        acquire_all(digest, *names[:10])
        until(lambda: len(receiver.at("/slowly")) >= 3, "some were sent")
        acquire_all(digest, *names[10:])
        kill(worker)
    assert Delivery.objects.filter(status="pending").exists() or Delivery.objects.count() < 20
    secret = webhooks.rotate_secret(actor=Actor.of_shell(), webhook=webhook, overlap=timedelta(hours=1))
    with running_worker(data):
        make_due(webhook)
        until(lambda: webhook.deliveries.filter(status="delivered").count() == 20, "all of them")
    received = receiver.at("/slowly")
    assert {one.json["lock_name"] for one in received} == set(names)
    last = received[-1]
    assert last.is_signed_with(secret)
    assert last.is_signed_with(old)
    assert last.is_signed_as_by_octostore(secret)
    assert last.is_signed_as_by_octostore(old, "X-OctoStore-Signature-Previous")


def kill(worker: "subprocess.Popen[bytes]") -> None:
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
