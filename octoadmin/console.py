"""The admin console's door is the dashboard's: the same brake, the same second factor, the same record."""

from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from locks.models import User


class Console(AdminSite):
    site_title = site_header = "Octoadmin console"

    def has_permission(self, request: HttpRequest) -> bool:
        from locks.services.mfa import is_mfa_required

        if not super().has_permission(request):
            return False
        return isinstance(request.user, User) and not is_mfa_required(request.user)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not request.user.is_authenticated:
            back = request.GET.get("next") or reverse("admin:index")
            return redirect(f"{reverse('dashboard:sign-in')}?{urlencode({'next': back})}")
        if not super().has_permission(request):
            raise PermissionDenied
        # Somebody who has everything but a second factor is led to where one is set up.
        return redirect("admin:index" if self.has_permission(request) else "dashboard:account")

    def require_reauthentication(self, request: HttpRequest) -> HttpResponse | None:
        """Before sensitive actions of the admin classes: the form of the dashboard, or None if none is needed."""
        from locks.dashboard.reauthentication.flow import require_reauthentication

        return require_reauthentication(request)

    def logout(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from locks.dashboard.auth.views import sign_out

        return sign_out(request)

    def password_change(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("dashboard:account")
