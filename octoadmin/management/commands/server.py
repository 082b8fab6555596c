"""`octoadmin server`: only the server. For deployments where the worker and the database run elsewhere."""

from typing import Any

from django.core.management.base import BaseCommand

from octoadmin.environment import environment
from octoadmin.run import startup


class Command(BaseCommand):
    help = "Runs only the server, on a database that has been migrated."
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        startup.collect_static_files(stamp=environment().data_dir / "static.stamp")
        startup.continue_as("octoadmin.run.server")
