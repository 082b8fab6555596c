"""The shared SQL functions and views follow their files without a migration."""

import pytest
from django.core.management import call_command
from django.db import connection

from locks.engine import sql_objects

pytestmark = pytest.mark.django_db


def _definition(function: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef(to_regproc(%s))", [function])
        return cursor.fetchone()[0]


def test_a_new_database_has_the_functions_of_this_version() -> None:
    assert sql_objects.are_current(connection)


def test_migrate_replaces_the_functions_of_another_version() -> None:
    current = _definition("octo_interval_ms")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION octo_interval_ms(duration interval) RETURNS bigint "
            "LANGUAGE sql AS 'SELECT 0::bigint'"
        )
        cursor.execute("COMMENT ON VIEW octo_live_token IS 'another version'")
    assert not sql_objects.are_current(connection)

    call_command("migrate", interactive=False, verbosity=0)

    assert sql_objects.are_current(connection)
    assert _definition("octo_interval_ms") == current


def test_migrate_leaves_current_functions_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'octo_live_token'::regclass::oid")
        (before,) = cursor.fetchone()
        call_command("migrate", interactive=False, verbosity=0)
        cursor.execute("SELECT 'octo_live_token'::regclass::oid")
        assert cursor.fetchone() == (before,)
