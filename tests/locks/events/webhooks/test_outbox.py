"""From the history to deliveries: each event once for each webhook that wants it, tried until it is taken or dead."""

import os
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, transaction
from django.test import override_settings

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, release
from locks.events.webhooks import outbox
from locks.events.webhooks.delivery_pool import _attempt
from locks.events.webhooks.encryption import Unreadable, decrypt, encrypt
from locks.events.webhooks.outbox import Claim, claim, fan_out, record_attempt, wait_seconds
from locks.events.webhooks.sending import AttemptResult
from locks.models import Delivery, DeliveryAttempt, Webhook
from locks.services import webhooks
from locks.services.audit import Actor
from locks.token_format import parse
from tests.locks.events.open_transactions import outlast_open_transactions

pytestmark = pytest.mark.usefixtures("committed")

TAKEN = AttemptResult(duration_ms=5, status=200)
FAILED = AttemptResult(duration_ms=5, status=500)


@pytest.fixture
def digest(worker_token: str) -> str:
    return parse(worker_token).digest.hex()


def takes(digest: str, *names: str) -> dict:
    asked = [requests.Acquire(digest=digest, name=name) for name in names]
    return {row.name: row.lease_id for row in run(acquire(asked))}


def gives_back(digest: str, leases: dict) -> None:
    asked = [requests.Release(digest=digest, name=name, lease_id=lease) for name, lease in leases.items()]
    run(release(asked))


def create(space, **terms) -> Webhook:
    _secret, webhook = webhooks.create(
        actor=Actor.of_shell(), space=space, **{"url": "https://hooks.example/in", **terms}
    )
    outlast_open_transactions()
    return webhook


def fan_out_all() -> int:
    outlast_open_transactions()
    return run(fan_out())


def of(webhook: Webhook) -> list[tuple[str, str | None]]:
    return [(delivery.kind, delivery.lock_name) for delivery in webhook.deliveries.order_by("id")]


def test_each_webhook_gets_what_it_wants_of_its_space_once(space, red_space, digest) -> None:
    takes(digest, "before")
    outlast_open_transactions()
    everything = create(space)
    ends = create(space, kinds=["released"])
    jobs = create(space, prefix="jobs/")
    paused = create(space)
    webhooks.pause(actor=Actor.of_shell(), webhook=paused)
    elsewhere = create(red_space)
    gives_back(digest, takes(digest, "jobs/a", "other"))
    assert fan_out_all() == 8
    assert fan_out_all() == 0
    assert of(everything) == [
        ("acquired", "jobs/a"), ("acquired", "other"), ("released", "jobs/a"), ("released", "other"),
    ]  # fmt: skip
    assert of(ends) == [("released", "jobs/a"), ("released", "other")]
    assert of(jobs) == [("acquired", "jobs/a"), ("released", "jobs/a")]
    assert of(elsewhere) == of(paused) == []
    webhooks.resume(actor=Actor.of_shell(), webhook=paused)
    assert fan_out_all() == 4
    assert of(paused) == of(everything)


def test_an_event_that_commits_late_is_delivered_too(space, digest) -> None:
    webhook = create(space)
    with transaction.atomic():
        takes(digest, "began-first")
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (takes(digest, "committed-first"), connection.close())).result()
            thread.submit(lambda: (run(fan_out()), connection.close())).result()
        assert of(webhook) == []
    fan_out_all()
    assert of(webhook) == [("acquired", "began-first"), ("acquired", "committed-first")]


def test_many_workers_make_and_take_each_delivery_once(space, digest, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "FAN_OUT_AT_ONCE", 7)
    webhook = create(space)
    takes(digest, *(f"n{number}" for number in range(40)))
    outlast_open_transactions()

    def work() -> list[int]:
        claimed: list[int] = []
        while run(fan_out()) or len(claimed) < 4:
            if (one := run(claim())) is None:
                break
            claimed.append(one.delivery_id)
        connection.close()
        return claimed

    with ThreadPoolExecutor(4) as threads:
        claimed = [one for job in [threads.submit(work) for _ in range(4)] for one in job.result()]
    fan_out_all()
    assert len(claimed) == len(set(claimed))
    assert {name for _kind, name in of(webhook)} == {f"n{number}" for number in range(40)}
    assert webhook.deliveries.count() == 40


