"""Django's PostgreSQL backend, on connections with a deadline that only a primary answers."""

from django.db.backends.postgresql import base

from locks.postgresql import dbapi


class DatabaseWrapper(base.DatabaseWrapper):
    Database = dbapi

    def connect(self) -> None:
        super().connect()
        try:
            with self.wrap_database_errors:
                self.connection.confirm_primary()
        except Exception:
            self.close()
            raise
