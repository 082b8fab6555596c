"""`manage.py verify_audit`: whether the history and the lock table tell the same story."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from locks.engine.execution import run
from locks.events.history.verification import verify


class Command(BaseCommand):
    help = "Re-play the audit history and compare it with the lock table; fails at the first contradiction."

    def handle(self, *_args: Any, **_options: Any) -> None:
        found = run(verify())
        if found.contradictions:
            first, *others = found.contradictions
            more = "".join(f"\n  {other}" for other in others)
            raise CommandError(f"The history contradicts itself or the locks. First: {first}{more}")
        self.stdout.write(f"The history is whole: {found.leases} leases, each ended once at most, none overlapping.")
