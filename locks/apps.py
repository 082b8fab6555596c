from django.apps import AppConfig


class LocksConfig(AppConfig):
    name = "locks"
    verbose_name = "Octoadmin"

    def ready(self) -> None:
        from locks.services import reauthentication  # noqa: F401 -- connects a receiver to sign-ins
