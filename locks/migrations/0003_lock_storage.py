"""Room on the lock table's pages for heap-only updates, and a vacuum that keeps up with heartbeats."""

from django.db import migrations

SQL = """
ALTER TABLE octo_lock SET (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE octo_space_usage SET (fillfactor = 50);
ALTER TABLE octo_token SET (fillfactor = 70);
"""


class Migration(migrations.Migration):
    dependencies = [("locks", "0002_event_history")]
    operations = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]
