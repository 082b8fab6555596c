"""The audit history as a partitioned, append-only table, which Django cannot declare."""

from pathlib import Path

import django.db.models.functions.datetime
from django.db import migrations, models

SQL = (Path(__file__).parent / "0002_event_history.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("locks", "0001_models")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(SQL, migrations.RunSQL.noop)],
            state_operations=[
                migrations.CreateModel(
                    name='Event',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('kind', models.TextField()),
                        ('team_id', models.BigIntegerField(null=True)),
                        ('space_id', models.BigIntegerField(null=True)),
                        ('lock_name', models.TextField(db_collation='C', null=True)),
                        ('fencing_token', models.BigIntegerField(null=True)),
                        ('owner', models.TextField(null=True)),
                        ('holder_id', models.TextField(null=True)),
                        ('metadata', models.TextField(null=True)),
                        ('token_id', models.BigIntegerField(null=True)),
                        ('actor_kind', models.TextField(choices=[('token', 'Token'), ('user', 'User'), ('system', 'System')])),
                        ('actor_id', models.BigIntegerField(null=True)),
                        ('actor_name', models.TextField()),
                        ('channel', models.TextField(choices=[('api', 'Api'), ('web', 'Web'), ('cli', 'Cli'), ('task', 'Task')])),
                        ('address', models.GenericIPAddressField(null=True)),
                        ('request_id', models.TextField(null=True)),
                        ('reason', models.TextField(null=True)),
                        ('held_ms', models.BigIntegerField(null=True)),
                        ('recorded_late_ms', models.BigIntegerField(null=True)),
                        ('detail', models.JSONField(null=True)),
                    ],
                    options={
                        'db_table': 'octo_event',
                        'ordering': ('-at', '-id'),
                    },
                ),
            ],
        ),
    ]
