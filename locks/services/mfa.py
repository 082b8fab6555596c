"""Second factors: one-time codes (TOTP), passkeys, and recovery codes.

django-allauth stores them and does the cryptography; this module records changes in the audit history. A one-time code
works once: the row keeps the last counter that was used, and is locked while a code is checked.
"""

from typing import Any

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.mfa.utils import decrypt
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, QuerySet

from locks.models import EventKind, Membership, Role, User
from locks.services.audit import Actor, record

Kind = Authenticator.Type
MAX_PASSKEYS = 20
MAX_NAME = 60


def factors_of(user: User) -> "QuerySet[Any]":
    """Factors of the kinds that are enabled in the settings."""
    factors: QuerySet[Any] = Authenticator.objects.filter(user_id=user.pk, type__in=settings.MFA_SUPPORTED_TYPES)
    return factors.order_by("created_at")


def has_second_factor(user: User) -> bool:
    return factors_of(user).exclude(type=Kind.RECOVERY_CODES).exists()


def is_mfa_required(user: User) -> bool:
    """Whether the user is an admin who must set up a second factor before acting as one."""
    if not settings.SECOND_FACTOR_FOR_ADMINS or has_second_factor(user):
        return False
    return user.is_superuser or user.is_staff or Membership.objects.filter(user=user, role=Role.ADMIN).exists()


def mfa_required(user: User) -> Any:
    """The same as a query condition, for rows in which the user is an admin. None if the server requires no second
    factor."""
    if not settings.SECOND_FACTOR_FOR_ADMINS:
        return None
    return ~Exists(factors_of(user).exclude(type=Kind.RECOVERY_CODES))


@transaction.atomic
def add_totp(*, actor: Actor, user: User, secret: str, counter: int) -> list[str]:
    """`counter` is that of the code that was entered, which is used up. Returns recovery codes, to be shown once, if
    this is the first factor."""
    factor = TOTP.activate(user, secret).instance
    factor.data["last_counter"] = counter
    factor.save(update_fields=["data"])
    record(EventKind.SECOND_FACTOR_ADDED, actor=actor, detail={"kind": "codes"})
    return _first_recovery_codes(user)


@transaction.atomic
def add_passkey(*, actor: Actor, user: User, name: str, credential: dict[str, Any]) -> list[str]:
    WebAuthn.add(user, name, credential)
    record(EventKind.SECOND_FACTOR_ADDED, actor=actor, detail={"kind": "passkey", "name": name})
    return _first_recovery_codes(user)


@transaction.atomic
def remove(*, actor: Actor, user: User, factor: Authenticator) -> None:
    detail = {"kind": "codes"} if factor.type == Kind.TOTP else {"kind": "passkey", "name": factor.wrap().name}
    factor.delete()
    record(EventKind.SECOND_FACTOR_REMOVED, actor=actor, detail=detail)
    if not has_second_factor(user):
        Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).delete()


@transaction.atomic
def make_recovery_codes(*, actor: Actor, user: User) -> list[str]:
    """Replaces the old codes."""
    User.objects.select_for_update().get(pk=user.pk)
    Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).delete()
    record(EventKind.RECOVERY_CODES_MADE, actor=actor)
    return _generate_recovery_codes(user)


def recovery_codes_left(user: User) -> int:
    factor = factors_of(user).filter(type=Kind.RECOVERY_CODES).first()
    return len(RecoveryCodes(factor).get_unused_codes()) if factor else 0


@transaction.atomic
def use_code(*, user: User, code: str) -> Authenticator | None:
    """Marks the code as used, and returns its factor; None if the code is wrong."""
    code = code.replace(" ", "").replace("-", "")
    for factor in factors_of(user).exclude(type=Kind.WEBAUTHN).select_for_update():
        if factor.type == Kind.TOTP:
            counter = matching_counter(decrypt(factor.data["secret"]), code)
            if counter is not None and counter > factor.data.get("last_counter", 0):
                factor.data["last_counter"] = counter
                factor.save(update_fields=["data"])
                return factor
        elif RecoveryCodes(factor).validate_code(code):
            return factor
    return None


def matching_counter(secret: str, code: str) -> int | None:
    counter: int
    for counter in yield_hotp_counters_from_time():
        if compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, counter))):
            return counter
    return None


def _first_recovery_codes(user: User) -> list[str]:
    if factors_of(user).filter(type=Kind.RECOVERY_CODES).exists():
        return []
    return _generate_recovery_codes(user)


def _generate_recovery_codes(user: User) -> list[str]:
    codes: list[str] = RecoveryCodes.activate(user).generate_codes()
    return codes
