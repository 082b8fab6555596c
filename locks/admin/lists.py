"""Lists of what may be millions: counted as far as people turn pages, searched and filtered by what an index finds.

The indexes of locks, waiters and events begin with the space, so a search names all spaces and each of them is looked
up in the index, instead of every row.
"""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from locks.models import EventKind, Space

# Django's classes are generic to the type checker only.
if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:
    _Admin, _Paginator = admin.ModelAdmin, Paginator


class EstimatedPaginator(_Paginator):
    """Does not count what may be millions: says that there is more, as far as people turn pages."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        objects: Any = self.object_list
        return int(objects.order_by()[: self.MOST].count())


class ReadOnlyAdmin(_Admin):
    show_full_result_count = False
    paginator = EstimatedPaginator
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def in_every_space() -> Q:
    return Q(space_id__in=list(Space.objects.values_list("pk", flat=True)))


class PrefixSearchAdmin(ReadOnlyAdmin):
    """For models with `space` and `name`."""

    search_fields = ("name",)
    search_help_text = "The beginning of a name"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        return queryset.filter(in_every_space(), name__startswith=search_term.replace("\0", "")), False


class LockStateFilter(admin.SimpleListFilter):
    """Not for what is free: names that nobody holds may be nearly all there are."""

    title = "standing"
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("held", "Held"), ("closed", "Closed after a release")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "held":
                return queryset.filter(in_every_space(), lease_id__isnull=False)
            case "closed":
                return queryset.filter(in_every_space(), lease_id__isnull=True, available_at__isnull=False)
        return queryset


class EventKindFilter(admin.SimpleListFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.value, kind.value.replace("_", " ")) for kind in EventKind]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        # What people do outside of a space has none.
        return queryset.filter(in_every_space() | Q(space_id=None), kind=self.value())
