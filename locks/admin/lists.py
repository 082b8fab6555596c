"""Lists of tables with millions of rows: the count is bounded, and searches and filters use an index.

The indexes of locks, waiters and events begin with the space, so a search lists all spaces: each is looked up in the
index, instead of scanning the table.
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


class BoundedPaginator(_Paginator):
    """Counts at most MAX_COUNT rows; later pages are not reachable."""

    MAX_COUNT = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: self.MAX_COUNT].count())


# What the links of Django's own filters have after the name of the field.
_LOOKUPS = ("", "exact", "id__exact", "isnull", "gte", "lt")


class ListedLookupsAdmin(_Admin):
    """Only the list's own filters may be in its address. Django accepts any look-up of a field, such as
    `lease_id__lte`, also through relations of it, such as `space__locks__lease_id__lte`: a hidden value can be found by
    trial with them."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:  # type: ignore[override]
        allowed = set()
        for item in self.get_list_filter(request):
            if isinstance(item, str):
                allowed.add(item)
            elif isinstance(item, type) and issubclass(item, admin.SimpleListFilter):
                allowed.add(item.parameter_name or "")
        field, _, rest = lookup.partition("__")
        return field in allowed and rest in _LOOKUPS


class ReadOnlyAdmin(ListedLookupsAdmin):
    show_full_result_count = False
    paginator = BoundedPaginator
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def in_any_space() -> Q:
    return Q(space_id__in=list(Space.objects.values_list("pk", flat=True)))


class PrefixSearchAdmin(ReadOnlyAdmin):
    """For models with `space` and `name`."""

    search_fields = ("name",)
    search_help_text = "Prefix of a name"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        return queryset.filter(in_any_space(), name__startswith=search_term.replace("\0", "")), False


class LockStateFilter(admin.SimpleListFilter):
    """Has no choice for free locks: nearly all rows may be free, and no index finds them."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("held", "Held"), ("delayed", "Cooling down")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "held":
                return queryset.filter(in_any_space(), lease_id__isnull=False)
            case "delayed":
                return queryset.filter(in_any_space(), lease_id__isnull=True, available_at__isnull=False)
        return queryset


class EventKindFilter(admin.SimpleListFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.value, kind.value.replace("_", " ")) for kind in EventKind]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        # Events of users and teams belong to no space.
        return queryset.filter(in_any_space() | Q(space_id=None), kind=self.value())
