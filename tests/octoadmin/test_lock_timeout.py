"""A transaction that holds a row and hangs delays requests for seconds only."""

import psycopg
import pytest
from django.db import connection

from tests import database
from tests.conftest import issue


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
