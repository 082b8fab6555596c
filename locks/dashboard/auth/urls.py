"""Paths that django-allauth reverses under its own names. None of its other views is routed."""

from django.urls import path

from locks.dashboard.auth import views as auth
from locks.dashboard.social_accounts import views as social_accounts

urlpatterns = [
    path("sign-in", auth.sign_in, name="account_login"),
    path("sign-in/second-step", auth.second_step, name="mfa_authenticate"),
    path("sign-in/github/callback", social_accounts.github_callback, name="github_callback"),
    path("sign-in/<slug:provider_id>/callback", social_accounts.openid_callback, name="openid_connect_callback"),
]
