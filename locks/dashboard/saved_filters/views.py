"""Saving the filters of a page under a name, and deleting them."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from locks.dashboard.access import SpaceContext, actor, current_user, space_required
from locks.dashboard.saved_filters.forms import SavedFilterForm
from locks.services import saved_filters as service


@require_POST
@space_required
def save(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    form = SavedFilterForm(request.POST)
    if not form.is_valid():
        if "page" in form.errors:
            raise Http404
        messages.error(request, f"Not saved. {next(iter(form.errors.values()))[0]}")
        return redirect(space_context.url(form.cleaned_data["page"]))
    saved = form.cleaned_data
    try:
        service.save(actor=actor(request), user=current_user(request), space=space_context.space, **saved)
    except service.TooManyFilters:
        messages.error(
            request, f"Not saved. A page has {service.MAX_PER_PAGE} saved filters at most: delete one first."
        )
    else:
        messages.success(request, f"Filter saved as {saved['name']}.")
    return redirect(f"{space_context.url(saved['page'])}?{saved['query']}")


@require_POST
@space_required
def delete(request: HttpRequest, space_context: SpaceContext, filter_id: int) -> HttpResponse:
    deleted = service.delete(
        actor=actor(request), user=current_user(request), space=space_context.space, filter_id=filter_id
    )
    if deleted is None:
        raise Http404
    messages.success(request, f"Filter {deleted.name} deleted.")
    return redirect(space_context.url(deleted.page))
