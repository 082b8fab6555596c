"""Template tags and filters: icons, links, times that tick, events as sentences. Built in, no `load` needed."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.defaulttags import querystring
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from locks.dashboard import event_text
from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.glossary import GLOSSARY, term_id
from locks.dashboard.metadata import chips, contact
from locks.dashboard.untrusted_text import visible
from locks.engine.names import NAMESPACE
from locks.models import SavedFilter
from locks.runs.queries import short_name
from locks.services import saved_filters as service
from locks.services.audit import current_user

register = template.Library()

register.filter("humanize_ms", humanize_ms)
register.filter("actor_label", event_text.actor_label)
register.filter("humanize_kind", event_text.humanize_kind)
register.filter("humanize_value", event_text.humanize_value)
register.filter("describe_event", event_text.describe_event)
register.filter("event_icon", event_text.event_icon)
register.filter("chips", chips)
register.filter("contact", contact)
register.filter("visible", visible)


register.filter("short_name", short_name)


@register.simple_tag
def icon(name: str) -> SafeString:
    """From the sprite in layouts/icons.html. Hidden from screen readers: a word always stands beside it."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.filter
def isolated(text: str | None) -> SafeString:
    """A name, an owner or metadata, which may be of any direction and have hidden characters."""
    return format_html("<bdi>{}</bdi>", visible(text))


@register.filter
def lock_name(name: str) -> SafeString:
    """A lock's name, with what may be its namespace set off quietly."""
    namespace, colon, rest = name.partition(":")
    if not colon or not NAMESPACE.match(name) or not rest:
        return isolated(name)
    return format_html('<bdi><span class="namespace">{}:</span>{}</bdi>', namespace, visible(rest))


@register.filter
def code_spans(text: str) -> SafeString:
    """Text between backticks as code."""
    parts = [("<code>{}</code>" if number % 2 else "{}", part) for number, part in enumerate(text.split("`"))]
    return format_html("".join(pattern for pattern, _ in parts), *(part for _, part in parts))


@register.simple_tag
def help_on(term: str) -> SafeString:
    """A button that shows the definition of a term; layouts/glossary.html has them. Not in dialogs, which cover it."""
    assert term in GLOSSARY
    return format_html(
        '<button class="term" type="button" popovertarget="{}" aria-label="What does {} mean?">?</button>',
        term_id(term), term,
    )  # fmt: skip


@register.simple_tag
def glossary() -> list[tuple[str, str, str]]:
    """Id, term and definition of each."""
    return [(term_id(term), term, text) for term, text in GLOSSARY.items()]


@register.filter
def epoch_ms(moment: datetime | None) -> str:
    return "" if moment is None else str(int(moment.timestamp() * 1000))


@register.filter
def utc_time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%d %b %Y, %H:%M:%S} UTC"


@register.filter
def local_time(moment: datetime | None) -> SafeString | str:
    """In the time zone of the user, with UTC on hover."""
    if moment is None:
        return ""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(timespec="seconds"), utc_time(moment), f"{timezone.localtime(moment):%d %b %Y, %H:%M:%S %Z}",
    )  # fmt: skip


@register.simple_tag
def zone_name() -> str:
    """The time zone of the user."""
    return timezone.get_current_timezone_name()


@register.simple_tag
def since(moment: datetime | None, now: datetime) -> SafeString | str:
    """The time passed since then, without "ago": "4 s"."""
    return "" if moment is None else _ticking("since", moment, humanize((now - moment).total_seconds()))


@register.simple_tag
def until(moment: datetime | None, now: datetime) -> SafeString | str:
    """The time left until then; 0 s once it is over."""
    return "" if moment is None else _ticking("until", moment, humanize((moment - now).total_seconds()))


def _ticking(kind: str, moment: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-{}="{}">{}</time>',
        moment.isoformat(timespec="seconds"), utc_time(moment), kind, epoch_ms(moment), text,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def space_url(context: template.Context, page: str, **arguments: Any) -> str:
    """The URL of a page of this space."""
    url: str = context["space_context"].url(page, **arguments)
    return url


@register.simple_tag(takes_context=True)
def owner_link(context: template.Context, owner: str) -> SafeString:
    """The name of an owner, as a link to its page."""
    if not owner:
        return format_html('<span class="none">—</span>')
    url = f"{space_url(context, 'owner')}?{urlencode({'name': owner})}"
    return format_html('<a class="owner-link" href="{}"><bdi>{}</bdi></a>', url, visible(owner))


@register.simple_tag(takes_context=True)
def saved_filters(context: template.RequestContext) -> list[SavedFilter]:
    """Those of the user for this page of this space."""
    return service.saved_filters(
        user=current_user(context.request), space=context["space_context"].space, page=context["active_page"]
    )


@register.simple_tag(takes_context=True)
def live_link(context: template.RequestContext, swap: str = "morph:outerHTML", **parameters: Any) -> SafeString:
    """Attributes of a link that changes the query string as `querystring` does and replaces the page's live content."""
    query = querystring(context, **parameters) or "?"
    return format_html(
        'href="{}" hx-get="{}{}" hx-target="#live-content" hx-swap="{}" hx-push-url="true"',
        query, context.request.path, query, swap,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def dialog_link(context: template.Context, page: str, **arguments: Any) -> SafeString:
    """Attributes of a link that opens a page of this space in the dialog."""
    url = space_url(context, page, **arguments)
    return format_html('href="{}" hx-get="{}" hx-target="#dialog" hx-swap="innerHTML"', url, url)
