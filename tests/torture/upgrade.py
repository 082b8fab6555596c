"""The upgrade drill: servers and a worker of an earlier version run under load, the database is migrated, and new ones
join and replace them.

python -m tests.torture.upgrade [--from <git ref>], by default from the last release.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.clusters import create_space, primary
from tests.locks.events.webhooks.receiver import Receiver, receiving
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer
from tests.torture.failover.__main__ import check_deliveries, check_history, running_worker, set_up_environment
from tests.torture.failover.load import Load

PROGRESS_SECONDS = 120


class OldServer(RunningServer):
    """Runs the code of another directory, with the packages of this environment."""

    code: Path

    def launch(self) -> None:
        command = [sys.executable, "-m", "octoadmin.run.server"]
        self.process = subprocess.Popen(command, cwd=self.code, env=self._environment(), process_group=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="ref", help="the git ref of the earlier version; by default the last release")
    arguments = parser.parse_args()
    ref = arguments.ref or _last_release()
    print(f"from {ref}")
    with tempfile.TemporaryDirectory(prefix="octo-upgrade-", ignore_cleanup_errors=True) as temporary:
        set_up_environment(Path(temporary))
        code = Path(temporary) / "old"
        code.mkdir()
        archive = subprocess.run(["git", "archive", ref], cwd=PROJECT_DIR, check=True, capture_output=True)
        subprocess.run(["tar", "--extract", "--directory", code], input=archive.stdout, check=True)
        return drill(code)


def _last_release() -> str:
    """As `make try` finds it."""
    sys.path.append(str(PROJECT_DIR / "deploy"))
    ref: str = importlib.import_module("try").previous_release()
    return ref


def drill(code: Path) -> int:
    settings = {"OCTO_REQUESTS_PER_SECOND": "100000", "OCTO_WEBHOOK_NETWORKS": "127.0.0.0/8", "LOG_LEVEL": "error"}
    log = code.parent / "worker.log"
    with ExitStack() as context:
        node = context.enter_context(primary())
        token = create_space(node.url, code=code)
        old = [OldServer(node.url, settings) for _ in range(2)]
        new = [RunningServer(node.url, settings) for _ in range(2)]
        for server in old:
            server.code = code
            context.callback(server.stop)
            server.start()
        receiver = context.enter_context(receiving())
        created = old[0].api(token).call("POST", "/webhooks", {"url": f"{receiver.url}/hook", "prefix": "shared/"})
        assert created.status == 201, created.content
        load = Load([server.port for server in old], token)
        load.start()
        with running_worker(node.url, settings, log=log, code=code):
            _wait_for_progress(load, receiver)
            migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            subprocess.run(migrate, cwd=PROJECT_DIR, env=os.environ | {"DATABASE_URL": node.url}, check=True)
            print(f"migrated: {load.counts.total()} requests, {len(load.violations)} violations")
            _wait_for_progress(load, receiver)
        for server in new:
            context.callback(server.stop)
            server.start()
        context.enter_context(running_worker(node.url, settings, log=log))
        # Clients of both versions at the same time, with names of their own.
        joined = Load([new[0].port, old[1].port, new[1].port], token, prefix="joined/")
        joined.start()
        _wait_for_progress(load, receiver)
        _wait_for_progress(joined)
        load.stop()
        joined.stop()
        for server in old:
            server.stop()
        for each in (load, joined):
            each.ports[:] = [server.port for server in new]
            each.check_held()
        check_deliveries(node.url, load, receiver)
        check_history(node.url, load)
        for each in (load, joined):
            print("operations: " + ", ".join(f"{name} {count}" for name, count in sorted(each.counts.items())))
        violations = load.violations + joined.violations
        for violation in violations:
            print(f"VIOLATION {violation}")
        print(f"leases kept through the upgrade: {len(load.held)}; violations: {len(violations)}")
    return 1 if violations else 0


def _wait_for_progress(load: Load, receiver: Receiver | None = None) -> None:
    def progress() -> tuple[int, ...]:
        return load.counts["turns"], len(load.successes), len(receiver.at("/hook")) if receiver else 0

    turns, successes, deliveries = progress()
    wanted = (turns + 5, successes + 300, deliveries + 20 if receiver else 0)
    until(
        lambda: all(now >= least for now, least in zip(progress(), wanted, strict=True)),
        f"the load goes on; {load.counts}; {load.violations[:3]}",
        timeout=PROGRESS_SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main())
