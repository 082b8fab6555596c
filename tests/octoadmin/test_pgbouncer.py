"""PgBouncer in front of the database: refused in transaction mode, unless prepared statements are off."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from octoadmin.run.pooler import MESSAGE, is_transaction_pooler
from octoadmin.run.postgres import _account_for, _identity
from tests.clusters import has
from tests.conftest import issue
from tests.locks.events.event_stream import EventStream
from tests.locks.events.webhooks.receiver import receiving
from tests.locks.runs.conftest import RunClient, orchestrator_token
from tests.octoadmin.run.test_worker import running_worker
from tests.polling import until
from tests.servers import Api, RunningServer, free_port, running_server

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has("pgbouncer"), reason="PgBouncer is not installed: apt-get install pgbouncer"),
]

SCOPES = ("locks:read", "locks:write", "audit:read")


@contextmanager
def pgbouncer(directory: Path, *, mode: str, database_url: str) -> Iterator[str]:
    """Returns the URL of the same database through it."""
    parameters = conninfo_to_dict(database_url)
    port = free_port()
    account = _account_for(directory)
    config = directory / f"{mode}.ini"
    config.write_text(
        f"""
        [databases]
        {parameters["dbname"]} = host={parameters["host"]} port={parameters.get("port") or 5432}
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = {port}
        unix_socket_dir =
        auth_type = any
        auth_file = {directory / "users"}
        pool_mode = {mode}
        default_pool_size = 20
        max_client_conn = 500
        ignore_startup_parameters = options,extra_float_digits
        logfile = {directory / "log"}
        """.replace("\n        ", "\n")
    )
    user = parameters.get("user") or os.environ.get("PGUSER", "postgres")
    config.write_text(config.read_text().replace("port=", f"user={user} port=", 1))
    (directory / "users").write_text(f'"{user}" ""\n')
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    if account is not None:
        for path in (directory, *directory.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    process = subprocess.Popen([program, "--quiet", config], **_identity(account))
    url = f"host=127.0.0.1 port={port} user={user} dbname={parameters['dbname']}"
    try:
        until(lambda: process.poll() is None and _answers(url), "PgBouncer answers")
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def transaction_mode(committed: None, tmp_path: Path) -> Iterator[str]:
    with pgbouncer(tmp_path, mode="transaction", database_url=os.environ["DATABASE_URL"]) as url:
        yield url


def test_a_pooler_in_transaction_mode_is_recognised(transaction_mode: str, tmp_path_factory) -> None:
    assert is_transaction_pooler(transaction_mode)
    with pgbouncer(
        tmp_path_factory.mktemp("session"), mode="session", database_url=os.environ["DATABASE_URL"]
    ) as session_mode:
        assert not is_transaction_pooler(session_mode)
    assert not is_transaction_pooler(os.environ["DATABASE_URL"])


@pytest.mark.parametrize("module", ["octoadmin.run.server", "octoadmin.run.worker"])
def test_a_server_refuses_to_start_behind_it(transaction_mode: str, module: str) -> None:
    environment = os.environ | {"DATABASE_URL": transaction_mode, "PORT": str(free_port())}
    done = subprocess.run(
        [sys.executable, "-m", module], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert MESSAGE in done.stderr


def use_locks(api: Api, number: int, *, turns: int) -> None:
    """Each turn leaves two locks held, and each second one a third."""
    session = api.call("POST", "/sessions", {}).json()["session_id"]
    for turn in range(turns):
        name = f"job-{number}-{turn}"
        lease = api.call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 600}).json()
        assert lease["status"] == "acquired"
        body = {"lease_id": lease["lease_id"]}
        assert api.call("POST", f"/locks/{name}/renew", body).status == 200
        assert api.call("GET", f"/locks/{name}").json()["fencing_token"] == lease["fencing_token"]
        assert api.call("POST", f"/sessions/{session}/keepalive").status == 200
        many = api.call("POST", "/locks/acquire-all", {"names": [f"{name}-a", f"{name}-b"]}).json()
        leases = [{"name": each["name"], "lease_id": each["lease_id"]} for each in many["leases"]]
        renewed = api.call("POST", "/locks/renew-all", {"leases": leases}).json()
        assert all(each["ok"] for each in renewed["results"])
        if turn % 2:
            assert api.call("POST", f"/locks/{name}/release", body).status == 200
    api.close()


def use_locks_of_all(servers: Sequence[RunningServer], token: str, *, clients: int, turns: int) -> None:
    """Statements of many clients share a few connections of the database in any order. No lease is lost, a waiting
    request gets the lock when another server's client releases it, and a watch misses nothing."""
    first, last = servers[0], servers[-1]
    watch = EventStream(first.port, "/watch?prefix=job-", token).connect()
    events = watch.events()
    assert next(events).event == "snapshot"
    apis = [Api(servers[number % len(servers)].port, token) for number in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(partial(use_locks, turns=turns), apis, range(clients)))
    api = first.api(token)
    released = turns // 2
    held = api.call("GET", "/locks?prefix=job-&limit=1000").json()["locks"]
    assert len(held) == clients * (3 * turns - released)
    lease = api.call("POST", "/locks/turn/acquire", {"ttl_seconds": 600}).json()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            last.api(token).call, "POST", "/locks/turn/acquire", {"ttl_seconds": 600, "wait_seconds": 30}
        )
        until(lambda: api.call("GET", "/locks/turn").json()["waiters"] == 1)
        assert api.call("POST", "/locks/turn/release", {"lease_id": lease["lease_id"]}).status == 200
        assert waiting.result().json()["status"] == "acquired"
    transitions = islice(
        (event.event for event in events if event.event != "renewed"), clients * (3 * turns + released)
    )
    assert Counter(transitions) == {"acquired": clients * 3 * turns, "released": clients * released}
    watch.close()
    assert api.call("GET", "/health").status == 200


