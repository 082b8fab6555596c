"""The upgrade drill: servers of an earlier version run under load, the database is migrated, and new servers join them.

python -m tests.torture.upgrade --from <git ref>
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.clusters import create_space, primary
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer
from tests.torture.failover.__main__ import _check_history, _set_up_environment
from tests.torture.failover.load import Load


class OldServer(RunningServer):
    """Runs the code of another directory, with the packages of this environment."""

    code: Path

    def launch(self) -> None:
        command = [sys.executable, "-m", "octoadmin.run.server"]
        self.process = subprocess.Popen(command, cwd=self.code, env=self._environment(), process_group=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="ref", required=True, help="the git ref of the earlier version")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="octo-upgrade-", ignore_cleanup_errors=True) as temporary:
        _set_up_environment(Path(temporary))
        code = Path(temporary) / "old"
        code.mkdir()
        archive = subprocess.run(["git", "archive", arguments.ref], cwd=PROJECT_DIR, check=True, capture_output=True)
        subprocess.run(["tar", "--extract", "--directory", code], input=archive.stdout, check=True)
        return drill(code)


def drill(code: Path) -> int:
    settings = {"OCTO_REQUESTS_PER_SECOND": "100000", "LOG_LEVEL": "error"}
    with ExitStack() as context:
        node = context.enter_context(primary())
        token = create_space(node.url, code=code)
        old = [OldServer(node.url, settings) for _ in range(2)]
        new = [RunningServer(node.url, settings) for _ in range(2)]
        for server in old:
            server.code = code
            context.callback(server.stop)
            server.start()
        load = Load([server.port for server in old], token)
        load.start()
        _wait_for_progress(load)
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, cwd=PROJECT_DIR, env=os.environ | {"DATABASE_URL": node.url}, check=True)
        print(f"migrated: {load.counts.total()} requests, {len(load.violations)} violations")
        _wait_for_progress(load)
        for server in new:
            context.callback(server.stop)
            server.start()
        # Clients of both versions at the same time, with names of their own.
        joined = Load([new[0].port, old[1].port, new[1].port], token, prefix="joined/")
        joined.start()
        _wait_for_progress(load)
        _wait_for_progress(joined)
        load.stop()
        joined.ports.remove(old[1].port)
        joined.stop()
        for server in old:
            server.stop()
        load.ports[:] = joined.ports
        load.check_held()
        _check_history(node.url, load)
        for each in (load, joined):
            print("operations: " + ", ".join(f"{name} {count}" for name, count in sorted(each.counts.items())))
        violations = load.violations + joined.violations
        for violation in violations:
            print(f"VIOLATION {violation}")
        print(f"leases kept through the upgrade: {len(load.held)}; violations: {len(violations)}")
    return 1 if violations else 0


def _wait_for_progress(load: Load) -> None:
    turns, successes = load.counts["turns"], len(load.successes)
    until(lambda: load.counts["turns"] > turns + 5 and len(load.successes) > successes + 300, "the load goes on")


if __name__ == "__main__":
    sys.exit(main())
