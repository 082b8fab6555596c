"""The database's clock, for actions that decide by it."""

from datetime import datetime

from django.db import connection
from django.db.models import DateTimeField, Func


class ClockTimestamp(Func):
    """At this moment, not at the beginning of the statement or transaction."""

    function = "clock_timestamp"
    template = "%(function)s()"
    output_field = DateTimeField()


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    return moment  # type: ignore[no-any-return]
