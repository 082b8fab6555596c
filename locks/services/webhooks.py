"""Creates, changes and deletes webhooks, rotates secrets, sends tests and replays: each with its event in the history.

All but the first two also serve the webhooks of alert rules.

Each checks again, under the team's lock, that the actor still has permission, and raises NotAllowed if not.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from locks.engine.execution import run
from locks.engine.names import canonical_filter
from locks.events.history.commit_order import current_position
from locks.events.webhooks.encryption import encrypt, new_secret
from locks.events.webhooks.outbox import RETRY_HOURS
from locks.events.webhooks.payloads import TEST
from locks.events.webhooks.urls import parse_target
from locks.models import AlertRule, Delivery, DeliveryStatus, EventKind, Space, Webhook
from locks.services.audit import Actor, record
from locks.services.teams import reauthorize

MAX_WEBHOOKS_PER_SPACE = 50
# A test that fails for so long is not repeated.
TEST_MINUTES = 1


class TooManyWebhooks(Exception):
    """The space has MAX_WEBHOOKS_PER_SPACE already."""


def describe(webhook: Webhook) -> dict[str, Any]:
    """For the history."""
    return {
        **_identity(webhook),
        "url": without_query(webhook.url),
        "kinds": list(webhook.kinds),
        "prefix": webhook.prefix,
        **({"lock_pattern": webhook.lock_pattern} if webhook.lock_pattern else {}),
    }


def _identity(webhook: Webhook) -> dict[str, Any]:
    rule: AlertRule | None = getattr(webhook, "alert_rule", None)
    return {"webhook": webhook.public_id, **({"rule": rule.name} if rule else {})}


def _kind(webhook: Webhook, act: str) -> EventKind:
    return EventKind(f"{'alert_rule' if hasattr(webhook, 'alert_rule') else 'webhook'}_{act}")


def without_query(url: str) -> str:
    """It may contain a secret."""
    return url.partition("?")[0]


@transaction.atomic
def create(
    *,
    actor: Actor,
    space: Space,
    url: str,
    kinds: Sequence[str] = (),
    prefix: str = "",
    lock_pattern: str | None = None,
    secret: str | None = None,
) -> tuple[str, Webhook]:
    """Returns the secret, a new one unless the caller has one, and the webhook, which gets events from now on.
    Raises InvalidTarget and TooManyWebhooks."""
    parse_target(url, allowed=settings.WEBHOOK_NETWORKS)
    reauthorize(actor=actor, space=space)
    # Serialises creation in a space, so that the limit holds.
    Space.objects.select_for_update(no_key=True).get(pk=space.pk)
    if Webhook.objects.filter(space=space, alert_rule=None).count() >= MAX_WEBHOOKS_PER_SPACE:
        raise TooManyWebhooks
    secret = secret or new_secret()
    webhook = insert(
        actor=actor, space=space, url=url, kinds=kinds, prefix=prefix, lock_pattern=lock_pattern, secret=secret
    )
    record(EventKind.WEBHOOK_CREATED, actor=actor, space=space, detail=describe(webhook))
    return secret, webhook


def insert(
    *,
    actor: Actor,
    space: Space,
    url: str,
    kinds: Sequence[str],
    prefix: str,
    secret: str,
    lock_pattern: str | None = None,
) -> Webhook:
    return Webhook.objects.create(
        space=space,
        url=url,
        kinds=sorted(set(kinds)),
        prefix=canonical_filter(prefix, lambda: space.namespaces, is_prefix=True),
        lock_pattern=lock_pattern,
        secret=encrypt(secret),
        created_by=actor.name,
        **end_of_history(),
    )


def end_of_history() -> dict[str, int]:
    """The cursor of a webhook that gets events from now on."""
    position = run(current_position())
    return {"cursor_commit_position": position.commit_position, "cursor_event_id": position.id}


@transaction.atomic
def change(
    *,
    actor: Actor,
    webhook: Webhook,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    prefix: str | None = None,
) -> Webhook:
    """Raises InvalidTarget."""
    changed = lock(webhook, actor=actor)
    if url is not None:
        parse_target(url, allowed=settings.WEBHOOK_NETWORKS)
        changed.url = url
        # A new receiver starts without backoff.
        changed.consecutive_failures, changed.backoff_until = 0, None
    if kinds is not None:
        changed.kinds = sorted(set(kinds))
    if prefix is not None:
        changed.prefix = canonical_filter(prefix, lambda: webhook.space.namespaces, is_prefix=True)
    changed.save(update_fields=["url", "kinds", "prefix", "consecutive_failures", "backoff_until"])
    record(EventKind.WEBHOOK_CHANGED, actor=actor, space=changed.space, detail=describe(changed))
    return changed


@transaction.atomic
def pause(*, actor: Actor, webhook: Webhook) -> Webhook:
    """Nothing is sent until it is resumed. Then a webhook continues where it was, and a rule sends what is true."""
    paused = lock(webhook, actor=actor)
    if paused.paused_at is None:
        Webhook.objects.filter(pk=paused.pk).update(paused_at=Now())
        record(_kind(paused, "paused"), actor=actor, space=paused.space, detail=describe(paused))
    paused.refresh_from_db()
    return paused


@transaction.atomic
def resume(*, actor: Actor, webhook: Webhook) -> Webhook:
    resumed = lock(webhook, actor=actor)
    if resumed.paused_at is not None:
        changes: dict[str, Any] = {"paused_at": None, "consecutive_failures": 0, "backoff_until": None}
        if hasattr(resumed, "alert_rule"):
            changes |= end_of_history()
        Webhook.objects.filter(pk=resumed.pk).update(**changes)
        record(_kind(resumed, "resumed"), actor=actor, space=resumed.space, detail=describe(resumed))
    resumed.refresh_from_db()
    return resumed


@transaction.atomic
def rotate_secret(*, actor: Actor, webhook: Webhook, overlap: timedelta) -> str:
    """Returns the new secret. During the overlap, deliveries are signed with the old one as well."""
    rotated = lock(webhook, actor=actor)
    secret = new_secret()
    Webhook.objects.filter(pk=rotated.pk).update(
        secret=encrypt(secret),
        previous_secret=rotated.secret if overlap else None,
        previous_secret_until=Now() + overlap if overlap else None,
    )
    record(
        _kind(rotated, "secret_rotated"), actor=actor, space=rotated.space,
        detail={**_identity(rotated), "overlap_seconds": int(overlap.total_seconds())},
    )  # fmt: skip
    return secret


@transaction.atomic
def delete(*, actor: Actor, webhook: Webhook) -> None:
    """With its deliveries, the dead ones included."""
    deleted = lock(webhook, actor=actor)
    record(_kind(deleted, "deleted"), actor=actor, space=deleted.space, detail=describe(deleted))
    deleted.delete()


@transaction.atomic
def send_test(*, actor: Actor, webhook: Webhook) -> Delivery:
    """A delivery of kind `test`, which is sent before all pending ones."""
    reauthorize(actor=actor, space=webhook.space)
    event = record(_kind(webhook, "tested"), actor=actor, space=webhook.space, detail=_identity(webhook))
    event.refresh_from_db()
    # The receiver may just have been repaired.
    Webhook.objects.filter(pk=webhook.pk).update(backoff_until=None)
    delivery = Delivery.objects.create(
        webhook=webhook,
        event_id=event.pk,
        kind=TEST,
        observed_at=event.at,
        next_attempt_at=Now() - timedelta(days=1),
        deadline_at=Now() + timedelta(minutes=TEST_MINUTES),
    )
    delivery.refresh_from_db()
    return delivery


@transaction.atomic
def replay(*, actor: Actor, webhook: Webhook, delivery: Delivery | None = None) -> int:
    """Queues one finished delivery again, or all dead ones, for another day. Returns how many."""
    reauthorize(actor=actor, space=webhook.space)
    deliveries = Delivery.objects.filter(webhook=webhook)
    if delivery is None:
        deliveries = deliveries.filter(status=DeliveryStatus.DEAD)
    else:
        deliveries = deliveries.filter(pk=delivery.pk).exclude(status=DeliveryStatus.PENDING)
    replayed = deliveries.update(
        status=DeliveryStatus.PENDING,
        attempts=0,
        next_attempt_at=Now(),
        deadline_at=Now() + timedelta(hours=RETRY_HOURS),
        finished_at=None,
        claimed_until=None,
    )
    if replayed:
        Webhook.objects.filter(pk=webhook.pk).update(backoff_until=None)
        detail: dict[str, Any] = {**_identity(webhook), "deliveries": replayed}
        if delivery is not None:
            detail["delivery"] = str(delivery.public_id)
        record(_kind(webhook, "replayed"), actor=actor, space=webhook.space, detail=detail)
    return replayed


def lock(webhook: Webhook, *, actor: Actor) -> Webhook:
    reauthorize(actor=actor, space=webhook.space)
    webhooks = Webhook.objects.select_for_update(of=("self",)).select_related("space", "alert_rule")
    return webhooks.get(pk=webhook.pk)
