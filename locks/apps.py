from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class LocksConfig(AppConfig):
    name = "locks"
    verbose_name = "Octoadmin"

    def ready(self) -> None:
        from locks.engine.sql_objects import create_after_migration
        from locks.services import reauthentication  # noqa: F401 -- connects a receiver to sign-ins
        from locks.system_state import statement_timeout

        pre_migrate.connect(statement_timeout.remove_for_migrations, sender=self)
        post_migrate.connect(create_after_migration, sender=self)
        post_migrate.connect(statement_timeout.restore_after_migrations, sender=self)
