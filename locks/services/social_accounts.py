"""Accounts at providers that people sign in with, and the addresses that are known to be theirs.

An address is verified when a provider that the person has proved to own says so, or when a superuser has entered it in
the console. What somebody typed into their own profile is not.
"""

import re
from collections.abc import Callable, Sequence

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Lower

from locks.models import EventKind, User
from locks.services.audit import Actor, record

_NOT_IN_NAMES = re.compile(r"[^\w.@+-]+", re.ASCII)


def find_by_address(verified: Sequence[str]) -> User | None:
    """Whose address one of these is, verified on our side too, and still the one in their profile."""
    lowered = [address.lower() for address in verified]
    known = EmailAddress.objects.annotate(lowered=Lower("email"), theirs=Lower("user__email"))
    found = known.filter(lowered__in=lowered, theirs=F("lowered"), verified=True).select_related("user").first()
    return found.user if found else None


def is_taken(address: str) -> bool:
    return User.objects.filter(email__iexact=address).exists()


@transaction.atomic
def add_person(
    *, address: str, wanted_name: str, first_name: str, last_name: str, provider: str,
    make_actor: Callable[[User], Actor],
) -> User:  # fmt: skip
    """Without a password, and in no team yet."""
    user = User(username=_free_name(wanted_name), email=address, first_name=first_name[:150], last_name=last_name[:150])
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


def record_refusal(*, actor: Actor, provider: str, because: str) -> None:
    record(EventKind.SIGN_IN_FAILED, actor=actor, detail={"method": provider, "because": because})


@transaction.atomic
def mark_email_verified(user: User) -> None:
    """The address in their profile is theirs: whoever a provider vouches for with it is them."""
    EmailAddress.objects.filter(user=user).delete()
    # Somebody else may have had it verified before they changed theirs.
    EmailAddress.objects.filter(email__iexact=user.email).delete()
    if user.email:
        EmailAddress.objects.create(user=user, email=user.email.lower(), verified=True, primary=True)


def forget_addresses(user: User) -> None:
    EmailAddress.objects.filter(user=user).delete()


def _free_name(wanted: str) -> str:
    name = _NOT_IN_NAMES.sub("-", wanted).strip("-")[:140] or "person"
    taken = set(User.objects.filter(username__istartswith=name).values_list(Lower("username"), flat=True))
    tried = name
    number = 2
    while tried.lower() in taken:
        tried = f"{name}-{number}"
        number += 1
    return tried
