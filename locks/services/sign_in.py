"""Signing in and out, on the record."""

from collections.abc import Sequence

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.backends import ModelBackend
from django.db import transaction
from django.http import HttpRequest

from locks.models import ActorKind, Channel, EventKind, User
from locks.services import login_throttle
from locks.services.audit import Actor, record

BACKEND = "locks.services.sign_in.UsernameOrEmailBackend"


class UsernameOrEmailBackend(ModelBackend):
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
    return min(User.answering_to(name), key=lambda user: user.username.lower() != name.lower(), default=None)


def check(*, request: HttpRequest, name: str, password: str, request_id: str) -> User | None:
    """Whose name and password they are. None if one of them is wrong, without telling which.

    Raises TooMany instead of looking if there were too many tries.
    """
    address = request.META.get("REMOTE_ADDR")
    known = find_person(name)
    # What was typed is not kept: people type passwords into the wrong field.
    actor = Actor(
        kind=ActorKind.USER, id=known.pk if known else None, name=known.get_username() if known else "unknown",
        channel=Channel.WEB, address=address, request_id=request_id,
    )  # fmt: skip
    # As the database compares names, so that another spelling of one is no further allowance.
    typed = name.upper().casefold()
    tried = login_throttle.check(gate=login_throttle.ThrottleScope.PASSWORD, who=typed, user=known, actor=actor)
    account = _begin_quietly(who=str(known.pk) if known else typed, user=known, actor=actor)
    user = authenticate(request, username=name, password=password)
    if account is None:
        return None
    if not isinstance(user, User):
        record(EventKind.SIGN_IN_FAILED, actor=actor)
        return None
    login_throttle.reset(tried)
    login_throttle.reset(account)
    return user


def _begin_quietly(*, who: str, user: User | None, actor: Actor) -> login_throttle.Attempt | None:
    """None if the account has had too many tries, under whichever name. Nobody is told: that a second name is slowed by
    tries with the first would tell that both are one person's."""
    try:
        return login_throttle.check(gate=login_throttle.ThrottleScope.ACCOUNT, who=who, user=user, actor=actor)
    except login_throttle.TooMany:
        return None


@transaction.atomic
def log_in(*, request: HttpRequest, user: User, methods: Sequence[str], actor: Actor) -> None:
    """Lets somebody in who has proved who they are."""
    request.session.begin_at(  # type: ignore[attr-defined]
        address=actor.address, user_agent=request.META.get("HTTP_USER_AGENT", "")
    )
    login(request, user, backend=BACKEND)
    login_throttle.record_network(user=user, address=actor.address)
    record(EventKind.SIGNED_IN, actor=actor, detail={"methods": list(methods)})


@transaction.atomic
def sign_out(*, request: HttpRequest, actor: Actor) -> None:
    record(EventKind.SIGNED_OUT, actor=actor)
    logout(request)
