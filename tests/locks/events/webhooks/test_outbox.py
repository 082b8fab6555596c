"""From the history to deliveries: each event once for each webhook that matches it, tried until delivered or dead."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings

from locks import tasks
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, release
from locks.events.webhooks import outbox
from locks.events.webhooks.delivery_pool import _attempt
from locks.events.webhooks.encryption import DecryptionFailed, decrypt, encrypt
from locks.events.webhooks.outbox import Claim, claim, fan_out, record_attempt, retry_delay
from locks.events.webhooks.payloads import encode_body
from locks.events.webhooks.sending import AttemptResult
from locks.models import Delivery, DeliveryAttempt, Webhook
from locks.services import webhooks
from locks.services.audit import Actor
from locks.token_format import parse
from tests.conftest import issue
from tests.locks.events.open_transactions import wait_for_open_transactions

pytestmark = pytest.mark.usefixtures("committed")

DELIVERED = AttemptResult(duration_ms=5, status=200)
FAILED = AttemptResult(duration_ms=5, status=500)


@pytest.fixture
def digest(worker_token: str) -> str:
    return parse(worker_token).digest.hex()


def acquire_all(digest: str, *names: str) -> dict:
    batch = [requests.Acquire(digest=digest, name=name) for name in names]
    return {row.name: row.lease_id for row in run(acquire(batch))}


def release_all(digest: str, leases: dict) -> None:
    batch = [requests.Release(digest=digest, name=name, lease_id=lease) for name, lease in leases.items()]
    run(release(batch))


def create(space, **terms) -> Webhook:
    _secret, webhook = webhooks.create(
        actor=Actor.of_shell(), space=space, **{"url": "https://hooks.example/in", **terms}
    )
    wait_for_open_transactions()
    return webhook


def fan_out_all() -> int:
    wait_for_open_transactions()
    return run(fan_out())


def of(webhook: Webhook) -> list[tuple[str, str | None]]:
    return [(delivery.kind, delivery.lock_name) for delivery in webhook.deliveries.order_by("id")]


def test_each_webhook_gets_the_matching_events_of_its_space_once(space, red_space, digest) -> None:
    acquire_all(digest, "before")
    wait_for_open_transactions()
    everything = create(space)
    ends = create(space, kinds=["released"])
    jobs = create(space, prefix="jobs/")
    paused = create(space)
    webhooks.pause(actor=Actor.of_shell(), webhook=paused)
    elsewhere = create(red_space)
    release_all(digest, acquire_all(digest, "jobs/a", "other"))
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
        acquire_all(digest, "began-first")
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (acquire_all(digest, "committed-first"), connection.close())).result()
            thread.submit(lambda: (run(fan_out()), connection.close())).result()
        assert of(webhook) == []
    fan_out_all()
    assert of(webhook) == [("acquired", "began-first"), ("acquired", "committed-first")]


def test_many_workers_create_and_claim_each_delivery_once(space, digest, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "FAN_OUT_BATCH_SIZE", 7)
    webhook = create(space)
    acquire_all(digest, *(f"n{number}" for number in range(40)))
    wait_for_open_transactions()

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


def test_deliveries_that_have_to_wait_start_no_thread(space, digest) -> None:
    """Each would open a connection to the database for nothing, once a second."""
    create(space)
    acquire_all(digest, "a", "b")
    wait_for_open_transactions()
    Webhook.objects.update(backoff_until=Now() + timedelta(hours=1))
    assert tasks.deliveries() == "2 created, 0 threads sending"


def test_a_receiver_that_does_not_keep_up_leaves_the_rest_in_the_history(space, digest, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MAX_PENDING", 5)
    monkeypatch.setattr(outbox, "FAN_OUT_BATCH_SIZE", 5)
    webhook = create(space)
    acquire_all(digest, *(f"n{number:02}" for number in range(12)))
    fan_out_all()
    assert fan_out_all() == 0
    assert webhook.deliveries.count() == 5
    webhook.deliveries.update(status="delivered", finished_at="2026-01-01T00:00Z")
    fan_out_all()
    webhook.deliveries.update(status="delivered", finished_at="2026-01-01T00:00Z")
    fan_out_all()
    assert [name for _kind, name in of(webhook)] == [f"n{number:02}" for number in range(12)]


def replace_the_database() -> None:
    """The cursors are of another timeline than the events that come from now on."""
    Webhook.objects.update(cursor_timeline=F("cursor_timeline") - 1)


def test_after_a_failover_a_webhook_gets_a_reset_and_goes_on(space, digest) -> None:
    webhook = create(space, kinds=["acquired"], prefix="a")
    acquire_all(digest, "a1")
    assert fan_out_all() == 1
    acquire_all(digest, "a2")
    replace_the_database()
    assert fan_out_all() == 2
    acquire_all(digest, "a3")
    assert fan_out_all() == 1
    assert of(webhook) == [("acquired", "a1"), ("reset", ""), ("acquired", "a2"), ("acquired", "a3")]
    reset = webhook.deliveries.get(kind="reset")
    body = json.loads(encode_body(reset))
    assert (body["event"], body["lock"], body["lock_name"]) == ("reset", None, None)
    assert body["reason"].startswith("The database was replaced or restored.")
    # The sequence could return one that a lost event had.
    assert reset.event_id < 0


def test_later_events_wait_for_the_reset(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, "a1")
    fan_out_all()
    replace_the_database()
    acquire_all(digest, "a2", "a3")
    fan_out_all()
    claimed = {Delivery.objects.get(pk=run(claim()).delivery_id).lock_name for _ in range(2)}
    assert claimed == {"a1", ""}
    assert run(claim()) is None
    send_test = webhooks.send_test(actor=Actor.of_shell(), webhook=webhook)
    assert run(claim()).delivery_id == send_test.pk


def test_a_cursor_of_another_server_moves_to_the_end_of_the_history(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, "seen")
    fan_out_all()
    Webhook.objects.update(cursor_commit_position=2**60)
    replace_the_database()
    acquire_all(digest, "before")
    assert fan_out_all() == 1
    acquire_all(digest, "after")
    assert fan_out_all() == 1
    assert of(webhook) == [("acquired", "seen"), ("reset", ""), ("acquired", "after")]


def test_a_cursor_does_not_move_back(space, digest) -> None:
    """Another fan-out, whose snapshot was taken later, may have moved it."""
    webhook = create(space)
    acquire_all(digest, "seen")
    fan_out_all()
    # Transaction ids are of the whole server: other tests must not use up as many.
    Webhook.objects.update(cursor_commit_position=F("cursor_commit_position") + 2**40)
    webhook.refresh_from_db()
    assert fan_out_all() == 0
    assert Webhook.objects.get().cursor_commit_position == webhook.cursor_commit_position


def test_events_of_a_name_are_sent_in_order_and_other_names_do_not_wait(space, digest) -> None:
    create(space)
    release_all(digest, acquire_all(digest, "a"))
    acquire_all(digest, "b")
    fan_out_all()
    first, second = run(claim()), run(claim())
    assert run(claim()) is None
    claimed = [Delivery.objects.get(pk=one.delivery_id) for one in (first, second)]
    assert [(one.kind, one.lock_name) for one in claimed] == [("acquired", "a"), ("acquired", "b")]
    run(record_attempt(first, DELIVERED))
    assert Delivery.objects.get(pk=run(claim()).delivery_id).kind == "released"


def test_later_events_overtake_one_that_keeps_failing(space, digest) -> None:
    webhook = create(space)
    release_all(digest, acquire_all(digest, "a"))
    fan_out_all()
    for number in range(1, outbox.MAX_ATTEMPTS_IN_ORDER + 1):
        claimed = run(claim())
        assert claimed.attempt == number
        run(record_attempt(claimed, FAILED))
        assert run(claim()) is None
        make_due(webhook)
    kinds = set()
    while (claimed := run(claim())) is not None:
        kinds.add(Delivery.objects.get(pk=claimed.delivery_id).kind)
        run(record_attempt(claimed, DELIVERED))
    assert kinds == {"acquired", "released"}


def make_due(webhook: Webhook) -> None:
    webhook.deliveries.filter(status="pending").update(next_attempt_at="2026-01-01T00:00Z")
    Webhook.objects.update(backoff_until=None)


def test_a_failing_webhook_backs_off_and_gets_one_attempt_at_a_time(space, digest) -> None:
    webhook = create(space)
    other = create(space)
    acquire_all(digest, *(f"n{number}" for number in range(10)))
    fan_out_all()
    claims = []
    while (claimed := run(claim())) is not None:
        claims.append(claimed)
    assert len(claims) == 2 * outbox.MAX_CLAIMS_PER_WEBHOOK
    mine = [one for one in claims if Delivery.objects.get(pk=one.delivery_id).webhook_id == webhook.pk]
    for one in mine:
        run(record_attempt(one, FAILED))
    assert run(claim()) is None
    webhook.refresh_from_db()
    assert webhook.consecutive_failures == len(mine)
    assert webhook.backoff_until is not None
    make_due(webhook)
    assert Delivery.objects.get(pk=run(claim()).delivery_id).webhook_id == webhook.pk
    assert run(claim()) is None
    assert other.deliveries.filter(claimed_until__isnull=False).count() == outbox.MAX_CLAIMS_PER_WEBHOOK


def test_after_a_day_it_is_dead_and_can_be_replayed(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, "a")
    fan_out_all()
    webhook.deliveries.update(deadline_at="2026-01-01T00:00Z")
    run(record_attempt(run(claim()), FAILED))
    delivery = webhook.deliveries.get()
    assert (delivery.status, delivery.log.get().status) == ("dead", 500)
    assert run(claim()) is None
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook) == 1
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook) == 0
    make_due(webhook)
    run(record_attempt(run(claim()), DELIVERED))
    delivery.refresh_from_db()
    assert (delivery.status, delivery.log.count()) == ("delivered", 2)
    assert webhooks.replay(actor=Actor.of_shell(), webhook=webhook, delivery=delivery) == 1


def test_an_expired_claim_is_taken_over(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, "a")
    fan_out_all()
    lost = run(claim())
    assert run(claim()) is None
    webhook.deliveries.update(claimed_until="2026-01-01T00:00Z")
    again = run(claim())
    assert (again.delivery_id, again.attempt) == (lost.delivery_id, 2)
    # The first worker was only slow: its failure does not end the second claim.
    run(record_attempt(lost, FAILED))
    assert webhook.deliveries.get().claimed_until is not None
    run(record_attempt(again, DELIVERED))
    assert webhook.deliveries.get().status == "delivered"
    assert DeliveryAttempt.objects.count() == 2


def test_a_test_is_sent_while_the_webhook_is_paused(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, "a")
    fan_out_all()
    webhooks.pause(actor=Actor.of_shell(), webhook=webhook)
    assert run(claim()) is None
    delivery = webhooks.send_test(actor=Actor.of_shell(), webhook=webhook)
    assert run(claim()) == Claim(delivery.pk, 1)
    assert run(claim()) is None


def test_retry_delays_double_up_to_an_hour_with_jitter() -> None:
    waits = [retry_delay(attempt) for attempt in range(1, 40)]
    assert 4 <= waits[0] <= 6
    assert all(4 * 2**n <= waits[n] <= 6 * 2**n for n in range(9))
    assert all(2880 <= wait <= 4320 for wait in waits[10:])
    assert len({retry_delay(5) for _ in range(10)}) > 1
    # Thirty attempts or so in a day.
    assert sum(waits) > 24 * 3600


def test_secrets_are_encrypted_and_old_keys_still_decrypt_them(space) -> None:
    webhook = create(space)
    encrypted = bytes(Webhook.objects.get(pk=webhook.pk).secret)
    assert decrypt(encrypted).startswith("whsec_")
    assert b"whsec" not in encrypted
    with psycopg.connect(os.environ["DATABASE_URL"]) as raw:
        dump = raw.execute("SELECT webhook::text FROM octo_webhook AS webhook").fetchall()
    assert decrypt(encrypted) not in str(dump)
    with override_settings(SECRET_KEY="k" * 40, SECRET_KEY_FALLBACKS=["a secret for tests, and for nothing else"]):
        assert decrypt(encrypted).startswith("whsec_")
        assert decrypt(encrypt("new")) == "new"
    with override_settings(SECRET_KEY="k" * 40), pytest.raises(DecryptionFailed):
        decrypt(encrypted)


def test_a_secret_that_cannot_be_decrypted_fails_the_attempt(space, digest) -> None:
    from django.db.models.functions import Now

    webhook = create(space)
    webhooks.send_test(actor=Actor.of_shell(), webhook=webhook)
    delivery = Delivery.objects.select_related("webhook").annotate(now=Now()).get()
    with override_settings(SECRET_KEY="k" * 40):
        assert "Rotate the secret" in (_attempt(delivery).error or "")


def test_a_space_has_a_share_of_all_attempts_and_the_one_with_the_fewest_is_next(
    space, red_space, digest, monkeypatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_CLAIMS_PER_SPACE", 3)
    hostile = [create(space) for _ in range(3)]
    acquire_all(digest, *(f"n{number}" for number in range(5)))
    stranger = parse(issue(red_space, "stranger", "locks:write")).digest.hex()
    neighbour = create(red_space)
    acquire_all(stranger, "a", "b")
    fan_out_all()
    Webhook.objects.filter(pk=neighbour.pk).update(last_claimed_at=Now())

    def next_space() -> int | None:
        claimed = run(claim())
        return None if claimed is None else Delivery.objects.get(pk=claimed.delivery_id).webhook.space_id

    assert [next_space() for _ in range(6)] == [
        space.pk, red_space.pk, space.pk, red_space.pk, space.pk, None,
    ]  # fmt: skip
    assert sum(webhook.deliveries.filter(claimed_until__isnull=False).count() for webhook in hostile) == 3


def test_a_slow_receiver_gets_one_attempt_at_a_time_until_it_is_fast_again(space, digest) -> None:
    webhook = create(space)
    acquire_all(digest, *(f"n{number}" for number in range(10)))
    fan_out_all()
    run(record_attempt(run(claim()), AttemptResult(duration_ms=outbox.SLOW_MS, status=200)))
    assert webhook.deliveries.filter(status="delivered").count() == 1
    only = run(claim())
    assert run(claim()) is None
    run(record_attempt(only, DELIVERED))
    assert [run(claim()) is None for _ in range(3)] == [False, False, False]
