"""Statistics by minute, the position of readers in the history, the latest run of each task."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("locks", "0004_live_token"),
    ]

    operations = [
        migrations.CreateModel(
            name="MinuteBucket",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "space_id",
                        "minute",
                        "measure",
                        "bucket",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("space_id", models.BigIntegerField()),
                ("minute", models.DateTimeField()),
                ("measure", models.TextField(choices=[("hold", "Hold"), ("wait", "Wait")])),
                ("bucket", models.SmallIntegerField()),
                ("count", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "octo_minute_bucket",
            },
        ),
        migrations.CreateModel(
            name="MinuteContention",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "space_id", "minute", "name", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("space_id", models.BigIntegerField()),
                ("minute", models.DateTimeField()),
                ("name", models.TextField(db_collation="C")),
                ("refused", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "octo_minute_contention",
            },
        ),
        migrations.CreateModel(
            name="MinuteCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "space_id", "minute", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("space_id", models.BigIntegerField()),
                ("minute", models.DateTimeField()),
                ("acquired", models.BigIntegerField(db_default=0)),
                ("released", models.BigIntegerField(db_default=0)),
                ("expired", models.BigIntegerField(db_default=0)),
                ("forced", models.BigIntegerField(db_default=0)),
                ("renewed", models.BigIntegerField(db_default=0)),
                ("refused", models.BigIntegerField(db_default=0)),
                ("waited", models.BigIntegerField(db_default=0)),
            ],
            options={
                "db_table": "octo_minute",
            },
        ),
        migrations.CreateModel(
            name="ReaderPosition",
            fields=[
                ("reader", models.TextField(primary_key=True, serialize=False)),
                ("txid", models.BigIntegerField()),
            ],
            options={
                "db_table": "octo_reader_position",
            },
        ),
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("finished_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("took_ms", models.BigIntegerField()),
                ("queued_ms", models.BigIntegerField(null=True)),
                ("outcome", models.TextField()),
                ("failed", models.BooleanField()),
            ],
            options={
                "db_table": "octo_task_run",
            },
        ),
        migrations.AlterField(
            model_name="event",
            name="kind",
            field=models.TextField(
                choices=[
                    ("acquired", "Acquired"),
                    ("released", "Released"),
                    ("expired", "Expired"),
                    ("force_released", "Force Released"),
                    ("token_issued", "Token Issued"),
                    ("token_rotated", "Token Rotated"),
                    ("token_revoked", "Token Revoked"),
                    ("history_exported", "History Exported"),
                ]
            ),
        ),
    ]
