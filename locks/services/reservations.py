"""Reservations: a person holds a lock from its page, as an ordinary lease without a token.

The engine's own statements grant, end and hand it over, so it has a fencing token, a history and an end like any
other. It needs no renewals: its TTL is its duration. The views have checked that the person is an operator of the
space; releasing one's own takes no role.
"""

from django.db.models import Func, QuerySet, TextField, Value

from locks.engine import results
from locks.engine.execution import run
from locks.engine.handover import end_and_hand_over
from locks.engine.operations import acquire, change_reservation
from locks.engine.requests import ChangeReservation, EndAndHandOver, Reserve
from locks.models import Lock, Membership, Role, Space, User
from locks.models.space_role import role_in_space
from locks.services.audit import Actor
from locks.services.force_release import authorized_by


def holder_id(user: User) -> Func:
    """For queries: the lock is reserved by the user if this is its holder id."""
    return Func(Value(user.pk), function="octo_person_holder_id", output_field=TextField())


def is_reserved_by(user: User, *, space: Space, name: str) -> bool:
    return Lock.objects.filter(space=space, name=name, token=None, holder_id=holder_id(user)).exists()


def colleagues(*, space: Space, user: User) -> QuerySet[User]:
    """Members that a reservation can be handed over to: those who could have made it."""
    members = Membership.objects.filter(team=space.team_id).annotate(role_here=role_in_space(space=space.pk))
    may_reserve = members.filter(role_here__in=(Role.OPERATOR, Role.ADMIN))
    return User.objects.filter(memberships__in=may_reserve, is_active=True).exclude(pk=user.pk).order_by("username")


def reserve(*, actor: Actor, space: Space, name: str, reason: str, seconds: int) -> results.Acquired:
    """`reason` is the metadata, which those who are refused see."""
    assert actor.id is not None
    request = Reserve(
        digest=None, user_id=actor.id, space_id=space.pk, name=name, owner=actor.name, metadata=reason,
        ttl_seconds=seconds, channel=actor.channel, address=actor.address, request_id=actor.request_id,
    )  # fmt: skip
    (result,) = run(acquire([request]))
    return result


def extend(*, actor: Actor, space: Space, name: str, fencing_token: int, seconds: int) -> results.ReservationChanged:
    """By so many seconds, or less where the space's limits end."""
    return run(change_reservation(_change(actor, space, name, fencing_token, extend_seconds=seconds)))


def hand_over(
    *, actor: Actor, space: Space, name: str, fencing_token: int, to: User
) -> results.ReservationChanged:  # fmt: skip
    """The other person gets a lease with a new fencing token and the same end."""
    change = _change(actor, space, name, fencing_token, new_user_id=to.pk, new_owner=to.get_username())
    return run(change_reservation(change))


def release(*, actor: Actor, space: Space, name: str, fencing_token: int, user: User) -> str:
    """The verdict. The id of the lease stays here: the person has proved to be its holder."""
    own = Lock.objects.filter(
        space=space, name=name, token=None, holder_id=holder_id(user), fencing_token=fencing_token
    )
    lease_id = own.values_list("lease_id", flat=True).first()
    request = EndAndHandOver(
        name=name, end_mode="release", lease_id=lease_id, expected_fencing_token=fencing_token,
        **authorized_by(actor, space_id=space.pk),
    )  # fmt: skip
    (result,) = run(end_and_hand_over([request]))
    return result.verdict


def _change(actor: Actor, space: Space, name: str, fencing_token: int, **change: int | str) -> ChangeReservation:
    assert actor.id is not None
    return ChangeReservation(
        space_id=space.pk, name=name, expected_fencing_token=fencing_token, actor_id=actor.id, actor_name=actor.name,
        channel=actor.channel, address=actor.address, request_id=actor.request_id, **change,  # type: ignore[arg-type]
    )  # fmt: skip
