"""The admin console at /admin/."""

from locks.admin import site  # noqa: F401  -- registers the models
