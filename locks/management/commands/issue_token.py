"""`manage.py issue_token`: a bearer token for a space, shown once."""

from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from locks.models import Scope, Space
from locks.models.token import PRESETS
from locks.services import clock, tokens
from locks.services.audit import Actor
from locks.token_rules import MAX_NAME, MAX_PREFIX, MAX_PREFIXES, is_valid_name

MAX_DAYS = 3_650
NEVER_WARNING = "this token never expires. If it leaks, it works until it is revoked."


def find_space(*, team: str, space: str) -> Space:
    try:
        return Space.objects.select_related("team").get(team__slug=team, slug=space, archived_at__isnull=True)
    except Space.DoesNotExist:
        spaces = Space.objects.select_related("team").filter(archived_at=None).order_by("team__slug", "slug")
        names = ", ".join(str(known) for known in spaces[:20]) or "none"
        raise CommandError(f"There is no space {team}/{space}. There are: {names}.") from None


def _expiry(*, days: int | None, never: bool) -> datetime | tokens.Expiry:
    if never:
        return tokens.Expiry.NEVER
    return clock.now() + timedelta(days=days) if days else tokens.Expiry.DEFAULT


class Command(BaseCommand):
    help = "Issues a bearer token and prints it, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", default="demo", help="the team's slug (default: demo)")
        parser.add_argument("--space", default="main", help="the space's slug (default: main)")
        parser.add_argument("--name", required=True, help="the program that uses it; unique in the space")
        parser.add_argument(
            "--preset", choices=list(PRESETS), default="worker", help="a set of scopes (default: worker)"
        )
        parser.add_argument(
            "--scope",
            dest="scopes",
            action="append",
            choices=Scope.values,
            help="a scope, instead of the preset; may be repeated",
        )
        parser.add_argument(
            "--prefix",
            dest="prefixes",
            action="append",
            default=[],
            help="limit it to lock names with this prefix; may be repeated",
        )
        life = parser.add_mutually_exclusive_group()
        life.add_argument(
            "--days", type=int, help=f"expires after this many days (default: {tokens.DEFAULT_LIFETIME.days})"
        )
        life.add_argument("--never", action="store_true", help="never expires; only where the space allows it")
        parser.add_argument("--quiet", action="store_true", help="print the token and nothing else")

    def handle(self, **options: Any) -> None:
        space = find_space(team=options["team"], space=options["space"])
        days = options["days"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be at least 1 and at most {MAX_DAYS}.")
        if not is_valid_name(options["name"]):
            raise CommandError(f"--name must be visible text of at most {MAX_NAME} characters.")
        prefixes = tokens.canonical_prefixes(options["prefixes"], space=space)
        if prefixes is None or len(prefixes) > MAX_PREFIXES:
            raise CommandError(
                f"--prefix must be visible text of at most {MAX_PREFIX} characters, without blanks; at most "
                f"{MAX_PREFIXES} of them."
            )
        try:
            plaintext, token = tokens.issue(
                actor=Actor.of_shell(),
                space=space,
                name=options["name"],
                scopes=options["scopes"] or PRESETS[options["preset"]],
                prefixes=prefixes,
                expires_at=_expiry(days=days, never=options["never"]),
            )
        except tokens.MustExpire:
            raise CommandError(
                f"{space} does not allow tokens that never expire. Give --days, or change the limits of the space."
            ) from None
        except IntegrityError:
            raise CommandError(f"{space} has a token named {options['name']!r} already. Choose another name.") from None
        if token.expires_at is None:
            # Not on stdout, which scripts read the token from.
            self.stderr.write(self.style.WARNING(f"Warning: {NEVER_WARNING}"))
        if options["quiet"]:
            self.stdout.write(plaintext)
            return
        until = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at else "until it is revoked"
        self.stdout.write(f"{plaintext}\n\nFor {token.name} in {space}, {until}: {', '.join(token.scopes)}.")
        self.stdout.write("It is shown this once.")
