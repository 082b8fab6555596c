"""A person who signs in to the dashboard."""

from typing import Any, ClassVar

from django.contrib.auth import models as auth_models
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower


class UserManager(auth_models.UserManager):  # type: ignore[type-arg]
    @transaction.atomic
    def create_superuser(self, *args: Any, **terms: Any) -> Any:
        """Together with what whoever listens writes about it."""
        return super().create_superuser(*args, **terms)


class User(AbstractUser):
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        db_table = "octo_user"
        constraints = (
            models.UniqueConstraint(
                Lower("username"),
                name="user_name_is_unique_in_any_case",
                violation_error_message="This user name is taken. Names are compared without regard to case.",
            ),
            # Signing in by e-mail must lead to one person. People without an address are allowed.
            models.UniqueConstraint(
                Lower("email"),
                condition=~models.Q(email=""),
                name="user_email_is_unique_in_any_case",
                violation_error_message="This e-mail address is taken. Addresses are compared without regard to case.",
            ),
        )

    @classmethod
    def answering_to(cls, name: str) -> "QuerySet[User]":
        """Whoever signs in by that: a user name, or an e-mail address. One for all must not be the other for somebody
        else, or they could not get in."""
        return cls.objects.filter(Q(username__iexact=name) | Q(email__iexact=name, email__gt=""))

    def clean(self) -> None:
        """Two names, or two addresses, that are the same are left to the constraints."""
        super().clean()
        others = User.objects.exclude(pk=self.pk)
        for name, taken in ((self.username, others.filter(email__iexact=self.username)),
                            (self.email, others.filter(username__iexact=self.email))):  # fmt: skip
            if name and taken.exists():
                raise ValidationError(f"Somebody else signs in as {name}.")
