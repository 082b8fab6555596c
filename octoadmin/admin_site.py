"""The admin console signs in through the dashboard: the same throttle, the same second factor, the same audit."""

from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from locks.models import User


class OctoAdminSite(AdminSite):
    site_title = site_header = "Octoadmin console"

    def has_permission(self, request: HttpRequest) -> bool:
        from locks.services.mfa import is_mfa_required

        if not super().has_permission(request):
            return False
        return isinstance(request.user, User) and not is_mfa_required(request.user)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not request.user.is_authenticated:
            next_url = request.GET.get("next") or reverse("admin:index")
            return redirect(f"{reverse('dashboard:sign-in')}?{urlencode({'next': next_url})}")
        if not super().has_permission(request):
            raise PermissionDenied
        # A user who lacks only a second factor can set one up on the account page.
        return redirect("admin:index" if self.has_permission(request) else "dashboard:account")

    def require_reauthentication(self, request: HttpRequest) -> HttpResponse | None:
        """Before sensitive actions of the admin classes: the form of the dashboard, or None if none is needed."""
        from locks.dashboard.reauthentication.flow import require_reauthentication

        return require_reauthentication(request)

    def logout(  # type: ignore[override]  # Django's stub promises a TemplateResponse
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from locks.dashboard.auth.views import sign_out

        return sign_out(request)

    def password_change(  # type: ignore[override]  # Django's stub promises a TemplateResponse
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("dashboard:account")
