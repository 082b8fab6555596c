"""Backup and restore, as docs/high-availability.md describes them: to a moment, and from a dump."""

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

pytestmark = pytest.mark.timeout(240)

TTL = {"ttl_seconds": 3600}


# As in docs/high-availability.md.
GUIDE = (PROJECT_DIR / "docs/high-availability.md").read_text()
SET_READERS = re.findall(r"^UPDATE .*?;$", GUIDE, re.MULTILINE | re.DOTALL)


def run_as_owner(node: Node, *command: str | Path) -> None:
    identity = _identity(_account_for(node.cluster.directory))
    subprocess.run(command, check=True, capture_output=True, **identity)


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
        archive = node.directory / "archive"
        archive.mkdir()
        os.chown(archive, node.cluster.directory.stat().st_uid, -1)
        node.stop()
        node.settings |= {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
        node.start()
        token = create_space(node.url)
        with running_server(node.url) as server:
            api = server.api(token)
            before = acquire(api, "before-the-backup")
            restored = node.create_standby(node.directory.parent / "restored")
            kept = acquire(api, "before-the-moment")
            node.execute("SELECT pg_create_restore_point('moment')")
            lost = acquire(api, "after-the-moment")
            assert api.call("POST", "/locks/before-the-moment/release", {"lease_id": kept["lease_id"]}).status == 200
            watch = EventStream(server.port, "/watch", token).connect()
            assert next(watch.events()).event == "snapshot"
            node.execute("SELECT pg_switch_wal()")
        node.stop()
        (restored.cluster.directory / "standby.signal").unlink()
        (restored.cluster.directory / "recovery.signal").touch()
        os.chown(restored.cluster.directory / "recovery.signal", node.cluster.directory.stat().st_uid, -1)
        restored.settings |= {
            "restore_command": f"cp {archive}/%f %p", "recovery_target_name": "moment",
            "recovery_target_action": "promote", "primary_conninfo": "",
        }  # fmt: skip
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
            assert manage(restored.url, "manage.py", "verify_audit")
        finally:
            restored.stop()


def test_a_dump_can_be_loaded_into_a_new_server():
    """Its transaction ids are lower than those of the old server, so the readers of the history are set to them."""
    with primary() as old, primary() as new:
        token = create_space(old.url)
        for _ in range(10):
            old.execute("DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        with running_server(old.url) as server:
            lease = acquire(server.api(token), "deploy")
            watch = EventStream(server.port, "/watch", token).connect()
            assert next(watch.events()).event == "snapshot"
        roll_up(old)
        dump = old.directory / "dump"
        dump.mkdir()
        os.chown(dump, old.cluster.directory.stat().st_uid, -1)
        database = ("--username", SUPERUSER, "--host")
        run_as_owner(
            old, BINARIES / "pg_dump", *database, str(old.cluster.socket_dir), "--format", "custom",
            "--file", dump / "octoadmin", "octoadmin",
        )  # fmt: skip
        run_as_owner(
            new, BINARIES / "pg_restore", *database, str(new.cluster.socket_dir), "--dbname", "octoadmin",
            dump / "octoadmin",
        )  # fmt: skip
        for statement in SET_READERS:
            new.execute(statement)
        with running_server(new.url) as server:
            api = server.api(token)
            assert api.call("POST", "/locks/deploy/renew", {"lease_id": lease["lease_id"]}).status == 200
            acquire(api, "new")
            watch.port = server.port
            events = watch.connect().events()
            assert [next(events).event for _ in range(2)] == ["reset", "snapshot"]
            watch.close()
        roll_up(new)
        assert new.execute("SELECT sum(acquired) FROM octo_stats_minute") == [(2,)]
        assert manage(new.url, "manage.py", "verify_audit")


def roll_up(node: Node) -> None:
    manage(node.url, "-c", "import django; django.setup(); from locks.tasks import rollup; rollup()")
