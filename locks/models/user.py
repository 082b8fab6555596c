"""A user of the dashboard."""

from datetime import UTC, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.contrib.auth import models as auth_models
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower


# Generic to the type checker only: at run time the class takes no parameter.
class UserManager(auth_models.UserManager):  # type: ignore[type-arg]
    @transaction.atomic
    def create_superuser(self, *args: Any, **fields: Any) -> Any:
        """In one transaction with what signal receivers write, such as the audit event of `createsuperuser`."""
        return super().create_superuser(*args, **fields)


class User(AbstractUser):
    objects: ClassVar[UserManager] = UserManager()

    # In which the pages show times.
    timezone = models.CharField(max_length=64, default="UTC", db_default="UTC", verbose_name="time zone")

    class Meta:
        db_table = "octo_user"
        constraints = (
            models.UniqueConstraint(
                Lower("username"),
                name="user_name_is_unique_in_any_case",
                violation_error_message="This user name is taken. Names are compared without regard to case.",
            ),
            # An e-mail address must identify one user at sign-in. Users without an address are allowed.
            models.UniqueConstraint(
                Lower("email"),
                condition=~models.Q(email=""),
                name="user_email_is_unique_in_any_case",
                violation_error_message="This e-mail address is taken. Addresses are compared without regard to case.",
            ),
        )

    @property
    def zone(self) -> tzinfo:
        """UTC if the zone is not, or no longer, known to this server."""
        try:
            return ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            return UTC

    @classmethod
    def with_login(cls, name: str) -> "QuerySet[User]":
        """Users whose user name or e-mail address is `name`, in any case."""
        return cls.objects.filter(Q(username__iexact=name) | Q(email__iexact=name, email__gt=""))

    def clean(self) -> None:
        """A user name must not be the e-mail address of another user, or the sign-in would be ambiguous. Equal user
        names and equal addresses are left to the constraints."""
        super().clean()
        others = User.objects.exclude(pk=self.pk)
        same_login = (
            (self.username, others.filter(email__iexact=self.username)),
            (self.email, others.filter(username__iexact=self.email)),
        )
        for name, users in same_login:
            if name and users.exists():
                raise ValidationError(f"Another user signs in as {name}.")
