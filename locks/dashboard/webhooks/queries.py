"""The webhooks of a space and their deliveries as the pages list them."""

from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.dashboard.filters import Filters
from locks.models import Delivery, DeliveryStatus, Space, Transport
from locks.pagination import IdCursor, decode_or_none, fetch_page

DELIVERIES_PER_PAGE = 30
# As webhooks.sql counts.
MAX_COUNT = 1000

STATUS_LABELS = {
    "": "All",
    DeliveryStatus.PENDING.value: "Pending",
    DeliveryStatus.DELIVERED.value: "Delivered",
    DeliveryStatus.DEAD.value: "Failed",
}


@dataclass(frozen=True, kw_only=True)
class WebhookRow:
    id: int
    public_id: str
    url: str
    kinds: list[str]
    prefix: str
    lock_pattern: str | None
    created_at: datetime
    created_by: str
    consecutive_failures: int
    last_claimed_at: datetime | None
    backoff_until: datetime | None
    paused_at: datetime | None
    previous_secret_until: datetime | None
    # Of the alert rule that it belongs to.
    rule_name: str | None
    transport: str | None
    pending: int
    failed: int
    now: datetime

    @property
    def status(self) -> str:
        if self.paused_at is not None:
            return "paused"
        if self.consecutive_failures:
            return "failing"
        return "delivering" if self.last_claimed_at else "unused"

    @property
    def page(self) -> str:
        """The name of the page that shows it."""
        return "webhook" if self.rule_name is None else "alert"

    @property
    def signs(self) -> bool:
        return self.transport in (None, Transport.WEBHOOK)

    @property
    def previous_secret_signs(self) -> bool:
        return self.previous_secret_until is not None and self.previous_secret_until > self.now

    @property
    def pending_text(self) -> str:
        return _count_text(self.pending)

    @property
    def failed_text(self) -> str:
        return _count_text(self.failed)


@dataclass(frozen=True, kw_only=True)
class DeliveryFilters(Filters):
    CHOICES = {"status": STATUS_LABELS}

    status: str = ""
    cursor: str = ""


@dataclass(frozen=True, kw_only=True)
class DeliveryPage:
    deliveries: list[Delivery]
    older: str | None

    @property
    def has_pending(self) -> bool:
        return any(delivery.status == DeliveryStatus.PENDING for delivery in self.deliveries)


def webhooks(*, space: Space, rules: bool = False) -> list[WebhookRow]:
    """The webhooks of the space, or those of its alert rules."""
    return fetch("webhooks/webhooks", WebhookRow, {"space_id": space.pk, "public_id": None, "rules": rules})


def find_webhook(*, space: Space, public_id: str, rules: bool | None) -> WebhookRow | None:
    parameters = {"space_id": space.pk, "public_id": public_id, "rules": rules}
    return next(iter(fetch("webhooks/webhooks", WebhookRow, parameters)), None)


def deliveries(*, webhook: WebhookRow, filters: DeliveryFilters) -> DeliveryPage:
    """Newest first, each with its attempts."""
    matching = Delivery.objects.filter(webhook_id=webhook.id).prefetch_related("log")
    if filters.status:
        matching = matching.filter(status=filters.status)
    cursor = decode_or_none(filters.cursor, IdCursor)
    page = fetch_page(matching, by=IdCursor, limit=DELIVERIES_PER_PAGE, cursor=cursor)
    return DeliveryPage(deliveries=page.rows, older=page.older)


def _count_text(count: int) -> str:
    return f"more than {MAX_COUNT:,}" if count > MAX_COUNT else f"{count:,}"
