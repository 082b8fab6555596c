"""Saved filters of a user: list, save and delete, with events on the account."""

from django.db import transaction

from locks.models import EventKind, SavedFilter, Space, User
from locks.services.audit import Actor, record

MAX_PER_PAGE = 30


class TooManyFilters(Exception):
    """The user has MAX_PER_PAGE filters of this page and space already."""


def saved_filters(*, user: User, space: Space, page: str) -> list[SavedFilter]:
    return list(SavedFilter.objects.filter(user=user, space=space, page=page).order_by("name")[:MAX_PER_PAGE])


@transaction.atomic
def save(*, actor: Actor, user: User, space: Space, page: str, name: str, query: str) -> None:
    """Replaces the filter with the same name."""
    # Of two requests at once the second sees what the first has saved.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    others = SavedFilter.objects.filter(user=user, space=space, page=page).exclude(name=name)
    if others.count() >= MAX_PER_PAGE:
        raise TooManyFilters
    SavedFilter.objects.update_or_create(user=user, space=space, page=page, name=name, defaults={"query": query})
    record(EventKind.FILTER_SAVED, actor=actor, detail={"name": name, "page": page, "space": str(space)})


@transaction.atomic
def delete(*, actor: Actor, user: User, space: Space, filter_id: int) -> SavedFilter | None:
    """The deleted filter; None if the user has no such filter in this space."""
    stored = SavedFilter.objects.filter(user=user, space=space, pk=filter_id).first()
    if stored is not None:
        stored.delete()
        detail = {"name": stored.name, "page": stored.page, "space": str(space)}
        record(EventKind.FILTER_DELETED, actor=actor, detail=detail)
    return stored
