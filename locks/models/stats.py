"""Statistics by space and minute: counts, histograms of durations, and contended names."""

from django.db import models


class Measure(models.TextChoices):
    HOLD = "hold"
    WAIT = "wait"


class StatsMinute(models.Model):
    """Counts of a space in a minute. Acquisitions and ends of leases are counted from the history, each event once;
    renewals, refusals and waits leave no event and are counted by the servers."""

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
    """One bucket of a histogram of durations; locks.events.history.histogram defines the buckets."""

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
    """How often a name was refused, and how often and how long requests were queued for it; only the most contended
    names of a minute."""

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


class StatsMonth(models.Model):
    """How many events of a space were recorded in a month: the history is kept in partitions by month."""

    pk = models.CompositePrimaryKey("space_id", "month")
    space_id = models.BigIntegerField()
    month = models.DateField()
    events = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "octo_stats_month"

    def __str__(self) -> str:
        return f"{self.space_id} in {self.month}: {self.events}"


class EventCursor(models.Model):
    """How far a reader of the history in commit order has read: every transaction before this one."""

    reader = models.TextField(primary_key=True)
    commit_position = models.BigIntegerField()
    # See octo_timeline; null until it has read for the first time.
    timeline = models.BigIntegerField(null=True)

    class Meta:
        db_table = "octo_event_cursor"

    def __str__(self) -> str:
        return f"{self.reader} at {self.commit_position}"
