"""`manage.py revoke_token`: ends a bearer token at once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from locks.actions import tokens
from locks.actions.audit import Actor
from locks.models import Token


class Command(BaseCommand):
    help = "Revokes a bearer token. It stops working with the next request."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("public_id", help="the part between the first two underscores; never the whole token")
        parser.add_argument("--reason", help="why, for the audit history")

    def handle(self, **options: Any) -> None:
        public_id = options["public_id"]
        token = Token.objects.select_related("space__team").filter(public_id=public_id).first()
        if token is None:
            raise CommandError("There is no token with that public id.")
        if not tokens.revoke(actor=Actor.of_shell(), token=token, reason=options["reason"]):
            raise CommandError(f"{token} was revoked already.")
        self.stdout.write(f"{token} in {token.space} is revoked.")
