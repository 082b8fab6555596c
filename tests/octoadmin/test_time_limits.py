"""A transaction that holds a row and hangs, or a statement that takes too long, delays requests for seconds only."""

import asyncio

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import pre_migrate

from locks import tasks
from locks.engine.async_connection import connect
from tests import database
from tests.conftest import issue

LIMITS = ("lock_timeout", "statement_timeout")


@pytest.mark.usefixtures("committed")
def test_a_hanging_transaction_makes_a_lock_unavailable(client, space):
    token = {"Authorization": f"Bearer {issue(space, 'worker', 'locks:read', 'locks:write')}"}
    client.raise_request_exception = False
    plain = {"content_type": "application/json", "headers": token}
    lease = client.post("/locks/deploy/acquire", **plain).json()
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("5s",)
        cursor.execute("SET lock_timeout = '50ms'")
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as forgetful:
        forgetful.execute("SELECT FROM octo_lock WHERE name = 'deploy' FOR UPDATE")
        renew = {"data": {"lease_id": lease["lease_id"]}, **plain}
        refused = client.post("/locks/deploy/renew", **renew)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert refused["Retry-After"]
        # Other names are not affected.
        assert client.post("/locks/other/acquire", **plain).json()["status"] == "acquired"
    assert client.post("/locks/deploy/renew", **renew).status_code == 200


def shown(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return str(cursor.fetchone()[0])


@pytest.mark.usefixtures("committed")
def test_a_statement_that_takes_too_long_is_ended(client, space, worker_token):
    connection.close()
    assert shown("statement_timeout") == "30s"
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '50ms'")
    client.raise_request_exception = False
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other:
        other.execute("LOCK TABLE octo_token IN ACCESS EXCLUSIVE MODE")
        refused = client.get("/whoami", headers={"Authorization": f"Bearer {worker_token}"})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


def test_asynchronous_connections_have_the_same_limits(django_db_setup):
    async def limits() -> list[str]:
        async with await connect(purpose="test") as opened:
            return [(await (await opened.execute(f"SHOW {name}")).fetchone())[0] for name in LIMITS]

    assert asyncio.run(limits()) == ["5s", "30s"]


@pytest.mark.usefixtures("committed")
def test_migrations_and_maintenance_may_take_longer(monkeypatch):
    connection.close()
    seen: list[str] = []

    def look(**_signal: object) -> None:
        seen.append(shown("statement_timeout"))

    monkeypatch.setattr(tasks, "count_stuck", look)
    app = apps.get_app_config("locks")
    pre_migrate.connect(look, sender=app)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look, sender=app)
    look()
    tasks.detect_stuck()
    look()
    assert seen == ["0", "30s", "15min", "30s"]
