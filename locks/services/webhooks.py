"""Creates, changes and deletes webhooks, rotates secrets, sends tests and replays: each with its event in the history.

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
from locks.models import Delivery, DeliveryStatus, EventKind, Space, Webhook
from locks.services.audit import Actor, record
from locks.services.teams import reauthorize

MAX_WEBHOOKS_PER_SPACE = 50
# A test that fails for so long is not repeated.
TEST_MINUTES = 1


class TooManyWebhooks(Exception):
    """The space has MAX_WEBHOOKS_PER_SPACE already."""


def _detail(webhook: Webhook) -> dict[str, Any]:
    return {
        "webhook": webhook.public_id,
        "url": _without_query(webhook.url),
        "kinds": list(webhook.kinds),
        "prefix": webhook.prefix,
        **({"lock_pattern": webhook.lock_pattern} if webhook.lock_pattern else {}),
    }


def _without_query(url: str) -> str:
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
    if Webhook.objects.filter(space=space).count() >= MAX_WEBHOOKS_PER_SPACE:
        raise TooManyWebhooks
    position = run(current_position())
    secret = secret or new_secret()
    webhook = Webhook.objects.create(
        space=space,
        url=url,
        kinds=sorted(set(kinds)),
        prefix=canonical_filter(prefix, lambda: space.namespaces, is_prefix=True),
        lock_pattern=lock_pattern,
        secret=encrypt(secret),
        created_by=actor.name,
        cursor_commit_position=position.commit_position,
        cursor_event_id=position.id,
    )
    record(EventKind.WEBHOOK_CREATED, actor=actor, space=space, detail=_detail(webhook))
    return secret, webhook


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
    changed = _lock(webhook, actor=actor)
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
    record(EventKind.WEBHOOK_CHANGED, actor=actor, space=changed.space, detail=_detail(changed))
    return changed


@transaction.atomic
def pause(*, actor: Actor, webhook: Webhook) -> Webhook:
    """Nothing is sent until it is resumed; then it continues where it was."""
    paused = _lock(webhook, actor=actor)
    if paused.paused_at is None:
        Webhook.objects.filter(pk=paused.pk).update(paused_at=Now())
        record(EventKind.WEBHOOK_PAUSED, actor=actor, space=paused.space, detail=_detail(paused))
    paused.refresh_from_db()
    return paused


@transaction.atomic
def resume(*, actor: Actor, webhook: Webhook) -> Webhook:
    resumed = _lock(webhook, actor=actor)
    if resumed.paused_at is not None:
        Webhook.objects.filter(pk=resumed.pk).update(paused_at=None, consecutive_failures=0, backoff_until=None)
        record(EventKind.WEBHOOK_RESUMED, actor=actor, space=resumed.space, detail=_detail(resumed))
    resumed.refresh_from_db()
    return resumed


@transaction.atomic
def rotate_secret(*, actor: Actor, webhook: Webhook, overlap: timedelta) -> str:
    """Returns the new secret. During the overlap, deliveries are signed with the old one as well."""
    rotated = _lock(webhook, actor=actor)
    secret = new_secret()
    Webhook.objects.filter(pk=rotated.pk).update(
        secret=encrypt(secret),
        previous_secret=rotated.secret if overlap else None,
        previous_secret_until=Now() + overlap if overlap else None,
    )
    record(
        EventKind.WEBHOOK_SECRET_ROTATED, actor=actor, space=rotated.space,
        detail={"webhook": rotated.public_id, "overlap_seconds": int(overlap.total_seconds())},
    )  # fmt: skip
    return secret


@transaction.atomic
def delete(*, actor: Actor, webhook: Webhook) -> None:
    """With its deliveries, the dead ones included."""
    deleted = _lock(webhook, actor=actor)
    record(EventKind.WEBHOOK_DELETED, actor=actor, space=deleted.space, detail=_detail(deleted))
    deleted.delete()


@transaction.atomic
def send_test(*, actor: Actor, webhook: Webhook) -> Delivery:
    """A delivery of kind `test`, which is sent before all pending ones."""
    reauthorize(actor=actor, space=webhook.space)
    event = record(EventKind.WEBHOOK_TESTED, actor=actor, space=webhook.space, detail={"webhook": webhook.public_id})
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
        detail: dict[str, Any] = {"webhook": webhook.public_id, "deliveries": replayed}
        if delivery is not None:
            detail["delivery"] = str(delivery.public_id)
        record(EventKind.WEBHOOK_REPLAYED, actor=actor, space=webhook.space, detail=detail)
    return replayed


def _lock(webhook: Webhook, *, actor: Actor) -> Webhook:
    reauthorize(actor=actor, space=webhook.space)
    return Webhook.objects.select_for_update(of=("self",)).select_related("space").get(pk=webhook.pk)