def test_a_receiver_that_does_not_keep_up_leaves_the_rest_in_the_history(space, digest, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MAX_PENDING", 5)
    monkeypatch.setattr(outbox, "FAN_OUT_AT_ONCE", 5)
    webhook = create(space)
    takes(digest, *(f"n{number:02}" for number in range(12)))
    fan_out_all()
    assert fan_out_all() == 0
    assert webhook.deliveries.count() == 5
    webhook.deliveries.update(status="delivered", finished_at="2026-01-01T00:00Z")
    fan_out_all()
    webhook.deliveries.update(status="delivered", finished_at="2026-01-01T00:00Z")
    fan_out_all()
    assert [name for _kind, name in of(webhook)] == [f"n{number:02}" for number in range(12)]


def test_a_position_of_another_server_is_given_up_for_the_end_of_the_history(space, digest) -> None:
    webhook = create(space)
    Webhook.objects.update(commit_position=2**60)
    takes(digest, "before")
    assert fan_out_all() == 0
    takes(digest, "after")
    assert fan_out_all() == 1
    assert of(webhook) == [("acquired", "after")]


def test_a_name_is_told_in_order_and_others_do_not_wait_for_it(space, digest) -> None:
    create(space)
    gives_back(digest, takes(digest, "a"))
    takes(digest, "b")
    fan_out_all()
    first, second = run(claim()), run(claim())
    assert run(claim()) is None
    taken = [Delivery.objects.get(pk=one.delivery_id) for one in (first, second)]
    assert [(one.kind, one.lock_name) for one in taken] == [("acquired", "a"), ("acquired", "b")]
    run(record_attempt(first, TAKEN))
    assert Delivery.objects.get(pk=run(claim()).delivery_id).kind == "released"


def test_one_that_keeps_failing_is_overtaken_in_the_end(space, digest) -> None:
    webhook = create(space)
    gives_back(digest, takes(digest, "a"))
    fan_out_all()
    for number in range(1, outbox.ATTEMPTS_IN_ORDER + 1):
        claimed = run(claim())
        assert claimed.attempt == number
        run(record_attempt(claimed, FAILED))
        assert run(claim()) is None
        in_a_while(webhook)
    kinds = set()
    while (claimed := run(claim())) is not None:
        kinds.add(Delivery.objects.get(pk=claimed.delivery_id).kind)
        run(record_attempt(claimed, TAKEN))
    assert kinds == {"acquired", "released"}


def in_a_while(webhook: Webhook) -> None:
    """As if the time had come for the next attempt."""
    webhook.deliveries.filter(status="pending").update(next_attempt_at="2026-01-01T00:00Z")
    Webhook.objects.update(backoff_until=None)


def test_a_failing_webhook_rests_and_gets_one_attempt_at_a_time(space, digest) -> None:
    webhook = create(space)
    other = create(space)
    takes(digest, *(f"n{number}" for number in range(10)))
    fan_out_all()
    handed_lease_id = []
    while (claimed := run(claim())) is not None:
        handed_lease_id.append(claimed)
    assert len(handed_lease_id) == 2 * outbox.MAX_IN_HAND
    mine = [one for one in handed_lease_id if Delivery.objects.get(pk=one.delivery_id).webhook_id == webhook.pk]
    for one in mine:
        run(record_attempt(one, FAILED))
    assert run(claim()) is None
    webhook.refresh_from_db()
    assert webhook.consecutive_failures == len(mine)
    assert webhook.backoff_until is not None
    in_a_while(webhook)
    assert Delivery.objects.get(pk=run(claim()).delivery_id).webhook_id == webhook.pk
    assert run(claim()) is None
    assert other.deliveries.filter(claimed_until__isnull=False).count() == outbox.MAX_IN_HAND


def test_after_a_day_it_is_dead_and_can_be_replayed(space, digest) -> None:
    webhook = create(space)
    takes(digest, "a")
    fan_out_all()
    webhook.deliveries.update(deadline_at="2026-01-01T00:00Z")
    run(record_attempt(run(claim()), FAILED))
    delivery = webhook.deliveries.get()
    assert (delivery.status, delivery.log.get().status) == ("dead", 500)
    assert run(claim()) is None
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook) == 1
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook) == 0
    in_a_while(webhook)
    run(record_attempt(run(claim()), TAKEN))
    delivery.refresh_from_db()
    assert (delivery.status, delivery.log.count()) == ("delivered", 2)
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook, delivery=delivery) == 1


