"""`manage.py changepassword`: Django's command, with an audit event and an end of all sessions."""

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

MAX_ATTEMPTS = 3


class Command(changepassword.Command):
    help = "Asks for a new password of a user, by user name or e-mail address, and ends all sessions of the user."

    def handle(self, *args: Any, **options: Any) -> str:
        """Django's own command would save all fields of the user as they were before the password was typed."""
        name = options["username"] or getpass.getuser()
        user = find_user(name)
        if user is None:
            raise CommandError(f"There is no user {name}.")
        self.stdout.write(f"Changing the password of {user}.")
        password = self._ask(user)
        accounts.set_password(actor=Actor.of_shell(), user=user, password=password)
        return f"{user} has a new password; all sessions are ended."

    def _ask(self, user: User) -> str:
        for _try in range(MAX_ATTEMPTS):
            password = getpass.getpass()
            if getpass.getpass("Password (again): ") != password:
                self.stderr.write("The passwords do not match.")
                continue
            try:
                validate_password(password, user)
            except ValidationError as error:
                self.stderr.write("\n".join(error.messages))
                continue
            return password
        raise CommandError(f"The password of {user} is unchanged after {MAX_ATTEMPTS} attempts.")
