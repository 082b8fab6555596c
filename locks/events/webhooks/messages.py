"""The messages of alert rules: what they say, and the formats of their transports.

Names and owners come from clients, so each format shows them as text: no mention, no link, no markup is made of them.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
from django.conf import settings

from locks.models import Delivery

# One, and several.
_TITLES = {
    "stuck": ("{} is stuck", "{} locks are stuck"),
    "stuck_cleared": ("{} is no longer stuck", "{} locks are no longer stuck"),
    "token_expiring": ("Token {} expires soon", "{} tokens expire soon"),
    "system_unhealthy": ("Octoadmin needs attention", "Octoadmin needs attention in {} parts"),
    "system_recovered": ("Octoadmin is healthy again", "{} parts of Octoadmin are healthy again"),
    "force_released": ("{} was force-released", "{} locks were force-released"),
}
_LOCK_KINDS = ("stuck", "stuck_cleared", "force_released")
_PAGES = {
    "token_expiring": "tokens",
    "system_unhealthy": "system",
    "system_recovered": "system",
    "force_released": "activity",
}
# Longer names are cut in titles and lists; the JSON of a webhook has all of it.
MAX_NAME = 100

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, kw_only=True)
class Message:
    title: str
    # Team and space.
    place: str
    lines: list[str]
    # Where to look, if the address of the dashboard is configured.
    link: str | None


def message_of(delivery: Delivery) -> Message:
    space = delivery.webhook.space
    place = f"{space.team.name} / {space.name}"
    if delivery.content is None:
        return Message(
            title="Test message", place=place, link=_link(delivery, "alerts"),
            lines=[f"Messages of the alert rule {delivery.webhook.alert_rule.name} arrive here."],
        )  # fmt: skip
    items, total = delivery.content["items"], delivery.content["total"]
    one, several = _TITLES[delivery.kind]
    title = one.format(_name(delivery.kind, items[0])) if total == 1 else several.format(f"{total:,}")
    lines = [_line(delivery.kind, item) for item in items]
    if total > len(items):
        lines.append(f"and {total - len(items):,} more")
    page = _PAGES.get(delivery.kind, "stuck")
    if total == 1 and delivery.kind in _LOCK_KINDS:
        page = f"locks/{quote(items[0]['subject'])}"
    return Message(title=title, place=place, lines=lines, link=_link(delivery, page))


def _name(kind: str, item: dict[str, Any]) -> str:
    return _cut((item["owner"] if kind == "token_expiring" else item["subject"]) or "")


def _line(kind: str, item: dict[str, Any]) -> str:
    if kind.startswith("system"):
        return str(item["text"])
    holder = f", held by {_cut(item['owner'])}" if kind == "stuck" and item["owner"] else ""
    identity = f" ({item['subject']})" if kind == "token_expiring" else ""
    return f"{_name(kind, item)}{identity}: {item['text']}{holder}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def _link(delivery: Delivery, page: str) -> str | None:
    space = delivery.webhook.space
    return f"{settings.PUBLIC_URL}/ui/{space.team.slug}/{space.slug}/{page}" if settings.PUBLIC_URL else None


def encode_for_webhook(delivery: Delivery, message: Message) -> bytes:
    content = delivery.content or {"total": 0, "items": []}
    return _encode(
        {
            "event": delivery.kind, "timestamp": delivery.observed_at, "webhook_id": delivery.webhook.public_id,
            "rule": delivery.webhook.alert_rule.name, "title": message.title, "place": message.place,
            "url": message.link, "total": content["total"], "items": content["items"],
        }
    )  # fmt: skip


def encode_for_slack(message: Message) -> bytes:
    """Of an incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""
    lines = "\n".join(f"• {_escape_slack(line)}" for line in message.lines)
    open_link = f"\n<{message.link}|Open Octoadmin>" if message.link else ""
    text = f"*{_escape_slack(message.title)}*\n{_escape_slack(message.place)}\n{lines}{open_link}"
    return _encode(
        {
            # Notifications show this; the block is the message itself.
            "text": _escape_slack(f"{message.title} · {message.place}"),
            "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": _limit(text, 3000), "verbatim": True}}],
            "unfurl_links": False,
        }
    )


def _escape_slack(text: str) -> str:
    """Slack's three control characters: without them there is neither a link nor a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def encode_for_teams(message: Message) -> bytes:
    """An adaptive card, as a workflow that posts to a channel or chat takes it. Text runs have no markup."""

    def text(content: str, **style: str | bool) -> dict[str, Any]:
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": content, **style}]}

    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
        "body": [
            text(message.title, weight="bolder", size="medium"), text(message.place, isSubtle=True),
            *(text(line) for line in message.lines),
        ],
    }  # fmt: skip
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open Octoadmin", "url": message.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return _encode({"type": "message", "attachments": [attachment]})


def plain_text(message: Message) -> str:
    return "\n".join([message.place, "", *message.lines, *(["", message.link] if message.link else [])]) + "\n"


def _limit(text: str, length: int) -> str:
    """Slack refuses a longer text."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
