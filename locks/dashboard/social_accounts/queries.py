"""The accounts at identity providers that a user signs in with."""

from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from locks.models import User


def providers_of(user: User) -> dict[str, str]:
    """The configured providers that the user signs in with, and what the pages call them."""
    used = SocialAccount.objects.filter(user=user).values_list("provider", flat=True)
    return {name: settings.PROVIDERS[name] for name in used if name in settings.PROVIDERS}
