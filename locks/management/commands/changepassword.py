"""`manage.py changepassword`: Django's, with an event in the history, and out of every browser."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from locks.models import User
from locks.services import accounts
from locks.services.audit import Actor
from locks.services.sign_in import find_user

TRIES = 3


class Command(changepassword.Command):
    help = "Asks for a new password of a person, by user name or e-mail address, and signs them out everywhere."

    def handle(self, *args: Any, **options: Any) -> str:
        """Django's would save all of the person as they were before somebody took their time to type."""
        wanted = options["username"] or getpass.getuser()
        user = find_user(wanted)
        if user is None:
            raise CommandError(f"There is nobody called {wanted}.")
        self.stdout.write(f"A new password for {user}.")
        password = self._ask(user)
        accounts.set_password(actor=Actor.of_shell(), user=user, password=password)
        return f"{user} has a new password and is signed out everywhere."

    def _ask(self, user: User) -> str:
        for _try in range(TRIES):
            password = getpass.getpass()
            if getpass.getpass("Password (again): ") != password:
                self.stderr.write("That was not the same twice.")
                continue
            try:
                validate_password(password, user)
            except ValidationError as refused:
                self.stderr.write("\n".join(refused.messages))
                continue
            return password
        raise CommandError(f"The password of {user} stays as it is, after {TRIES} attempts.")
