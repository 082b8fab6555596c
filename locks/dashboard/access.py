"""Authorization of pages. What a user may not see answers 404."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRedirect

from locks.models import Role, Space, Team, User
from locks.models.space_role import role_in_space
from locks.services import audit
from locks.services.audit import Actor
from locks.services.mfa import mfa_required
from locks.services.teams import NotAllowed

View = Callable[..., HttpResponseBase]

current_user = audit.current_user
request_id = audit.request_id
actor = actor_of = Actor.of_request

# An older count is not shown.
MAX_COUNT_AGE = timedelta(minutes=2)


@dataclass(frozen=True, kw_only=True)
class SpaceContext:
    """A space and what the current user may do in it."""

    space: Space
    role: Role
    # How many of its locks were stuck at the last count.
    stuck: int = 0
    # An admin who has only a viewer's rights until a second factor is set up, which this server requires of admins.
    requires_mfa: bool = False

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

    def require_operator(self) -> None:
        if not self.may_force:
            raise PermissionDenied(self._refusal("operator or admin"))

    def require_admin(self) -> None:
        if not self.may_manage:
            raise PermissionDenied(self._refusal("admin"))

    def _refusal(self, needed: str) -> str:
        if self.requires_mfa:
            return (
                "This server requires a second factor of admins. Until you set one up on the page of your account, you "
                "can only view."
            )
        place = f"{self.team.name} / {self.space.name}"
        return f"This needs the {needed} role in {place}; your role there is {self.role.value}."

    @property
    def slugs(self) -> dict[str, str]:
        return {"team": self.team.slug, "space": self.space.slug}

    def url(self, page: str, **arguments: Any) -> str:
        return reverse(f"dashboard:{page}", kwargs={**self.slugs, **arguments})


def visible_spaces(user: User) -> QuerySet[Space]:
    """Each with the user's effective role as `role`: that of role_in_space, but an admin without the second factor that
    the server requires has only a viewer's rights. `own_role` is the role before the last rule."""
    spaces = Space.objects.select_related("team").filter(archived_at=None).order_by("team__name", "name")
    if user.is_superuser:
        spaces = spaces.annotate(own_role=Value(Role.ADMIN.value))
    else:
        own_role = role_in_space(space=OuterRef("pk"), membership="team__memberships__")
        spaces = spaces.filter(team__memberships__user=user).annotate(own_role=own_role)
    if (without_factor := mfa_required(user)) is None:
        return spaces.annotate(role=F("own_role"))
    downgraded = When(Q(own_role=Role.ADMIN) & without_factor, then=Value(Role.VIEWER.value))
    return spaces.annotate(role=Case(downgraded, default=F("own_role")))


def annotate_stuck(spaces: QuerySet[Space]) -> QuerySet[Space]:
    """Each with the number of stuck locks as `stuck`, as it was counted lately."""
    recent = When(stuck_count__counted_at__gt=Now() - MAX_COUNT_AGE, then=F("stuck_count__stuck"))
    return spaces.annotate(stuck=Case(recent, default=0))


def get_space_context(user: User, *, team: str, space: str) -> SpaceContext:
    visible = annotate_stuck(visible_spaces(user).filter(team__slug=team, slug=space)).first()
    if visible is None:
        raise Http404
    role, own_role = Role(visible.role), Role(visible.own_role)  # type: ignore[attr-defined]  # annotated
    stuck: int = visible.stuck  # type: ignore[attr-defined]  # annotated
    return SpaceContext(space=visible, role=role, stuck=stuck, requires_mfa=role is not own_role)


def login_required(view: View) -> View:
    """Redirects to sign-in and back. Times are in the zone of the user. The response is never cached: the next user of
    the browser must not see it."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request)
        with timezone.override(current_user(request).zone):
            response = view(request, *args, **kwargs)
        # The same URL answers with a page or a fragment of it.
        patch_vary_headers(response, ["HX-Request"])
        return response

    return never_cache(guarded)


def space_required(view: View) -> View:
    """For views of `/ui/<team>/<space>/…`: the view gets the SpaceContext instead of the two slugs."""

    @login_required
    @wraps(view)
    def with_space(request: HttpRequest, *, team: str, space: str, **arguments: Any) -> HttpResponseBase:
        return view(request, get_space_context(current_user(request), team=team, space=space), **arguments)

    return with_space


def admin_required(view: View) -> View:
    """For views of a space that only admins of its team may use."""

    @wraps(view)
    def as_admin(request: HttpRequest, space_context: SpaceContext, **arguments: Any) -> HttpResponseBase:
        space_context.require_admin()
        try:
            return view(request, space_context, **arguments)
        except NotAllowed:
            # Demoted since the check above: the service checks again, under the team's lock.
            raise PermissionDenied(f"You are no longer an admin of the team {space_context.team.name}.") from None

    return as_admin


def redirect_to_login(request: HttpRequest) -> HttpResponse:
    current_url = request.headers.get("HX-Current-URL")
    if request.headers.get("HX-Request") and current_url:
        page = parse_url(current_url)
        back = page.path + (f"?{page.query}" if page.query else "")
        return HttpResponseClientRedirect(_sign_in_url(back))
    return redirect(_sign_in_url(request.get_full_path()))


def parse_url(text: str) -> SplitResult:
    """An empty URL if the text is none."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def _sign_in_url(back: str) -> str:
    return f"{reverse('dashboard:sign-in')}?{urlencode({'next': back})}"
