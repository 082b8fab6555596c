"""A pytest plugin: one PostgreSQL for the run, one migrated template database, a copy for each worker.

Loaded with `-p`, so that it comes before pytest-django reads the settings. The server is an embedded one in a
temporary directory, or the one that TEST_DATABASE_URL names; the user's data is never touched.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

SERVER = "OCTO_TEST_SERVER"
TEMPLATE = "OCTO_TEST_TEMPLATE"
# The superuser of the embedded server; not set if TEST_DATABASE_URL names another.
SUPERUSER = "OCTO_TEST_SUPERUSER"

# What migrations fill, and no test changes.
FILLED_BY_MIGRATIONS = {"django_migrations", "django_content_type", "auth_permission"}
# A larger table is not emptied by DELETE: the rows would stay on its pages.
MAX_TABLE_SIZE = 1_000_000
# Differs from the template's if a test changed more than rows.
SCHEMA = """
    SELECT (SELECT md5(string_agg(oid::text, ' ' ORDER BY oid)) FROM pg_class
            WHERE relnamespace = 'public'::regnamespace),
           (SELECT md5(string_agg(prosrc, ' ' ORDER BY oid)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
           (SELECT count(*) FROM pg_trigger WHERE tgenabled <> 'O'),
           (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
            WHERE datname = current_database())
"""


def _set_up_environment(data_dir: Path) -> None:
    for name in ("HOST", "PORT", "ALLOWED_HOSTS", "TRUSTED_PROXIES", "CELERY_BROKER_URL", "DEBUG"):
        os.environ.pop(name, None)
    os.environ["OCTO_DATA_DIR"] = str(data_dir)
    os.environ["SECRET_KEY"] = "a secret for tests, and for nothing else"
    os.environ["LOG_FORMAT"] = "json"
    # Playwright's sync API keeps an event loop on the test's thread; Django would refuse to work beside it.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def conninfo(database: str) -> str:
    """With a longer timeout than a server has, for machines under load."""
    return make_conninfo(os.environ[SERVER], dbname=database, connect_timeout=30)


@contextmanager
def maintenance() -> Iterator[psycopg.Connection]:
    with psycopg.connect(os.environ[SERVER], autocommit=True) as connection:
        yield connection


def create_copy(database: str) -> None:
    """A new copy of the template; drops an existing database of that name."""
    copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(database), sql.Identifier(os.environ[TEMPLATE])
    )
    with maintenance() as connection:
        drop(connection, database)
        _retry_ddl(connection, copy)


@contextmanager
def used_by_django(database: str) -> Iterator[None]:
    """Instead of the one of this worker."""
    from django.db import connection

    own = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = database
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = own


def clean(database: str, *, kept: int = 0) -> bool:
    """As the template again, with no connection but that of the backend `kept`. Deleting the rows of a test takes a
    twentieth of the time that a new copy takes; false if that was not enough, and no connection is left."""
    is_enough = SUPERUSER in os.environ and _delete_rows(database, kept)
    if not is_enough:
        # The account that drops the database cannot end a superuser's session.
        close_cleaning_connection(database)
        create_copy(database)
    return is_enough


def _delete_rows(database: str, kept: int) -> bool:
    """False if that is not enough. Without triggers: the history refuses to be deleted, and the order would matter."""
    others = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = %s AND pid NOT IN (pg_backend_pid(), %s)"
    )
    connection = _cleaning_connection(database)
    with connection.transaction():
        connection.execute(others, [database, kept])
        tables = _tables(connection)
        if _schema(connection) != _template_schema() or any(size > MAX_TABLE_SIZE for size in tables.values()):
            return False
        connection.execute("SET LOCAL session_replication_role = replica")
        used = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(sql.Literal(table), sql.Identifier(table))
            for table in tables
        )
        for (table,) in connection.execute(used).fetchall():
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    return True


_cleaning: dict[str, psycopg.Connection] = {}


def _cleaning_connection(database: str) -> psycopg.Connection:
    """One for all tests of the worker: it has planned its statements."""
    if database not in _cleaning:
        _cleaning[database] = psycopg.connect(
            make_conninfo(conninfo(database), user=os.environ[SUPERUSER]), autocommit=True, prepare_threshold=0
        )
    return _cleaning[database]


def close_cleaning_connection(database: str) -> None:
    if database in _cleaning:
        _cleaning.pop(database).close()


def _tables(connection: psycopg.Connection) -> dict[str, int]:
    query = (
        "SELECT relname, pg_relation_size(oid) FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    return {name: size for name, size in connection.execute(query) if name not in FILLED_BY_MIGRATIONS}


def _schema(connection: psycopg.Connection) -> tuple[object, ...] | None:
    return connection.execute(SCHEMA).fetchone()


@cache
def _template_schema() -> tuple[object, ...] | None:
    with psycopg.connect(conninfo(os.environ[TEMPLATE])) as connection:
        return _schema(connection)


def drop(connection: psycopg.Connection, database: str) -> None:
    _retry_ddl(connection, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))


def _retry_ddl(connection: psycopg.Connection, statement: sql.Composed) -> None:
    """On an external server autovacuum may use the database for a moment, and only a superuser can terminate it."""
    for _attempt in range(20):
        try:
            connection.execute(statement)
            return
        except (psycopg.errors.ObjectInUse, psycopg.errors.InsufficientPrivilege):
            time.sleep(0.5)
    connection.execute(statement)


class Server:
    """The PostgreSQL server of the test run, owned by the main process, not by xdist's workers."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="octo-test-"))
        self.process: subprocess.Popen[bytes] | None = None
        self.template = f"octo_test_{secrets.token_hex(4)}"

    def start(self) -> None:
        _set_up_environment(self.directory / "data")
        if url := os.environ.get("TEST_DATABASE_URL"):
            os.environ[SERVER] = url
        else:
            os.environ[SERVER] = self._start_embedded()
        os.environ[TEMPLATE] = self.template
        with maintenance() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.template)))
        os.environ["DATABASE_URL"] = conninfo(self.template)
        commands = (["migrate"], ["collectstatic", "--no-input"])
        processes = [
            subprocess.Popen([sys.executable, "manage.py", *command, "--verbosity", "0"]) for command in commands
        ]
        assert [command.wait() for command in processes] == [0, 0]

    def _start_embedded(self) -> str:
        from octoadmin.run.postgres import DATABASE, Cluster
        from octoadmin.run.postgres import SUPERUSER as POSTGRES

        # The data is temporary, and no database lives long enough to be vacuumed. Crash tests start their own servers,
        # with fsync on.
        settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
        cluster = Cluster(directory=self.directory / "postgres", settings=settings)
        cluster.initialise()
        with (self.directory / "postgres.log").open("wb") as log:
            self.process = cluster.start(log=log)
        cluster.wait_ready(self.process)
        cluster.create_database()
        os.environ[SUPERUSER] = POSTGRES
        return cluster.conninfo(dbname=DATABASE)

    def stop(self) -> None:
        from octoadmin.run.postgres import stop

        if self.process is None:
            with maintenance() as connection:
                query = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
                for (database,) in connection.execute(query, [self.template]).fetchall():
                    drop(connection, database)
        else:
            stop(self.process)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        server = Server()
        early_config.add_cleanup(server.stop)
        server.start()
    database = f"{os.environ[TEMPLATE]}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    create_copy(database)
    early_config.add_cleanup(lambda: close_cleaning_connection(database))
    os.environ["DATABASE_URL"] = conninfo(database)
