"""Alert rules, alerts and notices; deliveries of messages; reasons of stuck locks; an index for tokens that expire soon."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('locks', '0009_runs'),
    ]

    operations = [
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField()),
                ('subject', models.TextField(db_collation='C')),
                ('fencing_token', models.BigIntegerField(null=True)),
                ('owner', models.TextField(null=True)),
                ('reasons', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), db_default=[], size=None)),
                ('due_at', models.DateTimeField(null=True)),
                ('opened_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('absent_since', models.DateTimeField(null=True)),
                ('closed_at', models.DateTimeField(null=True)),
                ('space', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='locks.space')),
            ],
            options={
                'db_table': 'octo_alert',
            },
        ),
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('webhook', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='alert_rule', serialize=False, to='locks.webhook')),
                ('name', models.CharField(max_length=80)),
                ('transport', models.TextField(choices=[('webhook', 'Webhook'), ('slack', 'Slack'), ('teams', 'Teams'), ('email', 'Email')])),
                ('min_minutes', models.PositiveSmallIntegerField(default=5)),
                ('token_days', models.PositiveSmallIntegerField(default=7)),
                ('reasons', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, default=list, size=None)),
                ('quiet_from', models.TimeField(blank=True, null=True)),
                ('quiet_until', models.TimeField(blank=True, null=True)),
                ('quiet_zone', models.TextField(default='UTC')),
                ('quiet_days', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveSmallIntegerField(), blank=True, default=list, size=None)),
            ],
            options={
                'db_table': 'octo_alert_rule',
            },
        ),
        migrations.CreateModel(
            name='AlertNotice',
            fields=[
                ('rule', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='locks.alertrule')),
                ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='locks.alert')),
                ('pk', models.CompositePrimaryKey('rule_id', 'alert_id', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
            ],
            options={
                'db_table': 'octo_alert_notice',
            },
        ),
        migrations.AddField(
            model_name='delivery',
            name='content',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='stuckcount',
            name='reasons',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), db_default=[], size=None),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='event_id',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name='token',
            index=models.Index(condition=models.Q(('actor_session_id', None), ('revoked_at', None), ('rotated_at', None)), fields=['expires_at'], name='token_expiry'),
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('quiet_from__isnull', True), ('quiet_until__isnull', True)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False)), _connector='OR'), name='alert_rule_quiet_hours_have_both_ends'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('closed_at', None), _negated=True), fields=['closed_at'], name='alert_to_purge'),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('kind', 'space', 'subject'), name='alert_is_open_once', nulls_distinct=False),
        ),
    ]
