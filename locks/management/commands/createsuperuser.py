"""`manage.py createsuperuser`: Django's, with an event in the history."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.db.models.signals import post_save

from locks.models import EventKind, User
from locks.services.audit import Actor, record


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        def note(instance: User, created: bool, **_: Any) -> None:
            if created:
                detail = {"through": "manage.py", "person": instance.get_username(), "superuser": True}
                record(EventKind.PERSON_ADDED, actor=Actor.of_shell(), detail=detail)

        # The one place that knows whom Django has made of what was typed, in the transaction that makes them.
        post_save.connect(note, sender=User)
        try:
            super().handle(*args, **options)
        finally:
            post_save.disconnect(note, sender=User)
