"""Teams, and the role of each member."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Now

# First path segments under /ui/ that belong to pages: a team with such a slug could not be reached. A test compares.
RESERVED_SLUGS = frozenset(
    {
        "account",
        "accounts",
        "confirm",
        "elections",
        "join",
        "overview",
        "search",
        "sign-in",
        "sign-out",
        "teams",
        "theme",
    }
    # The server's own team (locks/services/elections.py).
    | {"_elections"}
)


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    ADMIN = "admin", "Admin"


class Team(models.Model):
    slug = models.SlugField(max_length=50, unique=True)
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "octo_team"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.slug in RESERVED_SLUGS:
            raise ValidationError({"slug": "This slug is reserved for a page of Octoadmin. Choose another one."})


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "octo_membership"
        constraints = (
            models.UniqueConstraint(fields=("team", "user"), name="membership_is_one_per_team_and_person"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.user} in {self.team} as {self.role}"
