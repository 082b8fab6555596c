"""Creates and changes alert rules, each with its event in the history.

Pausing, testing, rotating and deleting a rule are done to its webhook: see locks.services.webhooks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from locks.engine.names import canonical_filter
from locks.events.webhooks.encryption import encrypt, new_secret
from locks.events.webhooks.mail import parse_recipients
from locks.events.webhooks.urls import parse_target
from locks.models import AlertRule, EventKind, Space, Transport, Webhook
from locks.services import webhooks
from locks.services.audit import Actor, record
from locks.services.teams import reauthorize
from locks.token_rules import EXPIRES_SOON

MAX_RULES_PER_SPACE = 20
MAX_MINUTES = 1_440
MAX_TOKEN_DAYS = EXPIRES_SOON.days
# What a rule can be about. The end of `stuck` and of `system_unhealthy` is sent too.
KINDS = (EventKind.STUCK, EventKind.TOKEN_EXPIRING, EventKind.SYSTEM_UNHEALTHY, EventKind.FORCE_RELEASED)
_SECRET_URL = (Transport.SLACK, Transport.TEAMS)


class TooManyRules(Exception):
    """The space has MAX_RULES_PER_SPACE already."""


@dataclass(frozen=True, kw_only=True)
class RuleValues:
    """`destination` is a URL, or e-mail addresses; None keeps it."""

    name: str
    kinds: Sequence[str]
    prefix: str
    transport: Transport
    destination: str | None
    min_minutes: int = 5
    token_days: int = 7
    reasons: Sequence[str] = ()
    quiet_from: time | None = None
    quiet_until: time | None = None
    quiet_zone: str = "UTC"
    quiet_days: Sequence[int] = ()

    @property
    def of_rule(self) -> dict[str, Any]:
        return {
            "name": self.name, "transport": self.transport, "min_minutes": self.min_minutes,
            "token_days": self.token_days, "reasons": sorted(self.reasons), "quiet_from": self.quiet_from,
            "quiet_until": self.quiet_until, "quiet_zone": self.quiet_zone, "quiet_days": sorted(self.quiet_days),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Address:
    """As the webhook stores it: what is shown, and what is encrypted."""

    url: str
    secret: str
    # Whether the secret is ours, for signing, and is shown once.
    signs: bool


def check_destination(transport: Transport, destination: str) -> None:
    """Raises InvalidTarget and InvalidRecipients."""
    _address(transport, destination)


def _address(transport: Transport, destination: str) -> _Address:
    if transport is Transport.EMAIL:
        return _Address(url=", ".join(parse_recipients(destination)), secret="", signs=False)
    parse_target(destination, allowed=settings.WEBHOOK_NETWORKS)
    if transport in _SECRET_URL:
        return _Address(url=mask(destination), secret=destination, signs=False)
    return _Address(url=destination, secret=new_secret(), signs=True)


def mask(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…{url[-4:]}"


@transaction.atomic
def create(*, actor: Actor, space: Space, values: RuleValues) -> tuple[str | None, Webhook]:
    """Returns the secret that signs the requests, if there is one, and the webhook of the rule. Raises InvalidTarget,
    InvalidRecipients and TooManyRules."""
    assert values.destination is not None
    address = _address(values.transport, values.destination)
    reauthorize(actor=actor, space=space)
    # Serialises creation in a space, so that the limit holds.
    Space.objects.select_for_update(no_key=True).get(pk=space.pk)
    if AlertRule.objects.filter(webhook__space=space).count() >= MAX_RULES_PER_SPACE:
        raise TooManyRules
    webhook = webhooks.insert(
        actor=actor, space=space, url=address.url, kinds=values.kinds, prefix=values.prefix, secret=address.secret
    )
    AlertRule.objects.create(webhook=webhook, **values.of_rule)
    record(EventKind.ALERT_RULE_CREATED, actor=actor, space=space, detail=_describe(webhook))
    return address.secret if address.signs else None, webhook


@transaction.atomic
def change(*, actor: Actor, webhook: Webhook, values: RuleValues) -> str | None:
    """What the rule has sent about open alerts stays sent. Returns a new secret if the rule signs and did not before.
    Raises InvalidTarget and InvalidRecipients."""
    changed = webhooks.lock(webhook, actor=actor)
    rule, secret = changed.alert_rule, None
    signed = rule.transport == Transport.WEBHOOK
    fields: dict[str, Any] = {}
    if EventKind.FORCE_RELEASED in values.kinds and EventKind.FORCE_RELEASED not in changed.kinds:
        fields |= webhooks.end_of_history()
    changed.kinds = sorted(set(values.kinds))
    changed.prefix = canonical_filter(values.prefix, lambda: changed.space.namespaces, is_prefix=True)
    if values.destination is not None:
        address = _address(values.transport, values.destination)
        changed.url = address.url
        # A new receiver starts without backoff. It keeps the secret that it verifies with.
        changed.consecutive_failures, changed.backoff_until = 0, None
        if not (signed and address.signs):
            changed.secret, changed.previous_secret = encrypt(address.secret), None
            secret = address.secret if address.signs else None
    for field, value in fields.items():
        setattr(changed, field, value)
    changed.save()
    for field, value in values.of_rule.items():
        setattr(rule, field, value)
    rule.save()
    record(EventKind.ALERT_RULE_CHANGED, actor=actor, space=changed.space, detail=_describe(changed))
    return secret


def _describe(webhook: Webhook) -> dict[str, Any]:
    rule = webhook.alert_rule
    quiet = None
    if rule.quiet_from and rule.quiet_until:
        quiet = f"{rule.quiet_from:%H:%M}–{rule.quiet_until:%H:%M} {rule.quiet_zone}"
    return {
        **webhooks.describe(webhook), "transport": str(rule.transport), "min_minutes": rule.min_minutes,
        "token_days": rule.token_days, "reasons": rule.reasons, "quiet_hours": quiet, "quiet_days": rule.quiet_days,
    }  # fmt: skip
