"""The checks of the database before `up` migrates it."""

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from octoadmin.run.database import check_database, check_migration_history
from octoadmin.run.preflight import CannotStart
from tests import database

pytestmark = pytest.mark.django_db


def test_a_database_of_this_version_is_accepted() -> None:
    check_migration_history()


def test_a_database_of_another_version_is_rejected_in_one_sentence() -> None:
    MigrationRecorder(connection).record_applied("locks", "0099_from_another_version")
    with pytest.raises(CannotStart) as rejected:
        check_migration_history()
    assert "0099_from_another_version" in str(rejected.value)
    assert "OCTO_DATA_DIR" in str(rejected.value)
    assert "\n" not in str(rejected.value)


def test_migrations_of_other_apps_do_not_matter() -> None:
    MigrationRecorder(connection).record_applied("another_app", "0001_initial")
    check_migration_history()


def test_a_database_without_an_encoding_is_rejected_in_one_sentence() -> None:
    check_database(database.conninfo(connection.settings_dict["NAME"]))
    name = f"{connection.settings_dict['NAME']}_ascii"
    with database.maintenance() as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'".encode())
        try:
            with pytest.raises(CannotStart, match="SQL_ASCII; Octoadmin needs UTF8") as rejected:
                check_database(database.conninfo(name))
        finally:
            database.drop(server, name)
    assert "\n" not in str(rejected.value)
