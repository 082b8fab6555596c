"""Who may see what. What a current_user may not see does not exist for them: it answers 404."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRedirect

from locks.models import Role, Space, Team, User
from locks.services import audit
from locks.services.audit import Actor
from locks.services.mfa import mfa_required
from locks.services.teams import NotAllowed

View = Callable[..., HttpResponseBase]

current_user = audit.current_user
request_id = audit.request_id
actor = actor_of = Actor.of_request

# A count that no worker has renewed says nothing.
COUNT_IS_OLD = timedelta(minutes=2)


@dataclass(frozen=True, kw_only=True)
class SpaceContext:
    """A space as somebody sees it."""

    space: Space
    role: Role
    # How many of its locks needed somebody a moment ago.
    stuck: int = 0
    # An admin who has yet to set up the second factor that this server wants of admins.
    is_held_back: bool = False

    @property
    def team(self) -> Team:
        return self.space.team

    @property
    def may_force(self) -> bool:
        return self.role in (Role.OPERATOR, Role.ADMIN)

    @property
    def may_manage(self) -> bool:
        """Tokens, members and settings."""
        return self.role is Role.ADMIN

    @property
    def slugs(self) -> dict[str, str]:
        return {"team": self.team.slug, "space": self.space.slug}

    def url(self, page: str, **arguments: Any) -> str:
        return reverse(f"dashboard:{page}", kwargs={**self.slugs, **arguments})


def visible_spaces(user: User) -> QuerySet[Space]:
    """Each with the person's role as `role`."""
    spaces = Space.objects.select_related("team").filter(archived_at=None).order_by("team__name", "name")
    if user.is_superuser:
        spaces = spaces.annotate(own_role=Value(Role.ADMIN.value))
    else:
        spaces = spaces.filter(team__memberships__user=user).annotate(own_role=F("team__memberships__role"))
    if (without_factor := mfa_required(user)) is None:
        return spaces.annotate(role=F("own_role"))
    looks_only = When(Q(own_role=Role.ADMIN) & without_factor, then=Value(Role.VIEWER.value))
    return spaces.annotate(role=Case(looks_only, default=F("own_role")))


def annotate_stuck(spaces: QuerySet[Space]) -> QuerySet[Space]:
    """Each with the number of locks that need somebody as `stuck`, as it was counted lately."""
    recent = When(stuck_count__counted_at__gt=Now() - COUNT_IS_OLD, then=F("stuck_count__stuck"))
    return spaces.annotate(stuck=Case(recent, default=0))


def get_space_context(user: User, *, team: str, space: str) -> SpaceContext:
    found = annotate_stuck(visible_spaces(user).filter(team__slug=team, slug=space)).first()
    if found is None:
        raise Http404
    role, own_role = Role(found.role), Role(found.own_role)  # type: ignore[attr-defined]
    stuck: int = found.stuck  # type: ignore[attr-defined]
    return SpaceContext(space=found, role=role, stuck=stuck, is_held_back=role is not own_role)


def login_required(view: View) -> View:
    """Leads those who are not signed in to sign-in, and back. Never cached: the next current_user must not see it."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request)
        response = view(request, *args, **kwargs)
        # The same address answers with a page or with a part of it.
        patch_vary_headers(response, ["HX-Request"])
        return response

    return never_cache(guarded)


def space_required(view: View) -> View:
    """For views of `/ui/<team>/<space>/…`: called with the place instead of the two slugs."""

    @login_required
    @wraps(view)
    def placed(request: HttpRequest, *, team: str, space: str, **arguments: Any) -> HttpResponseBase:
        return view(request, get_space_context(current_user(request), team=team, space=space), **arguments)

    return placed


def admin_required(view: View) -> View:
    """For views of a place that only admins of its team may use."""

    @wraps(view)
    def managed(request: HttpRequest, place: Any, **arguments: Any) -> HttpResponseBase:
        if not place.may_manage:
            raise PermissionDenied
        try:
            return view(request, place, **arguments)
        except NotAllowed:
            # Demoted since the page began: the action looks again, under the team's lock.
            raise PermissionDenied from None

    return managed


def redirect_to_login(request: HttpRequest) -> HttpResponse:
    shown = request.headers.get("HX-Current-URL")
    if request.headers.get("HX-Request") and shown:
        page = address_of(shown)
        back = page.path + (f"?{page.query}" if page.query else "")
        return HttpResponseClientRedirect(_sign_in_url(back))
    return redirect(_sign_in_url(request.get_full_path()))


def address_of(sent: str) -> SplitResult:
    """What a header gives as the address of a page; anything that is none is an empty one."""
    try:
        return urlsplit(sent)
    except ValueError:
        return urlsplit("")


def _sign_in_url(back: str) -> str:
    return f"{reverse('dashboard:sign-in')}?{urlencode({'next': back})}"
