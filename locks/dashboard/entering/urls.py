"""Paths that django-allauth leads to by names of its own. Everything else of it has no address here."""

from django.urls import path

from locks.dashboard.views import entrance, ways_in

urlpatterns = [
    path("sign-in", entrance.sign_in, name="account_login"),
    path("sign-in/second-step", ways_in.second_step, name="mfa_authenticate"),
    path("sign-in/github/callback", ways_in.github_callback, name="github_callback"),
    path("sign-in/<slug:provider_id>/callback", ways_in.openid_callback, name="openid_connect_callback"),
]
