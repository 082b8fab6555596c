"""Runs, layers, actors and the key-value store; the scope runs:manage."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.db import migrations, models

# Room on the pages for heap-only updates.
STORAGE = """
ALTER TABLE octo_kv_entry SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE octo_layer SET (fillfactor = 50);
ALTER TABLE octo_run_actor SET (fillfactor = 70);
"""


class Migration(migrations.Migration):

    dependencies = [
        ('locks', '0008_live_sessions_of_a_space'),
    ]

    operations = [
        migrations.CreateModel(
            name='Layer',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('depth', models.IntegerField()),
                ('read_down', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('kv_keys', models.IntegerField(db_default=0)),
                ('kv_bytes', models.BigIntegerField(db_default=0)),
                ('waited_until', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'octo_layer',
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('metadata', models.TextField(null=True)),
                ('state', models.TextField(choices=[('active', 'Active'), ('draining', 'Draining'), ('finished', 'Finished')], default='active')),
                ('ttl_seconds', models.IntegerField(default=3600)),
                ('max_depth', models.IntegerField(default=2)),
                ('dump', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('draining_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('finish_reason', models.TextField(null=True)),
            ],
            options={
                'db_table': 'octo_run',
            },
        ),
        migrations.CreateModel(
            name='RunActor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(db_collation='C')),
                ('role', models.TextField(choices=[('lead', 'Lead'), ('worker', 'Worker')])),
                ('session_id', models.UUIDField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('end_reason', models.TextField(null=True)),
                ('kv_calls', models.BigIntegerField(db_default=0)),
                ('kv_denied', models.BigIntegerField(db_default=0)),
                ('lease_calls', models.BigIntegerField(db_default=0)),
                ('lease_denied', models.BigIntegerField(db_default=0)),
                ('lease_contended', models.BigIntegerField(db_default=0)),
            ],
            options={
                'db_table': 'octo_run_actor',
            },
        ),
        migrations.RemoveConstraint(
            model_name='token',
            name='token_scopes_are_known',
        ),
        migrations.AddField(
            model_name='space',
            name='viewers_see_peer_values',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether viewers see the values that actors of a run keep under /peer. Operators and admins do.'),
        ),
        migrations.AddField(
            model_name='token',
            name='actor_session_id',
            field=models.UUIDField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='token',
            name='is_draining',
            field=models.BooleanField(db_default=False, editable=False),
        ),
        migrations.AlterField(
            model_name='token',
            name='scopes',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('locks:read', 'Locks Read'), ('locks:write', 'Locks Write'), ('locks:force', 'Locks Force'), ('audit:read', 'Audit Read'), ('webhooks:manage', 'Webhooks Manage'), ('tokens:manage', 'Tokens Manage'), ('runs:manage', 'Runs Manage')], max_length=32), size=None),
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.CheckConstraint(condition=models.Q(('scopes__contained_by', ['locks:read', 'locks:write', 'locks:force', 'audit:read', 'webhooks:manage', 'tokens:manage', 'runs:manage']), models.Q(('scopes', []), _negated=True)), name='token_scopes_are_known'),
        ),
        migrations.AddField(
            model_name='layer',
            name='parent',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='children', to='locks.layer'),
        ),
        migrations.CreateModel(
            name='KvEntry',
            fields=[
                ('pk', models.CompositePrimaryKey('layer_id', 'path', blank=True, editable=False, primary_key=True, serialize=False)),
                ('layer', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='locks.layer')),
                ('path', models.TextField(db_collation='C')),
                ('version', models.BigIntegerField()),
                ('value', models.BinaryField()),
                ('encoding', models.TextField(choices=[('json', 'Json'), ('text', 'Text'), ('base64', 'Base64')])),
                ('size', models.IntegerField()),
                ('written_by', models.TextField()),
                ('written_at', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'kv entries',
                'db_table': 'octo_kv_entry',
            },
        ),
        migrations.CreateModel(
            name='RunDump',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='kept_dump', serialize=False, to='locks.run')),
                ('content', models.BinaryField()),
            ],
            options={
                'db_table': 'octo_run_dump',
            },
        ),
        migrations.AddField(
            model_name='run',
            name='space',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='locks.space'),
        ),
        migrations.AddField(
            model_name='layer',
            name='run',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='layers', to='locks.run'),
        ),
        migrations.AddField(
            model_name='runactor',
            name='layer',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='actors', to='locks.layer'),
        ),
        migrations.AddField(
            model_name='runactor',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='actors', to='locks.run'),
        ),
        migrations.AddField(
            model_name='runactor',
            name='token',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='run_actor', to='locks.token'),
        ),
        migrations.AddConstraint(
            model_name='kventry',
            constraint=models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='kv_version_starts_at_one'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['space', '-created_at', 'id'], name='run_of_space'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['id'], name='run_unfinished'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at__isnull', False), ('state', 'finished')), models.Q(models.Q(('state', 'finished'), _negated=True), ('finished_at__isnull', True)), _connector='OR'), name='run_is_finished_or_has_no_end'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('max_depth__gte', 1), ('max_depth__lte', 16)), name='run_depth_is_bounded'),
        ),
        migrations.AddIndex(
            model_name='runactor',
            index=models.Index(fields=['run', 'name'], name='actor_of_run'),
        ),
        migrations.AddIndex(
            model_name='runactor',
            index=models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['session_id'], name='actor_present'),
        ),
        migrations.AddConstraint(
            model_name='runactor',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('run', 'name'), name='actor_name_is_unique_in_its_run'),
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
