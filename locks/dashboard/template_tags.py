"""Small words of the templates: icons, times that tick, events as sentences. Built in: no `load` needed."""

from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from locks.dashboard import event_text
from locks.dashboard.durations import humanize, humanize_ms
from locks.models import Event

register = template.Library()

register.filter("roughly", humanize_ms)
register.filter("by_whom", event_text.actor_label)
register.filter("kind_in_words", event_text.kind_in_words)
register.filter("sentence", event_text.describe_event)
register.filter("event_icon", event_text.icon_of)


@register.simple_tag
def icon(name: str) -> SafeString:
    """From the sprite in layouts/icons.html. Always beside a word, so it says nothing itself."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.filter
def epoch_ms(moment: datetime | None) -> str:
    return "" if moment is None else str(int(moment.timestamp() * 1000))


@register.filter
def absolute(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%d %b %Y, %H:%M:%S} UTC"


@register.simple_tag
def since(moment: datetime | None, now: datetime) -> SafeString | str:
    """How long ago, without the word: "4 s"."""
    return "" if moment is None else _ticking("since", moment, humanize((now - moment).total_seconds()))


@register.simple_tag
def until(moment: datetime | None, now: datetime) -> SafeString | str:
    """How long from now; what is over says so in the state beside it."""
    return "" if moment is None else _ticking("until", moment, humanize((moment - now).total_seconds()))


def _ticking(kind: str, moment: datetime, words: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-{}="{}">{}</time>',
        moment.isoformat(timespec="seconds"), absolute(moment), kind, epoch_ms(moment), words,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def url_of(context: template.Context, page: str, **arguments: Any) -> str:
    """The address of a page of this space."""
    url: str = context["place"].url(page, **arguments)
    return url


@register.filter
def is_about_a_lock(event: Event) -> bool:
    return event.lock_name is not None
