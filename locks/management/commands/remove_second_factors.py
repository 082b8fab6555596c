"""`manage.py remove_second_factors`: for a user who has lost the second factors and the recovery codes."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from locks.models import EventKind
from locks.services.audit import Actor, record
from locks.services.sign_in import find_user


class Command(BaseCommand):
    help = "Removes all second factors of a user, so that the password or provider is enough to sign in."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("person", help="user name or e-mail address")

    @transaction.atomic
    def handle(self, *args: Any, person: str, **options: Any) -> None:
        user = find_user(person)
        if user is None:
            raise CommandError(f"There is no user {person}.")
        removed, _ = Authenticator.objects.filter(user=user).delete()
        if removed:
            detail = {"kind": "all", "person": user.get_username()}
            record(EventKind.SECOND_FACTOR_REMOVED, actor=Actor.of_shell(), detail=detail)
        self.stdout.write(f"{user.get_username()} has no second factor now.")
