"""Whether the database can write. With a full disk, or as a standby, it answers queries while every change fails."""

from django.db import OperationalError, connection, transaction
from psycopg.errors import ConfigurationLimitExceeded

from locks.system_state.counters import ANSWER_TIMEOUT
from locks.system_state.ttl_cache import TTLCache

# Each check writes to the disk.
FRESH_SECONDS = 5.0

# The commit writes to the log, whose files are created in advance. The rows exceed the working memory, so they need
# room for a new file, as new pages of a table do.
_QUERY = """
    WITH block AS MATERIALIZED (SELECT repeat('0', 8192) AS content FROM generate_series(1, 32))
    SELECT current_setting('transaction_read_only'), count(content), pg_logical_emit_message(true, 'octoadmin', '')
    FROM block
"""


def _write() -> str:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL work_mem = '64kB'; SET LOCAL statement_timeout = '{ANSWER_TIMEOUT:g}s'")
            cursor.execute(_QUERY)
            read_only: str = cursor.fetchone()[0]
    except OperationalError as error:
        # The operator allows no temporary files: that says nothing about the disk.
        if not isinstance(error.__cause__, ConfigurationLimitExceeded):
            raise
        return "off"
    if read_only == "on":
        raise OperationalError("the database is read-only")
    return read_only


latest = TTLCache(_write, seconds=FRESH_SECONDS)


def check_writes() -> None:
    """Raises OperationalError if the database cannot write."""
    latest()
