"""Paths that django-allauth leads to by names of its own. Everything else of it has no address here."""

from django.urls import path

from locks.dashboard.auth import login_methods
from locks.dashboard.auth import views as entrance

urlpatterns = [
    path("sign-in", entrance.sign_in, name="account_login"),
    path("sign-in/second-step", login_methods.second_step, name="mfa_authenticate"),
    path("sign-in/github/callback", login_methods.github_callback, name="github_callback"),
    path("sign-in/<slug:provider_id>/callback", login_methods.openid_callback, name="openid_connect_callback"),
]
