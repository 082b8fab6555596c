"""Signing in and out, with an audit event each."""

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
    """Users sign in with their user name or e-mail address, in any case."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: object
    ) -> User | None:
        if not username or password is None:
            return None
        user = find_user(username)
        if user is None:
            # As much work as for an existing user, so that the time of the answer does not reveal accounts.
            User().set_password(password)
            return None
        return user if user.check_password(password) and self.user_can_authenticate(user) else None


def find_user(name: str) -> User | None:
    """By user name or e-mail address. A user name takes precedence over an equal address of another user."""
    return min(User.with_login(name), key=lambda user: user.username.lower() != name.lower(), default=None)


def check(*, request: HttpRequest, name: str, password: str, request_id: str) -> User | None:
    """The user with this name and password. None if either is wrong. Raises TooMany instead after too many attempts."""
    known = find_user(name)
    # The typed name is not recorded: people type passwords into the wrong field.
    actor = Actor(
        kind=ActorKind.USER,
        id=known.pk if known else None,
        name=known.get_username() if known else "unknown",
        channel=Channel.WEB,
        address=request.META.get("REMOTE_ADDR"),
        request_id=request_id,
    )
    # Normalised as the database compares names, so that another spelling does not get another limit.
    typed = name.upper().casefold()
    attempt = login_throttle.check(scope=login_throttle.ThrottleScope.PASSWORD, subject=typed, user=known, actor=actor)
    account_attempt = _check_account(subject=str(known.pk) if known else typed, user=known, actor=actor)
    user = authenticate(request, username=name, password=password)
    if account_attempt is None:
        return None
    if not isinstance(user, User):
        record(EventKind.SIGN_IN_FAILED, actor=actor)
        return None
    login_throttle.reset(attempt)
    login_throttle.reset(account_attempt)
    return user


def _check_account(*, subject: str, user: User | None, actor: Actor) -> login_throttle.Attempt | None:
    """None if the account has had too many attempts under all its names. The caller then answers as for a wrong
    password: a throttled answer would reveal that two names belong to one account."""
    try:
        return login_throttle.check(scope=login_throttle.ThrottleScope.ACCOUNT, subject=subject, user=user, actor=actor)
    except login_throttle.TooMany:
        return None


@transaction.atomic
def log_in(*, request: HttpRequest, user: User, methods: Sequence[str], actor: Actor) -> None:
    """Starts the session of a user who has proved their identity by all required methods."""
    request.session.set_origin(  # type: ignore[attr-defined]  # of our own session store
        address=actor.address, user_agent=request.META.get("HTTP_USER_AGENT", "")
    )
    login(request, user, backend=BACKEND)
    login_throttle.record_network(user=user, address=actor.address)
    record(EventKind.SIGNED_IN, actor=actor, detail={"methods": list(methods)})


@transaction.atomic
def sign_out(*, request: HttpRequest, actor: Actor) -> None:
    record(EventKind.SIGNED_OUT, actor=actor)
    logout(request)