@pytest.mark.long
def test_without_prepared_statements_many_clients_of_two_servers_work_behind_it(transaction_mode: str, space) -> None:
    token = issue(space, "worker", *SCOPES)
    off = {"OCTO_PREPARED_STATEMENTS": "off", "OCTO_REQUESTS_PER_SECOND": "100000"}
    with running_server(transaction_mode, **off) as first, running_server(transaction_mode, **off) as second:
        use_locks_of_all([first, second], token, clients=8, turns=12)


def test_without_prepared_statements_everything_works_behind_it(
    transaction_mode: str, space, alice, client, tmp_path_factory, monkeypatch
) -> None:
    """Each kind of statement: of the engine, of a run's store, of the pages, and of the worker that delivers."""
    token = issue(space, "worker", *SCOPES, "locks:force", "webhooks:manage")
    off = {"OCTO_PREPARED_STATEMENTS": "off", "OCTO_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    for name, value in {"DATABASE_URL": transaction_mode, **off}.items():
        monkeypatch.setenv(name, value)
    with (
        receiving() as receiver,
        running_server(transaction_mode) as server,
        running_worker(tmp_path_factory.mktemp("worker")),
    ):
        api = server.api(token)
        assert api.call("POST", "/webhooks", {"url": f"{receiver.url}/hook"}).status == 201
        use_locks_of_all([server], token, clients=3, turns=2)
        for name in ("next-1", "next-2"):
            assert api.call("POST", "/locks/claim-next", {"names": ["next-1", "next-2"]}).json()["name"] == name
        lease = api.call("POST", "/locks/stuck/acquire", {"ttl_seconds": 600}).json()
        assert api.call("POST", "/locks/stuck/force-release", {"reason": "its host is gone"}).status == 200
        refused = api.call("POST", "/locks/stuck/renew", {"lease_id": lease["lease_id"]})
        assert refused.json()["code"] == "lease_not_current"

        actor = RunClient(server, orchestrator_token(space)).start()
        written = actor.put("/shared/plan", "first").json()
        assert actor.put("/shared/plan", "second", expected_version=written["version"]).status == 200
        assert actor.put("/shared/plan", "third", expected_version=written["version"]).status == 412
        assert actor.get("/shared/plan").json()["value"] == "second"

        client.force_login(alice)
        session = client.cookies[settings.SESSION_COOKIE_NAME]
        page = server.api().call("GET", f"/ui/{space.team.slug}/{space.slug}/", Cookie=session.OutputString())
        assert page.status == 200
        assert b"job-0-0" in page.content

        events = [("acquired", "stuck"), ("force_released", "stuck")]
        until(lambda: {(each.json["event"], each.json["lock"]) for each in receiver.at("/hook")}.issuperset(events))


def test_a_server_works_behind_a_pooler_in_session_mode(committed: None, space, tmp_path: Path) -> None:
    token = issue(space, "worker", *SCOPES)
    with (
        pgbouncer(tmp_path, mode="session", database_url=os.environ["DATABASE_URL"]) as url,
        running_server(url) as server,
    ):
        use_locks_of_all([server], token, clients=2, turns=2)
