"""Dialogs: pages of their own that htmx can also open in the dialog of the page one is on.

In the dialog every answer has status 200, because htmx swaps in no other.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from locks.dashboard.access import SpaceContext
from locks.dashboard.rendering import is_htmx_target, page, partial


def dialog(
    request: HttpRequest,
    space_context: SpaceContext | None,
    template: str,
    context: dict[str, Any],
    *,
    title: str,
    back_url: str,
    active_page: str = "",
    stays_open: bool = False,
    in_dialog: bool | None = None,
    status: int = 200,
) -> HttpResponse:
    """`template` extends layouts/dialog_form.html or layouts/dialog_result.html. `back_url` is where Cancel and Close
    lead without JavaScript. With `stays_open`, the answer to the form is swapped into the dialog; without, it replaces
    the page. `in_dialog` overrides what the htmx target of the request says."""
    in_dialog = is_htmx_target(request, "dialog") if in_dialog is None else in_dialog
    layout = "layouts/dialog.html" if in_dialog else "layouts/dialog_page.html"
    context = {**context, "dialog_layout": layout, "title": title, "back_url": back_url, "stays_open": stays_open}
    if space_context is None:
        return render(request, template, context, status=200 if in_dialog else status)
    if in_dialog:
        return partial(request, space_context, template, context)
    return page(request, space_context, template, context, active_page=active_page, status=status)


def refusal(
    request: HttpRequest,
    space_context: SpaceContext,
    text: str,
    *,
    title: str,
    back_url: str,
    active_page: str,
    status: int = 409,
) -> HttpResponse:
    """Nothing was done, and why."""
    return dialog(
        request, space_context, "layouts/dialog_result.html", {"text": text, "refused": True},
        title=title, back_url=back_url, active_page=active_page, status=status,
    )  # fmt: skip
