"""`manage.py createsuperuser`: Django's command, with an audit event."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.db.models.signals import post_save

from locks.models import EventKind, User
from locks.services.audit import Actor, record


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        def record_user(instance: User, created: bool, **_: Any) -> None:
            if created:
                detail = {"through": "manage.py", "person": instance.get_username(), "superuser": True}
                record(EventKind.PERSON_ADDED, actor=Actor.of_shell(), detail=detail)

        # The signal has the new user, in the transaction that creates it.
        post_save.connect(record_user, sender=User)
        try:
            super().handle(*args, **options)
        finally:
            post_save.disconnect(record_user, sender=User)
