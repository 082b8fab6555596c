"""A user's own account: profile, password and browser sessions."""

from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from locks.browser_sessions import digest
from locks.models import BrowserSession, EventKind, User
from locks.services import social_accounts
from locks.services.audit import Actor, record

MAX_SESSIONS_LISTED = 100


@transaction.atomic
def change_profile(*, actor: Actor, user: User, first_name: str, last_name: str, email: str, timezone: str) -> bool:
    """False if nothing has changed."""
    fields = {"first_name": first_name, "last_name": last_name, "email": email, "timezone": timezone}
    changed = [name for name, value in fields.items() if getattr(user, name) != value]
    if changed:
        for name in changed:
            setattr(user, name, fields[name])
        user.save(update_fields=changed)
        if "email" in changed:
            social_accounts.delete_verified_emails(user)
        record(EventKind.PROFILE_CHANGED, actor=actor, detail={"changed": changed})
    return bool(changed)


@transaction.atomic
def change_password(*, actor: Actor, request: HttpRequest, user: User, password: str) -> None:
    """Ends all other sessions of the user."""
    is_first = not user.has_usable_password()
    user.set_password(password)
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    ended, _ = _other_sessions(request=request, user=user).delete()
    record(EventKind.PASSWORD_CHANGED, actor=actor, detail={"first": is_first, "sessions_ended": ended})


@transaction.atomic
def set_password(*, actor: Actor, user: User, password: str) -> None:
    """For a password that another person sets."""
    user.set_password(password)
    user.save(update_fields=["password"])
    record_password_set(actor=actor, user=user)


@transaction.atomic
def record_password_set(*, actor: Actor, user: User) -> None:
    """After another person has set a user's password. Ends all sessions of the user."""
    detail = {"person": user.get_username(), "sessions_ended": end_sessions(user)}
    record(EventKind.PASSWORD_CHANGED, actor=actor, detail=detail)


def is_last_superuser(user: User) -> bool:
    """Whether no other superuser can use the admin console. Locks all superusers, so call it inside a transaction."""
    superusers = User.objects.filter(is_superuser=True, is_staff=True, is_active=True).order_by("pk")
    return list(superusers.select_for_update(no_key=True)) == [user]


def end_sessions(user: User) -> int:
    ended, _ = BrowserSession.objects.filter(user=user).delete()
    return ended


def sessions_of(user: User) -> list[BrowserSession]:
    return list(BrowserSession.objects.filter(user=user).order_by("-seen_at")[:MAX_SESSIONS_LISTED])


@transaction.atomic
def revoke_session(*, actor: Actor, user: User, public_id: UUID) -> bool:
    """Takes effect with the session's next request. False if there is no such session."""
    session = BrowserSession.objects.filter(user=user, public_id=public_id).first()
    if session is None:
        return False
    session.delete()
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": 1, "address": session.address})
    return True


@transaction.atomic
def revoke_other_sessions(*, actor: Actor, request: HttpRequest, user: User) -> int:
    ended, _ = _other_sessions(request=request, user=user).delete()
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": ended})
    return ended


@transaction.atomic
def sign_out_everywhere(*, actor: Actor, user: User) -> int:
    ended = end_sessions(user)
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": ended, "this_one_too": True})
    return ended


def is_current_session(request: HttpRequest, session: BrowserSession) -> bool:
    return session.session_key == digest(request.session.session_key or "")


def _other_sessions(*, request: HttpRequest, user: User) -> QuerySet[BrowserSession]:
    return BrowserSession.objects.filter(user=user).exclude(session_key=digest(request.session.session_key or ""))
