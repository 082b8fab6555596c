"""Indexes for the filters of the history, partitions that take over from the default one, and their end."""

from pathlib import Path

from django.db import migrations

SQL = (Path(__file__).parent / "0006_history_upkeep.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("locks", "0005_statistics")]
    operations = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]
