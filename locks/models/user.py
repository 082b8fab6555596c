"""A person who signs in to the dashboard."""

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower


class User(AbstractUser):
    class Meta:
        db_table = "octo_user"
        constraints = (
            models.UniqueConstraint(Lower("username"), name="user_name_is_unique_in_any_case"),
            # Signing in by e-mail must lead to one person. People without an address are allowed.
            models.UniqueConstraint(
                Lower("email"), condition=~models.Q(email=""), name="user_email_is_unique_in_any_case"
            ),
        )

    @classmethod
    def answering_to(cls, name: str) -> "QuerySet[User]":
        """Whoever signs in by that: a user name, or an e-mail address. One for all must not be the other for somebody
        else, or they could not get in."""
        return cls.objects.filter(Q(username__iexact=name) | Q(email__iexact=name, email__gt=""))

    def clean(self) -> None:
        super().clean()
        for name in filter(None, (self.username, self.email)):
            if User.answering_to(name).exclude(pk=self.pk).exists():
                raise ValidationError(f"Somebody else signs in as {name}.")
