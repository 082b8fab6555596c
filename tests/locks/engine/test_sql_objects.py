"""The shared SQL functions and views follow their files without a migration."""

from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from locks.engine import sql_objects

pytestmark = pytest.mark.django_db

RELEASED = Path(__file__).with_name("released_functions.txt").read_text().splitlines()[1:]
SIGNATURES = """
SELECT format('%s function: %s -> %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid))
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL
SELECT format('%s view: %s', relname,
              string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum))
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace AND attnum > 0
GROUP BY relname
"""


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
        cursor.execute("COMMENT ON VIEW octo_live_token_v2 IS 'another version'")
    assert not sql_objects.are_current(connection)

    call_command("migrate", interactive=False, verbosity=0)

    assert sql_objects.are_current(connection)
    assert _definition("octo_interval_ms") == current


def test_migrate_leaves_current_functions_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'octo_live_token_v2'::regclass::oid")
        (before,) = cursor.fetchone()
        call_command("migrate", interactive=False, verbosity=0)
        cursor.execute("SELECT 'octo_live_token_v2'::regclass::oid")
        assert cursor.fetchone() == (before,)


def test_functions_and_views_of_the_last_release_have_the_parameters_and_columns_that_they_had() -> None:
    """Servers of that release go on with their statements after `migrate`."""
    with connection.cursor() as cursor:
        cursor.execute(SIGNATURES)
        present = {signature for (signature,) in cursor.fetchall()}
    names = {signature.partition(" ")[0] for signature in present}
    kept = {signature for signature in RELEASED if signature.partition(" ")[0] in names}
    assert kept
    assert kept <= present


def test_migrate_keeps_what_only_servers_of_the_last_release_use() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE VIEW octo_live_token AS SELECT 1 AS token_id")
        cursor.execute("COMMENT ON VIEW octo_live_token_v2 IS 'another version'")
        call_command("migrate", interactive=False, verbosity=0)
        assert sql_objects.are_current(connection)
        cursor.execute("SELECT FROM octo_live_token")
