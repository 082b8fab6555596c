"""Accounts at external providers (GitHub, OpenID Connect), and verified e-mail addresses.

An address is verified if a provider account that the user has connected confirms it, or if a superuser has entered it
in the admin console. An address that users enter in their own profile is not.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain, count

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Lower

from locks.models import EventKind, User
from locks.services.audit import Actor, record

_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+", re.ASCII)


def find_by_email(verified: Sequence[str]) -> User | None:
    """The user with one of these addresses, if it is verified here too and still the one in the user's profile."""
    lowered = [address.lower() for address in verified]
    addresses = EmailAddress.objects.annotate(lowered=Lower("email"), in_profile=Lower("user__email"))
    match = addresses.filter(lowered__in=lowered, in_profile=F("lowered"), verified=True).select_related("user").first()
    return match.user if match else None


def is_email_taken(address: str) -> bool:
    return User.objects.filter(email__iexact=address).exists()


@transaction.atomic
def create_user(
    *,
    email: str,
    preferred_name: str,
    first_name: str,
    last_name: str,
    provider: str,
    make_actor: Callable[[User], Actor],
) -> User:
    """A user without a password and without a team."""
    username = _unused_username(preferred_name)
    user = User(username=username, email=email, first_name=first_name[:150], last_name=last_name[:150])
    user.set_unusable_password()
    user.save()
    record(EventKind.PERSON_ADDED, actor=make_actor(user), detail={"through": provider})
    return user


@transaction.atomic
def connect(*, actor: Actor, user: User, account: SocialAccount, provider: str, verified: Sequence[str]) -> None:
    account.user = user
    account.save()
    if user.email and user.email.lower() in {address.lower() for address in verified}:
        mark_email_verified(user)
    record(EventKind.ACCOUNT_CONNECTED, actor=actor, detail={"provider": provider})


@transaction.atomic
def disconnect(*, actor: Actor, account: SocialAccount, provider: str) -> None:
    account.delete()
    record(EventKind.ACCOUNT_DISCONNECTED, actor=actor, detail={"provider": provider})


def record_rejection(*, actor: Actor, provider: str, reason: str) -> None:
    record(EventKind.SIGN_IN_FAILED, actor=actor, detail={"method": provider, "because": reason})


@transaction.atomic
def mark_email_verified(user: User) -> None:
    """The address in the user's profile; a provider that confirms it then signs in as this user."""
    EmailAddress.objects.filter(user=user).delete()
    # Another user may have verified the address before changing to another one.
    EmailAddress.objects.filter(email__iexact=user.email).delete()
    if user.email:
        EmailAddress.objects.create(user=user, email=user.email.lower(), verified=True, primary=True)


def delete_verified_emails(user: User) -> None:
    EmailAddress.objects.filter(user=user).delete()


def _unused_username(preferred: str) -> str:
    name = _NOT_IN_NAMES.sub("-", preferred).strip("-")[:140] or "person"
    taken = set(User.objects.filter(username__istartswith=name).values_list(Lower("username"), flat=True))
    candidates = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate.lower() not in taken)
