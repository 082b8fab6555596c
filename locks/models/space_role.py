"""The role of a member in one space, instead of the role in the team."""

from django.db import models
from django.db.models import Case, F, OuterRef, Subquery, Value, When
from django.db.models.functions import Coalesce

from locks.models.space import Space
from locks.models.team import Membership, Role

# Admins manage the team as a whole, so this role exists in the team only.
SPACE_ROLES = (Role.VIEWER, Role.OPERATOR)


class SpaceRole(models.Model):
    """Of members that are not admins of the team: admins have all rights in every space."""

    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="space_roles", db_index=False)
    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(max_length=8, choices=[(role.value, role.label) for role in SPACE_ROLES])

    class Meta:
        db_table = "octo_space_role"
        constraints = (
            models.UniqueConstraint(fields=("membership", "space"), name="space_role_is_one_per_member_and_space"),
            models.CheckConstraint(condition=models.Q(role__in=SPACE_ROLES), name="space_role_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.role} in {self.space}"


def role_in_space(*, space: int | OuterRef, membership: str = "") -> Case:
    """For queries: the role of a member in a space. Admins of the team are admins in all of its spaces; for others a
    role in the space replaces that in the team. `membership` is the path to the membership, with `__` at its end."""
    in_space = SpaceRole.objects.filter(space=space, membership=OuterRef(f"{membership}pk"))  # type: ignore[misc]  # or an OuterRef
    is_admin = When(**{f"{membership}role": Role.ADMIN}, then=Value(Role.ADMIN.value))
    return Case(is_admin, default=Coalesce(Subquery(in_space.values("role")), F(f"{membership}role")))
