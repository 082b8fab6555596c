"""Files to download: streamed, recorded in the history, and limited in number, as exports are."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect

from locks.dashboard.access import SpaceContext, actor, current_user
from locks.events.history.export import CONTENT_TYPES, Export, TooManyExports, csv_pieces
from locks.models import EventKind
from locks.services.audit import record


def download(
    request: HttpRequest,
    space_context: SpaceContext,
    *,
    kind: EventKind,
    page: str,
    filename: str,
    start: Callable[[Hashable], Export],
    detail: dict[str, Any],
) -> HttpResponseBase:
    """`page` is the one that it was requested on. For views that take POST requests: a download is recorded, so no link
    or prefetch must start it."""
    try:
        pieces = start(("user", current_user(request).pk))
    except TooManyExports as refused:
        return refused_export(request, refused, back_url=space_context.url(page))
    record(kind, actor=actor(request), space=space_context.space, detail=detail)
    name = f"{space_context.team.slug}-{space_context.space.slug}-{filename}"
    content_type = CONTENT_TYPES[filename.rpartition(".")[2]]
    return StreamingHttpResponse(
        pieces, headers={"Content-Type": content_type, "Content-Disposition": f'attachment; filename="{name}"'}
    )


def refused_export(request: HttpRequest, refused: TooManyExports, *, back_url: str) -> HttpResponse:
    messages.error(request, f"{refused} Try again when one has ended.")
    return redirect(back_url)


def download_list(
    request: HttpRequest,
    space_context: SpaceContext,
    *,
    page: str,
    columns: Sequence[str],
    batches: Iterable[Iterable[Sequence[Any]]],
    detail: dict[str, Any],
) -> HttpResponseBase:
    """The list of a page as CSV."""
    pieces = csv_pieces(columns, batches)
    return download(
        request, space_context, kind=EventKind.LIST_EXPORTED, page=page, filename=f"{page}.csv",
        start=lambda actor: Export(pieces, team_id=space_context.team.pk, actor=actor),
        detail={"page": page, **{name: value for name, value in detail.items() if value}},
    )  # fmt: skip
