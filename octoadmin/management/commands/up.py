"""`octoadmin up`: all of Octoadmin in the foreground. See octoadmin.run.startup."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from octoadmin.environment import environment
from octoadmin.run import startup


class Command(BaseCommand):
    help = "Starts the database, the server and the worker, and runs in the foreground until Ctrl-C."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--stop-with-parent",
            action="store_true",
            help="Stop when the parent process has ended.",
        )

    def handle(self, *_args: Any, stop_with_parent: bool, **_options: Any) -> None:
        sys.exit(startup.run(environment(), stop_with_parent=stop_with_parent))
