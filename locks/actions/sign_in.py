"""Signing in and out, on the record."""

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.backends import ModelBackend
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest

from locks.actions.audit import Actor, record
from locks.models import ActorKind, Channel, EventKind, User


class NameOrEmail(ModelBackend):
    """People sign in with their user name or their e-mail address, in any case."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: object
    ) -> User | None:
        if not username or password is None:
            return None
        user = find_person(username)
        if user is None:
            # As much work as for somebody who exists, so that the time it takes tells nothing.
            User().set_password(password)
            return None
        return user if user.check_password(password) and self.user_can_authenticate(user) else None


def find_person(name: str) -> User | None:
    """A user name goes before somebody else's e-mail address that reads the same."""
    found = User.objects.filter(Q(username__iexact=name) | Q(email__iexact=name, email__gt=""))
    return min(found, key=lambda user: user.username.lower() != name.lower(), default=None)


@transaction.atomic
def sign_in(*, request: HttpRequest, name: str, password: str, request_id: str) -> User | None:
    """None if the name or the password is wrong, without telling which."""
    address = request.META.get("REMOTE_ADDR")
    user = authenticate(request, username=name, password=password)
    if isinstance(user, User):
        login(request, user)
        record(EventKind.SIGNED_IN, actor=Actor.of_user(user, address=address, request_id=request_id))
        return user
    known = find_person(name)
    # What was typed is not kept: people type passwords into the wrong field.
    record(
        EventKind.SIGN_IN_FAILED,
        actor=Actor(
            kind=ActorKind.USER, id=known.pk if known else None, name=known.get_username() if known else "unknown",
            channel=Channel.WEB, address=address, request_id=request_id,
        ),
    )  # fmt: skip
    return None


@transaction.atomic
def sign_out(*, request: HttpRequest, actor: Actor) -> None:
    record(EventKind.SIGNED_OUT, actor=actor)
    logout(request)
