"""A person who signs in to the dashboard."""

from django.contrib.auth.models import AbstractUser
from django.db import models
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
