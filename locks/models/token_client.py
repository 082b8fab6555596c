"""The addresses that a token was used from lately, each with the program that used it."""

from django.db import models
from django.db.models.functions import Now

from locks.models.token import Token

MAX_USER_AGENT = 256


class TokenClient(models.Model):
    """Written at most once a minute, beside the last use of the token. It is not stored with each lease, which would
    make acquire slower; so of two programs at one address, the one that was seen last is shown."""

    token = models.ForeignKey(Token, on_delete=models.CASCADE, related_name="clients", db_index=False)
    address = models.GenericIPAddressField()
    user_agent = models.CharField(max_length=MAX_USER_AGENT)
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_token_client"
        constraints = (models.UniqueConstraint(fields=("token", "address"), name="token_client_is_unique_by_address"),)

    def __str__(self) -> str:
        return f"{self.user_agent} at {self.address}"
