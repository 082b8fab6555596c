"""The SQL functions are no longer created here: see locks/engine/sql_objects.py."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("locks", "0002_event_history")]
    operations = []