def test_whoever_dies_with_a_delivery_in_hand_is_followed_by_another(space, digest) -> None:
    webhook = create(space)
    takes(digest, "a")
    fan_out_all()
    lost = run(claim())
    assert run(claim()) is None
    webhook.deliveries.update(claimed_until="2026-01-01T00:00Z")
    again = run(claim())
    assert (again.delivery_id, again.attempt) == (lost.delivery_id, 2)
    # The first was only slow: what it failed at is the second's to decide.
    run(record_attempt(lost, FAILED))
    assert webhook.deliveries.get().claimed_until is not None
    run(record_attempt(again, TAKEN))
    assert webhook.deliveries.get().status == "delivered"
    assert DeliveryAttempt.objects.count() == 2


def test_a_test_goes_out_though_the_webhook_is_paused(space, digest) -> None:
    webhook = create(space)
    takes(digest, "a")
    fan_out_all()
    webhooks.pause(actor=Actor.of_shell(), webhook=webhook)
    assert run(claim()) is None
    delivery = webhooks.send_test(actor=Actor.of_shell(), webhook=webhook)
    assert run(claim()) == Claim(delivery.pk, 1)
    assert run(claim()) is None


def test_the_waits_double_up_to_an_hour_and_are_not_all_the_same() -> None:
    waits = [wait_seconds(attempt) for attempt in range(1, 40)]
    assert 4 <= waits[0] <= 6
    assert all(4 * 2**n <= waits[n] <= 6 * 2**n for n in range(9))
    assert all(2880 <= wait <= 4320 for wait in waits[10:])
    assert len({wait_seconds(5) for _ in range(10)}) > 1
    # Thirty attempts or so in a day.
    assert sum(waits) > 24 * 3600


def test_secrets_are_sealed_and_old_keys_still_open_them(space) -> None:
    webhook = create(space)
    sealed = bytes(Webhook.objects.get(pk=webhook.pk).secret)
    assert decrypt(sealed).startswith("whsec_")
    assert b"whsec" not in sealed
    with psycopg.connect(os.environ["DATABASE_URL"]) as raw:
        dump = raw.execute("SELECT webhook::text FROM octo_webhook AS webhook").fetchall()
    assert decrypt(sealed) not in str(dump)
    with override_settings(SECRET_KEY="k" * 40, SECRET_KEY_FALLBACKS=["a secret for tests, and for nothing else"]):
        assert decrypt(sealed).startswith("whsec_")
        assert decrypt(encrypt("new")) == "new"
    with override_settings(SECRET_KEY="k" * 40), pytest.raises(Unreadable):
        decrypt(sealed)


def test_a_secret_that_cannot_be_read_fails_the_attempt_and_says_so(space, digest) -> None:
    from django.db.models.functions import Now

    webhook = create(space)
    webhooks.send_test(actor=Actor.of_shell(), webhook=webhook)
    delivery = Delivery.objects.select_related("webhook").annotate(now=Now()).get()
    with override_settings(SECRET_KEY="k" * 40):
        assert "Rotate it" in (_attempt(delivery).error or "")
