"""`manage.py verify_audit`: compares the audit history with the lock table."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from locks.engine.execution import run
from locks.events.history.verification import verify
from locks.system_state.statement_timeout import statement_timeout


class Command(BaseCommand):
    help = "Replays the audit history and compares it with the lock table; fails if they differ."

    def handle(self, *_args: Any, **_options: Any) -> None:
        with statement_timeout("0"):
            report = run(verify())
        if report.contradictions:
            listed = "\n  ".join(map(str, report.contradictions))
            raise CommandError(f"The history contradicts itself or the locks. First: {listed}")
        self.stdout.write(f"The history is consistent: {report.leases} leases, none ended twice, none overlapping.")
