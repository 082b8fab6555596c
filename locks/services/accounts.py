"""What people change about themselves: their name and address, their password, where they are signed in."""

from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from locks.browser_sessions import digest
from locks.models import BrowserSession, EventKind, User
from locks.services import social_accounts
from locks.services.audit import Actor, record


@transaction.atomic
def change_profile(*, actor: Actor, user: User, first_name: str, last_name: str, email: str) -> bool:
    """False if nothing is new."""
    wanted = {"first_name": first_name, "last_name": last_name, "email": email}
    changed = [name for name, value in wanted.items() if getattr(user, name) != value]
    if changed:
        for name in changed:
            setattr(user, name, wanted[name])
        user.save(update_fields=changed)
        if "email" in changed:
            social_accounts.forget_addresses(user)
        record(EventKind.PROFILE_CHANGED, actor=actor, detail={"changed": changed})
    return bool(changed)


@transaction.atomic
def change_password(*, actor: Actor, request: HttpRequest, user: User, password: str) -> None:
    """Ends every other session: whoever knew the old one is out."""
    had_one = user.has_usable_password()
    user.set_password(password)
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    ended, _ = _others(request=request, user=user).delete()
    record(EventKind.PASSWORD_CHANGED, actor=actor, detail={"first": not had_one, "sessions_ended": ended})


@transaction.atomic
def set_password(*, actor: Actor, user: User, password: str) -> None:
    """For somebody else, or for whoever has forgotten theirs."""
    user.set_password(password)
    user.save(update_fields=["password"])
    note_new_password(actor=actor, user=user)


@transaction.atomic
def note_new_password(*, actor: Actor, user: User) -> None:
    """For one that somebody else has set. Ends every session: whoever knew the old one is out."""
    detail = {"person": user.get_username(), "sessions_ended": end_sessions(user)}
    record(EventKind.PASSWORD_CHANGED, actor=actor, detail=detail)


def is_last_superuser(user: User) -> bool:
    """Inside a transaction: whether nobody else could do in the console what they can. Locks all who could."""
    able = User.objects.filter(is_superuser=True, is_staff=True, is_active=True).order_by("pk")
    return list(able.select_for_update(no_key=True)) == [user]


def end_sessions(user: User) -> int:
    ended, _ = BrowserSession.objects.filter(user=user).delete()
    return ended


def sessions_of(user: User) -> list[BrowserSession]:
    return list(BrowserSession.objects.filter(user=user).order_by("-seen_at")[:100])


@transaction.atomic
def revoke_session(*, actor: Actor, user: User, public_id: UUID) -> bool:
    """Takes effect with its next request. False if it is gone already."""
    found = BrowserSession.objects.filter(user=user, public_id=public_id).first()
    if found is None:
        return False
    found.delete()
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": 1, "address": found.address})
    return True


@transaction.atomic
def revoke_other_sessions(*, actor: Actor, request: HttpRequest, user: User) -> int:
    ended, _ = _others(request=request, user=user).delete()
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": ended})
    return ended


@transaction.atomic
def sign_out_everywhere(*, actor: Actor, user: User) -> int:
    ended, _ = BrowserSession.objects.filter(user=user).delete()
    record(EventKind.SESSIONS_REVOKED, actor=actor, detail={"sessions": ended, "this_one_too": True})
    return ended


def is_this(request: HttpRequest, session: BrowserSession) -> bool:
    return session.session_key == digest(request.session.session_key or "")


def _others(*, request: HttpRequest, user: User) -> QuerySet[BrowserSession]:
    return BrowserSession.objects.filter(user=user).exclude(session_key=digest(request.session.session_key or ""))
