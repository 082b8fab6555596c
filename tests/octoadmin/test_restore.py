"""Backup and restore, with the commands of docs/backup.md: to a moment, and from a dump."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from octoadmin.run.postgres import BINARIES, SUPERUSER, _account_for, _identity
from tests.clusters import Node, create_space, primary
from tests.locks.events.event_stream import EventStream
from tests.servers import PROJECT_DIR, Api, running_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

TTL = {"ttl_seconds": 3600}


GUIDE = (PROJECT_DIR / "docs/backup.md").read_text()
BACK_UP, RESTORE, SET_EPOCH, MOVE = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def run_guide(commands: str, node: Node, directory: Path, **variables: str | Path) -> None:
    """As the account of PostgreSQL."""
    identity = _identity(_account_for(node.cluster.directory))
    environment = {
        "PATH": f"{BINARIES}:{os.environ['PATH']}",
        **{name: str(value) for name, value in variables.items()},
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail"],
        input=f"cd {directory}\n{commands}", env=environment, capture_output=True, text=True, check=False, **identity,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def owned_directory(node: Node, path: Path) -> Path:
    path.mkdir()
    os.chown(path, node.cluster.directory.stat().st_uid, -1)
    return path


def manage(url: str, *arguments: str) -> str:
    environment = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "octoadmin.settings"}
    done = subprocess.run([sys.executable, *arguments], env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def acquire(api: Api, name: str) -> dict:
    lease = api.call("POST", f"/locks/{name}/acquire", TTL).json()
    assert lease["status"] == "acquired"
    return lease


def test_a_base_backup_and_the_log_restore_a_moment():
    with primary() as node:
        backups = owned_directory(node, node.directory / "backups")
        owned_directory(node, backups / "log")
        node.stop()
        archive = re.search(r"^archive_command = '(.+)'$", GUIDE, re.MULTILINE)
        assert archive
        node.settings |= {"archive_mode": "on", "archive_command": archive[1].replace("/backups", str(backups))}
        node.start()
        token = create_space(node.url)
        with running_server(node.url) as server:
            api = server.api(token)
            create_webhook(api)
            before = acquire(api, "before-the-backup")
            follow_history(node)
            replication = f"host={node.cluster.socket_dir} user={SUPERUSER}"
            run_guide(BACK_UP, node, backups, BACKUPS=backups, REPLICATION_URL=replication)
            kept = acquire(api, "before-the-moment")
            ((moment,),) = node.execute("SELECT clock_timestamp()::text")
            lost = acquire(api, "after-the-moment")
            assert api.call("POST", "/locks/before-the-moment/release", {"lease_id": kept["lease_id"]}).status == 200
            follow_history(node)
            watch = EventStream(server.port, "/watch", token).connect()
            assert next(watch.events()).event == "snapshot"
            node.execute("SELECT pg_switch_wal()")
        node.stop()
        restored = Node(owned_directory(node, node.directory.parent / "restored"))
        run_guide(RESTORE, node, backups, BACKUPS=backups, RESTORED=restored.cluster.directory, MOMENT=moment)
        restored.start()
        try:
            restored.wait_primary()
            with running_server(restored.url) as server:
                api = server.api(token)
                for lease in (before, kept):
                    body = {"lease_id": lease["lease_id"]}
                    assert api.call("POST", f"/locks/{lease['name']}/renew", body).status == 200
                # The lease is lost, and the next one has a higher fencing token all the same.
                assert api.call("GET", "/locks/after-the-moment").json()["status"] == "free"
                assert acquire(api, "after-the-moment")["fencing_token"] > lost["fencing_token"]
                watch.port = server.port
                events = watch.connect().events()
                assert [next(events).event for _ in range(2)] == ["reset", "snapshot"]
                watch.close()
            follow_history(restored)
            assert count_acquired(restored) == 3
            assert deliveries(restored) == [
                ("acquired", "before-the-backup"), ("reset", ""), ("acquired", "before-the-moment"),
                ("acquired", "after-the-moment"),
            ]  # fmt: skip
            assert manage(restored.url, "manage.py", "verify_audit")
        finally:
            restored.stop()


def test_a_dump_can_be_loaded_into_a_new_server():
    """The old server has used more transaction ids than the new one."""
    with primary() as old, primary() as new:
        token = create_space(old.url)
        old.execute("DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        with running_server(old.url) as server:
            api = server.api(token)
            create_webhook(api)
            lease = acquire(api, "deploy")
            watch = EventStream(server.port, "/watch", token).connect()
            assert next(watch.events()).event == "snapshot"
            follow_history(old)
            acquire(api, "not-yet-counted")
        new.stop()
        run_guide(SET_EPOCH, old, old.directory, DATABASE_URL=old.url, NEW_DATA=new.cluster.directory)
        new.start()
        dump = owned_directory(old, old.directory / "dump")
        run_guide(MOVE, old, dump, DATABASE_URL=old.url, NEW_DATABASE_URL=new.url)
        with running_server(new.url) as server:
            api = server.api(token)
            assert api.call("POST", "/locks/deploy/renew", {"lease_id": lease["lease_id"]}).status == 200
            acquire(api, "new")
            watch.port = server.port
            events = watch.connect().events()
            assert [next(events).event for _ in range(2)] == ["reset", "snapshot"]
            watch.close()
        # More transactions than the old server had: nothing of it is counted or sent again.
        new.execute("DO $$ BEGIN FOR i IN 1..10000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        follow_history(new)
        assert count_acquired(new) == 3
        assert deliveries(new) == [
            ("acquired", "deploy"), ("reset", ""), ("acquired", "not-yet-counted"), ("acquired", "new"),
        ]  # fmt: skip
        assert manage(new.url, "manage.py", "verify_audit")


def create_webhook(api: Api) -> None:
    assert api.call("POST", "/webhooks", {"url": "https://hooks.example/in", "kinds": ["acquired"]}).status == 201


def follow_history(node: Node) -> None:
    """What the worker does each second and each minute, without sending anything."""
    tasks = """
import django; django.setup()
from locks.engine.execution import run
from locks.events.history.rollup import rollup
from locks.events.webhooks.outbox import fan_out
run(rollup()); run(fan_out())
"""
    manage(node.url, "-c", tasks)


def count_acquired(node: Node) -> int:
    ((count,),) = node.execute("SELECT sum(acquired)::int FROM octo_stats_minute")
    return count


def deliveries(node: Node) -> list[tuple]:
    return node.execute("SELECT kind, lock_name FROM octo_delivery ORDER BY id")
