#!/usr/bin/env python
"""Server administration: up, migrate, issue_token, …"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")
    from octoadmin.environment import EnvironmentProblem, environment

    try:
        environment().resolved_secret_key()
    except EnvironmentProblem as problem:
        sys.exit(f"Octoadmin cannot start, the environment needs mending:\n{problem}")

    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
