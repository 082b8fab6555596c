"""An invitation to a team: a link that works once, until it expires. Only the digest of its secret is stored."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.team import Role, Team


class Invite(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invites")
    role = models.CharField(max_length=8, choices=Role)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    # Shown in the list of invitations.
    note = models.CharField(max_length=100, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)
    accepted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "octo_invite"
        constraints = (
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invite_role_is_known"),
            models.CheckConstraint(
                condition=Q(accepted_at__isnull=True) | Q(revoked_at__isnull=True), name="invite_ends_in_one_way"
            ),
        )

    def __str__(self) -> str:
        return f"to {self.team} as {self.role}"
