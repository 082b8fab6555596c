"""Statistics by space and minute, for charts: counts, distributions that can be added up, and contended names."""

from django.db import models


class Measure(models.TextChoices):
    HOLD = "hold"
    WAIT = "wait"


class StatsMinute(models.Model):
    """What happened in a space in a minute. Ends and beginnings of leases are counted from the history, each event
    once; what leaves no event (renewals, refusals, waits) is counted by the servers."""

    pk = models.CompositePrimaryKey("space_id", "minute")
    space_id = models.BigIntegerField()
    minute = models.DateTimeField()
    acquired = models.BigIntegerField(db_default=0)
    released = models.BigIntegerField(db_default=0)
    expired = models.BigIntegerField(db_default=0)
    forced = models.BigIntegerField(db_default=0)
    renewed = models.BigIntegerField(db_default=0)
    refused = models.BigIntegerField(db_default=0)
    waited = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "octo_stats_minute"

    def __str__(self) -> str:
        return f"{self.space_id} at {self.minute}"


class StatsHistogram(models.Model):
    """One bar of a distribution of durations: see locks.events.history.histogram for what a bucket spans."""

    pk = models.CompositePrimaryKey("space_id", "minute", "measure", "bucket")
    space_id = models.BigIntegerField()
    minute = models.DateTimeField()
    measure = models.TextField(choices=Measure)
    bucket = models.SmallIntegerField()
    count = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "octo_stats_histogram"

    def __str__(self) -> str:
        return f"{self.measure} {self.bucket}: {self.count}"


class StatsContention(models.Model):
    """How often a name was asked for while somebody else had it, and how often and how long claims stood in line for
    it; only the most contended names of a minute."""

    pk = models.CompositePrimaryKey("space_id", "minute", "name")
    space_id = models.BigIntegerField()
    minute = models.DateTimeField()
    name = models.TextField(db_collation="C")
    refused = models.BigIntegerField(db_default=0)
    waited = models.BigIntegerField(db_default=0)
    waited_ms = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "octo_stats_contention"

    def __str__(self) -> str:
        return f"{self.name}: {self.refused}"


class EventCursor(models.Model):
    """How far a reader of the history has got in commit order: it has seen every transaction before this one."""

    reader = models.TextField(primary_key=True)
    commit_position = models.BigIntegerField()

    class Meta:
        db_table = "octo_event_cursor"

    def __str__(self) -> str:
        return f"{self.reader} at {self.commit_position}"
