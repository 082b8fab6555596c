"""The SQL functions and views that the engine's statements and the pages share, one file each in sql/functions/.

They are not part of a migration: `migrate` creates them anew after the tables whenever a file has changed. So a file is
the one definition of its function, a change to it needs no migration, and it may use every column of the models.

Servers of the release before go on with their statements after `migrate`. So a function or view of a release keeps its
parameters and columns; one that needs others gets another name, as in `_v2`, and the former stays in databases that are
upgraded.
"""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from django.db import ProgrammingError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

_DIRECTORY = Path(__file__).parent / "sql" / "functions"

# In the order in which they build on each other.
_FILES = (
    "timeline",
    "interval_ms",
    "arrival",
    "next_fencing_token",
    "holder_id",
    "name_matches_prefixes",
    "name_node",
    "token_is_valid",
    "freeze",
    "live_token",
    "same_holder",
    "expired_session",
    "space_lacks_room",
    "auth",
    "idempotency_key_in_use",
    "effective_expiry",
    "kv_auth",
    "lease_times",
    "acl",
    "namespaces",
    "lock_snapshot",
    "event_entry",
    "lock_state",
    "queued_waiter",
    "hand_to_first_waiter",
    "lock_row",
    "contains_pattern",
    "glob_pattern",
    "find_locks",
    "current_token",
    "invalid_token",
    "known_stuck_lock",
)

# Cascades to views and functions that use it, which are created again.
_DROP = """
SELECT format('DROP FUNCTION IF EXISTS %%s CASCADE', oid::regprocedure) FROM pg_proc
WHERE proname = ANY (%(names)s) AND pronamespace = current_schema()::regnamespace
UNION ALL
SELECT format('DROP VIEW IF EXISTS %%I CASCADE', relname) FROM pg_class
WHERE relname = ANY (%(names)s) AND relkind = 'v' AND relnamespace = current_schema()::regnamespace
"""

# Replacing a function by one with other parameters leaves both.
_OVERLOADED = """
SELECT FROM pg_proc
WHERE proname = ANY (%(names)s) AND pronamespace = current_schema()::regnamespace
GROUP BY proname HAVING count(*) > 1
"""


@cache
def _definitions() -> str:
    return "\n".join((_DIRECTORY / f"{name}.sql").read_text() for name in _FILES)


def _names() -> list[str]:
    return re.findall(r"^CREATE (?:FUNCTION|VIEW) (\w+)", _definitions(), re.MULTILINE)


def _version() -> str:
    return hashlib.sha256(_definitions().encode()).hexdigest()


def are_current(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database has the functions of this version. The comment on one of them says which version it has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT obj_description(to_regclass('octo_live_token_v2'), 'pg_class')")
        (comment,) = cursor.fetchone()
    return bool(comment == _version())


def create(connection: BaseDatabaseWrapper) -> None:
    """In place if their parameters and columns are the same: statements of running servers fail at the moment when a
    function that they use is dropped."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        try:
            with transaction.atomic(using=connection.alias):
                cursor.execute(
                    re.sub(r"^CREATE (?=FUNCTION|VIEW)", "CREATE OR REPLACE ", _definitions(), flags=re.MULTILINE)
                )
                cursor.execute(_OVERLOADED, {"names": _names()})
                if cursor.fetchone() is not None:
                    raise ProgrammingError("a function with other parameters was left")
        except ProgrammingError:
            cursor.execute(_DROP, {"names": _names()})
            for (drop,) in cursor.fetchall():
                cursor.execute(drop)
            cursor.execute(_definitions())
        cursor.execute(f"COMMENT ON VIEW octo_live_token_v2 IS '{_version()}'")


def create_after_migration(*, using: str, **_signal: Any) -> None:
    """Receives post_migrate. After a migration to an earlier state there may be no tables to create functions for."""
    connection = connections[using]
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes("locks")) and not are_current(connection):
        create(connection)
