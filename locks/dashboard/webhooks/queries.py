"""Webhooks as their pages show them: how each stands, and what became of its deliveries."""

from dataclasses import dataclass
from datetime import datetime

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.models import Delivery, DeliveryStatus, Space
from locks.pagination import IdCursor, decode_or_none, fetch_page

ROWS = 30
MAX_COUNTED = 1000

STATUSES = {"": "all", "pending": "on its way", "delivered": "delivered", "dead": "dead"}


@dataclass(frozen=True, kw_only=True)
class WebhookRow:
    id: int
    public_id: str
    url: str
    kinds: list[str]
    prefix: str
    created_at: datetime
    created_by: str
    consecutive_failures: int
    last_claimed_at: datetime | None
    backoff_until: datetime | None
    paused_at: datetime | None
    previous_secret_until: datetime | None
    pending: int
    dead: int
    now: datetime

    @property
    def standing(self) -> str:
        if self.paused_at is not None:
            return "paused"
        if self.consecutive_failures:
            return "failing"
        return "delivering" if self.last_claimed_at else "new"

    @property
    def overlaps(self) -> bool:
        return self.previous_secret_until is not None and self.previous_secret_until > self.now

    @property
    def pending_in_words(self) -> str:
        return _in_words(self.pending)

    @property
    def dead_in_words(self) -> str:
        return _in_words(self.dead)


@dataclass(frozen=True, kw_only=True)
class DeliveryFilter:
    status: str = ""
    cursor: IdCursor | None = None

    @classmethod
    def of(cls, query: QueryDict) -> "DeliveryFilter":
        status = query.get("status", "")
        return cls(status=status if status in STATUSES else "", cursor=decode_or_none(query.get("cursor"), IdCursor))

    def query(self, cursor: str) -> str:
        parameters = QueryDict(mutable=True)
        if self.status:
            parameters["status"] = self.status
        parameters["cursor"] = cursor
        return f"?{parameters.urlencode()}"


@dataclass(frozen=True, kw_only=True)
class DeliveryPage:
    deliveries: list[Delivery]
    older: str | None

    @property
    def is_moving(self) -> bool:
        """Whether it is worth to look again soon."""
        return any(delivery.status == DeliveryStatus.PENDING for delivery in self.deliveries)


def webhooks(*, space: Space) -> list[WebhookRow]:
    return fetch("webhooks/webhooks", WebhookRow, {"space_id": space.pk, "public_id": None})


def find_webhook(*, space: Space, public_id: str) -> WebhookRow | None:
    return next(iter(fetch("webhooks/webhooks", WebhookRow, {"space_id": space.pk, "public_id": public_id})), None)


def deliveries(*, webhook: WebhookRow, wanted: DeliveryFilter) -> DeliveryPage:
    """Newest first, each with its attempts."""
    found = Delivery.objects.filter(webhook_id=webhook.id).prefetch_related("log")
    if wanted.status:
        found = found.filter(status=wanted.status)
    page = fetch_page(found, by=IdCursor, limit=ROWS, cursor=wanted.cursor)
    return DeliveryPage(deliveries=page.rows, older=wanted.query(page.older) if page.older else None)


def _in_words(number: int) -> str:
    return f"more than {MAX_COUNTED:,}" if number > MAX_COUNTED else f"{number:,}"
