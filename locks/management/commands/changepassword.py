"""`manage.py changepassword`: Django's, with an event in the history, and out of every browser."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.core.management.base import CommandError
from django.db import transaction

from locks.actions import people
from locks.actions.audit import Actor
from locks.actions.sign_in import find_person


class Command(changepassword.Command):
    help = "Asks for a new password of a person, by user name or e-mail address, and signs them out everywhere."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        wanted = options["username"] or getpass.getuser()
        user = find_person(wanted)
        if user is None:
            raise CommandError(f"There is nobody called {wanted}.")
        super().handle(*args, **{**options, "username": user.get_username()})
        people.note_new_password(actor=Actor.of_shell(), user=user)
