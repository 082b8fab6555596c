"""Notes on locks and prefixes: which one applies to a name, and their changes, each with an audit event."""

from collections.abc import Iterable

from django.db import transaction
from django.db.models.functions import Now

from locks.models import EventKind, Note, Space, Team
from locks.services.audit import Actor, record

MAX_NOTES_PER_SPACE = 1_000


class TooManyNotes(Exception):
    """The space has MAX_NOTES_PER_SPACE already."""


def find_notes(*, space: Space, names: Iterable[str]) -> dict[str, Note]:
    """The note of each name that has one: its own, or that of its longest prefix."""
    names = list(names)
    if not names:
        return {}
    # All beginnings of the names are looked up in the unique index, however many notes there are.
    beginnings = {name[:length] for name in names for length in range(1, len(name) + 1)}
    notes = list(Note.objects.filter(space=space, name__in=beginnings))
    notes.sort(key=lambda note: (note.is_prefix, -len(note.name)))
    found = {}
    for name in names:
        for note in notes:
            if name == note.name or (note.is_prefix and name.startswith(note.name)):
                found[name] = note
                break
    return found


@transaction.atomic
def save(*, actor: Actor, space: Space, name: str, is_prefix: bool, text: str, runbook_url: str) -> None:
    """Replaces the note of this name or prefix; without text and link, removes it."""
    # Serialises the changes, so that each event has the text that it replaced.
    Team.objects.select_for_update(no_key=True).get(pk=space.team_id)
    before = Note.objects.filter(space=space, name=name, is_prefix=is_prefix).first()
    old = (before.text, before.runbook_url) if before else ("", "")
    new = (text, runbook_url)
    if new == old:
        return
    if not any(new):
        assert before is not None
        before.delete()
    else:
        if before is None and Note.objects.filter(space=space).count() >= MAX_NOTES_PER_SPACE:
            raise TooManyNotes
        Note.objects.update_or_create(
            space=space, name=name, is_prefix=is_prefix,
            defaults={"text": text, "runbook_url": runbook_url, "person_id": actor.id, "person_name": actor.name,
                      "updated_at": Now()},
        )  # fmt: skip
    changes = {
        field: {"from": from_, "to": to}
        for field, from_, to in zip(("note", "runbook"), old, new, strict=True)
        if from_ != to
    }
    record(
        EventKind.NOTE_CHANGED,
        actor=actor,
        space=space,
        lock_name=None if is_prefix else name,
        detail={**({"prefix": name} if is_prefix else {}), **changes},
    )
