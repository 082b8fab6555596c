"""The `octoadmin` command, which `manage.py` calls too: up, server, worker, migrate, issue-token, …"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")
    from octoadmin.environment import EnvironmentProblem, environment

    try:
        environment().resolved_secret_key()
    except EnvironmentProblem as problem:
        sys.exit(f"Octoadmin cannot start, the environment needs mending:\n{problem}")
    # Processes that a command starts have another working directory.
    os.environ["OCTO_DATA_DIR"] = str(environment().data_dir)

    from django.conf import settings
    from django.core.management import execute_from_command_line

    program, *words = sys.argv
    if words == ["--version"]:
        sys.stdout.write(f"octoadmin {settings.VERSION}\n")
        return
    if words and not words[0].startswith("-"):
        words[0] = words[0].replace("-", "_")
    try:
        execute_from_command_line([program, *words])
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
