"""`manage.py revoke_token`: revokes a bearer token."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from locks.models import Token
from locks.services import tokens
from locks.services.audit import Actor
from locks.services.force_release import MAX_REASON


class Command(BaseCommand):
    help = "Revokes a bearer token. It stops working with the next request."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("public_id", help="the part between the first two underscores; never the whole token")
        parser.add_argument("--reason", help="why, for the audit history")
        parser.add_argument("--release", action="store_true", help="release its leases at once (default: they expire)")

    def handle(self, **options: Any) -> None:
        public_id, reason = options["public_id"], options["reason"]
        if reason and len(reason) > MAX_REASON:
            raise CommandError(f"--reason must have at most {MAX_REASON} characters.")
        token = Token.objects.select_related("space__team").filter(public_id=public_id).first()
        if token is None:
            raise CommandError("There is no token with that public id.")
        actor = Actor.of_shell()
        result = tokens.revoke_and_release(actor=actor, token=token, reason=reason, release=options["release"])
        if result is None:
            raise CommandError(f"{token} was revoked already.")
        self.stdout.write(f"{token} in {token.space} is revoked.")
        if options["release"]:
            self.stdout.write(f"Leases released: {result.released}.")
        if result.left:
            self.stdout.write(f"Leases left to expire: {result.left}.")
