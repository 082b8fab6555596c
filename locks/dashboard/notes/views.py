"""The note of a lock or a prefix: operators edit it in a dialog."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.lock.queries import find_lock, has_history
from locks.dashboard.notes.forms import NoteForm
from locks.dashboard.rendering import is_htmx_target
from locks.services import notes


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def note(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    space = space_context.space
    if find_lock(space=space, name=name) is None and not has_history(space=space, name=name):
        raise Http404
    back: dict[str, Any] = {"back_url": space_context.url("lock", name=name), "active_page": "lock"}
    stored = notes.find_notes(space=space, names=[name]).get(name)
    fields = ("text", "runbook_url", "name", "is_prefix")
    initial = {field: getattr(stored, field) for field in fields} if stored else {"name": name}
    form = NoteForm(request.POST or None, initial=initial, lock_name=name, space=space)
    if not form.is_valid():
        return dialog(
            request, space_context, "notes/form.html", {"form": form},
            title=f"Note on {name}", stays_open=True, status=form_status(form), **back,
        )  # fmt: skip
    try:
        notes.save(actor=actor(request), space=space, **{field: form.cleaned_data[field] for field in fields})
    except notes.TooManyNotes:
        text = f"This space has {notes.MAX_NOTES_PER_SPACE} notes already. Remove one first."
        return refusal(request, space_context, text, title="Not saved", **back)
    if not is_htmx_target(request, "dialog"):
        return redirect(back["back_url"])
    text = "The note is removed." if not (form.cleaned_data["text"] or form.cleaned_data["runbook_url"]) else "Saved."
    return dialog(request, space_context, "layouts/dialog_result.html", {"text": text}, title="Note", **back)
