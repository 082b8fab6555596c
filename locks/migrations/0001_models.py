"""All tables but the audit history, and how the busiest are stored."""

import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.contrib.postgres.functions
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.db.models.lookups
import django.utils.timezone
import locks.models.user
import locks.models.webhook
import uuid
from django.conf import settings
from django.db import migrations, models

# Room on the pages for heap-only updates, and a vacuum of the lock table that keeps up with heartbeats.
STORAGE = """
ALTER TABLE octo_lock SET (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE octo_space_usage SET (fillfactor = 50);
ALTER TABLE octo_token SET (fillfactor = 70);
ALTER TABLE octo_session SET (fillfactor = 60);
ALTER TABLE octo_server_process SET (fillfactor = 50);
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('event_id', models.BigIntegerField()),
                ('kind', models.TextField()),
                ('lock_name', models.TextField(db_collation='C', null=True)),
                ('fencing_token', models.BigIntegerField(null=True)),
                ('owner', models.TextField(null=True)),
                ('metadata', models.TextField(null=True)),
                ('reason', models.TextField(null=True)),
                ('observed_at', models.DateTimeField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('status', models.TextField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('dead', 'Dead')], default='pending')),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('deadline_at', models.DateTimeField()),
                ('claimed_until', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'db_table': 'octo_delivery',
            },
        ),
        migrations.CreateModel(
            name='EventCursor',
            fields=[
                ('reader', models.TextField(primary_key=True, serialize=False)),
                ('commit_position', models.BigIntegerField()),
            ],
            options={
                'db_table': 'octo_event_cursor',
            },
        ),
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('name', models.TextField(primary_key=True, serialize=False)),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'octo_heartbeat',
            },
        ),
        migrations.CreateModel(
            name='LoginThrottle',
            fields=[
                ('bucket', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('next_free_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_logged_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'octo_login_throttle',
            },
        ),
        migrations.CreateModel(
            name='ServerProcess',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('last_heartbeat_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'octo_server_process',
                'verbose_name_plural': 'server processes',
            },
        ),
        migrations.CreateModel(
            name='Space',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField()),
                ('name', models.CharField(max_length=100)),
                ('default_ttl_seconds', models.PositiveIntegerField(default=60, help_text='TTL of a lease when the request has none.', validators=[django.core.validators.MinValueValidator(1)])),
                ('max_ttl_seconds', models.PositiveIntegerField(default=86400, help_text='Maximum TTL of a request.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(31536000)])),
                ('max_hold_seconds', models.PositiveIntegerField(blank=True, help_text='Maximum total hold: later renewals are rejected. Empty: no limit.', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('max_metadata_length', models.PositiveIntegerField(default=1024, help_text='Maximum length of metadata, in characters.', validators=[django.core.validators.MaxValueValidator(16384)])),
                ('max_live_locks', models.PositiveIntegerField(default=100000, help_text='Limit of held locks. Counted once a second.', validators=[django.core.validators.MinValueValidator(1)])),
                ('max_waiters_per_name', models.PositiveIntegerField(default=1000, help_text='Limit of waiting requests for one name. Further requests are rejected.')),
                ('max_waiters', models.PositiveIntegerField(default=10000, help_text='Limit of waiting requests in the space.')),
                ('requests_per_second', models.PositiveIntegerField(blank=True, help_text="Requests per second for each token. Empty: the server's default.", null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('octostore_compatibility', models.BooleanField(default=False, help_text='Answers as OctoStore does where the two differ: above all, a token that acquires a lock again gets the same lease. Off: only an idempotency key or a session identifies the holder.')),
                ('allow_non_expiring_tokens', models.BooleanField(default=False, help_text='Whether tokens without an expiry may be issued.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('archived_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'db_table': 'octo_space',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='StatsContention',
            fields=[
                ('pk', models.CompositePrimaryKey('space_id', 'minute', 'name', blank=True, editable=False, primary_key=True, serialize=False)),
                ('space_id', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('name', models.TextField(db_collation='C')),
                ('refused', models.BigIntegerField(db_default=0)),
                ('waited', models.BigIntegerField(db_default=0)),
                ('waited_ms', models.BigIntegerField(db_default=0)),
            ],
            options={
                'db_table': 'octo_stats_contention',
            },
        ),
        migrations.CreateModel(
            name='StatsHistogram',
            fields=[
                ('pk', models.CompositePrimaryKey('space_id', 'minute', 'measure', 'bucket', blank=True, editable=False, primary_key=True, serialize=False)),
                ('space_id', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('measure', models.TextField(choices=[('hold', 'Hold'), ('wait', 'Wait')])),
                ('bucket', models.SmallIntegerField()),
                ('count', models.BigIntegerField(db_default=0)),
            ],
            options={
                'db_table': 'octo_stats_histogram',
            },
        ),
        migrations.CreateModel(
            name='StatsMinute',
            fields=[
                ('pk', models.CompositePrimaryKey('space_id', 'minute', blank=True, editable=False, primary_key=True, serialize=False)),
                ('space_id', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('acquired', models.BigIntegerField(db_default=0)),
                ('released', models.BigIntegerField(db_default=0)),
                ('expired', models.BigIntegerField(db_default=0)),
                ('forced', models.BigIntegerField(db_default=0)),
                ('renewed', models.BigIntegerField(db_default=0)),
                ('refused', models.BigIntegerField(db_default=0)),
                ('waited', models.BigIntegerField(db_default=0)),
            ],
            options={
                'db_table': 'octo_stats_minute',
            },
        ),
        migrations.CreateModel(
            name='TaskRun',
            fields=[
                ('name', models.TextField(primary_key=True, serialize=False)),
                ('finished_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('duration_ms', models.BigIntegerField()),
                ('queued_ms', models.BigIntegerField(null=True)),
                ('outcome', models.TextField()),
                ('failed', models.BooleanField()),
            ],
            options={
                'db_table': 'octo_task_run',
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(unique=True)),
                ('name', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'db_table': 'octo_team',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'db_table': 'octo_user',
            },
            managers=[
                ('objects', locks.models.user.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name='BrowserSession',
            fields=[
                ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('public_id', models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), editable=False, unique=True)),
                ('address', models.GenericIPAddressField(null=True)),
                ('user_agent', models.TextField(default='')),
                ('signed_in_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='browser_sessions', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'octo_browser_session',
            },
        ),
        migrations.CreateModel(
            name='BulkRelease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.TextField(choices=[('prepared', 'Prepared'), ('confirmed', 'Confirmed'), ('finished', 'Finished'), ('stopped', 'Stopped')], default='prepared')),
                ('selection_label', models.TextField()),
                ('total', models.PositiveIntegerField()),
                ('reason', models.TextField(default='')),
                ('lock_delay_seconds', models.PositiveSmallIntegerField(default=0)),
                ('requested_by_name', models.TextField()),
                ('address', models.GenericIPAddressField(null=True)),
                ('request_id', models.TextField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('confirmed_at', models.DateTimeField(null=True)),
                ('last_progress_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('requested_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='bulk_releases', to='locks.space')),
            ],
            options={
                'db_table': 'octo_bulk_release',
            },
        ),
        migrations.CreateModel(
            name='BulkReleaseItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('lock_name', models.TextField(db_collation='C')),
                ('fencing_token', models.BigIntegerField()),
                ('owner', models.TextField(null=True)),
                ('outcome', models.TextField(choices=[('released', 'Released'), ('fencing_mismatch', 'Fencing Mismatch'), ('not_held', 'Not Held'), ('not_attempted', 'Not Attempted')], null=True)),
                ('event_id', models.BigIntegerField(null=True)),
                ('current_owner', models.TextField(null=True)),
                ('batch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='locks.bulkrelease')),
            ],
            options={
                'db_table': 'octo_bulk_release_item',
            },
        ),
        migrations.CreateModel(
            name='DeliveryAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('duration_ms', models.PositiveIntegerField()),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('error', models.TextField(null=True)),
                ('delivery', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log', to='locks.delivery')),
            ],
            options={
                'db_table': 'octo_delivery_attempt',
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='HoldBaseline',
            fields=[
                ('lock_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('fencing_token', models.BigIntegerField()),
                ('space_id', models.BigIntegerField()),
                ('sample_size', models.PositiveSmallIntegerField()),
                ('median_ms', models.BigIntegerField(null=True)),
                ('p90_ms', models.BigIntegerField(null=True)),
                ('anomalous_after', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'octo_hold_baseline',
                'indexes': [models.Index(condition=models.Q(('anomalous_after__isnull', False)), fields=['space_id', 'anomalous_after'], name='hold_baseline_anomalous')],
            },
        ),
        migrations.CreateModel(
            name='KnownNetwork',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('network', models.CharField(max_length=50)),
                ('last_used_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='known_networks', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'octo_known_network',
            },
        ),
        migrations.CreateModel(
            name='SpaceUsage',
            fields=[
                ('space', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='usage', serialize=False, to='locks.space')),
                ('live_locks', models.PositiveIntegerField(default=0)),
                ('counted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'octo_space_usage',
            },
        ),
        migrations.CreateModel(
            name='StuckCount',
            fields=[
                ('space', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='stuck_count', serialize=False, to='locks.space')),
                ('stuck', models.PositiveIntegerField()),
                ('counted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('lock_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
                ('fencing_tokens', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
            ],
            options={
                'db_table': 'octo_stuck_count',
            },
        ),
        migrations.CreateModel(
            name='Snooze',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lock_name', models.TextField(db_collation='C')),
                ('fencing_token', models.BigIntegerField()),
                ('until', models.DateTimeField()),
                ('note', models.TextField()),
                ('person_name', models.TextField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='snoozes', to='locks.space')),
            ],
            options={
                'db_table': 'octo_snooze',
            },
        ),
        migrations.AddField(
            model_name='space',
            name='team',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='spaces', to='locks.team'),
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer'), ('operator', 'Operator'), ('admin', 'Admin')], max_length=8)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='locks.team')),
            ],
            options={
                'db_table': 'octo_membership',
            },
        ),
        migrations.CreateModel(
            name='Invite',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer'), ('operator', 'Operator'), ('admin', 'Admin')], max_length=8)),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('note', models.CharField(blank=True, default='', max_length=100)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField()),
                ('accepted_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('accepted_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invites', to='locks.team')),
            ],
            options={
                'db_table': 'octo_invite',
            },
        ),
        migrations.CreateModel(
            name='Token',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='What uses the token. The owner of its leases unless a request names one.', max_length=128)),
                ('public_id', models.CharField(editable=False, max_length=12, unique=True)),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('locks:read', 'Locks Read'), ('locks:write', 'Locks Write'), ('locks:force', 'Locks Force'), ('audit:read', 'Audit Read'), ('webhooks:manage', 'Webhooks Manage'), ('tokens:manage', 'Tokens Manage')], max_length=32), size=None)),
                ('prefixes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=256), blank=True, default=list, help_text='The token may use only lock names that start with one of these. Empty: all locks.', size=None)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('rotated_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_used_address', models.GenericIPAddressField(blank=True, editable=False, null=True)),
                ('last_used_agent', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='locks.space')),
            ],
            options={
                'db_table': 'octo_token',
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.TextField()),
                ('metadata', models.TextField(null=True)),
                ('ttl_seconds', models.IntegerField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('last_keepalive_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('next_sweep_at', models.DateTimeField(editable=False, null=True)),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='sessions', to='locks.space')),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='sessions', to='locks.token')),
            ],
            options={
                'db_table': 'octo_session',
            },
        ),
        migrations.CreateModel(
            name='Lock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(db_collation='C')),
                ('fencing_token', models.BigIntegerField(default=0)),
                ('lease_id', models.UUIDField(editable=False, null=True)),
                ('holder_id', models.TextField(null=True)),
                ('session_id', models.UUIDField(editable=False, null=True)),
                ('bound_session_id', models.UUIDField(editable=False, null=True)),
                ('owner', models.TextField(null=True)),
                ('metadata', models.TextField(null=True)),
                ('ttl_seconds', models.IntegerField(null=True)),
                ('acquired_at', models.DateTimeField(null=True)),
                ('renewed_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('renewals', models.IntegerField(null=True)),
                ('idempotency_digest', models.BinaryField(max_length=32, null=True)),
                ('request_digest', models.BinaryField(max_length=32, null=True)),
                ('next_sweep_at', models.DateTimeField(editable=False, null=True)),
                ('lock_delay_seconds', models.IntegerField(default=0)),
                ('available_at', models.DateTimeField(null=True)),
                ('last_waiter_id', models.BigIntegerField(editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('space', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='locks', to='locks.space')),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='locks.token')),
            ],
            options={
                'db_table': 'octo_lock',
            },
        ),
        migrations.CreateModel(
            name='Waiter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(db_collation='C')),
                ('queue_seq', models.BigIntegerField(db_default=0)),
                ('server_id', models.UUIDField(editable=False, null=True)),
                ('session_id', models.UUIDField(null=True)),
                ('bound_session_id', models.UUIDField(editable=False, null=True)),
                ('owner', models.TextField()),
                ('metadata', models.TextField(null=True)),
                ('ttl_seconds', models.IntegerField(db_default=60)),
                ('lock_delay_seconds', models.IntegerField(db_default=0)),
                ('idempotency_digest', models.BinaryField(max_length=32, null=True)),
                ('request_digest', models.BinaryField(max_length=32, null=True)),
                ('request_id', models.TextField(null=True)),
                ('channel', models.TextField(db_default='api')),
                ('address', models.GenericIPAddressField(null=True)),
                ('enqueued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('deadline_at', models.DateTimeField()),
                ('handed_lease_id', models.UUIDField(editable=False, null=True)),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='waiters', to='locks.space')),
                ('token', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='locks.token')),
            ],
            options={
                'db_table': 'octo_waiter',
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=locks.models.webhook.new_public_id, editable=False, max_length=36, unique=True)),
                ('url', models.CharField(max_length=2000)),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), blank=True, default=list, size=None)),
                ('prefix', models.CharField(blank=True, default='', max_length=256)),
                ('lock_pattern', models.CharField(blank=True, max_length=256, null=True)),
                ('secret', models.BinaryField()),
                ('previous_secret', models.BinaryField(null=True)),
                ('previous_secret_until', models.DateTimeField(editable=False, null=True)),
                ('paused_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('created_by', models.TextField(editable=False, help_text='Name of the person or token that created it, at that time.')),
                ('cursor_commit_position', models.BigIntegerField(editable=False)),
                ('cursor_event_id', models.BigIntegerField(editable=False)),
                ('consecutive_failures', models.PositiveIntegerField(default=0, editable=False)),
                ('backoff_until', models.DateTimeField(editable=False, null=True)),
                ('last_claimed_at', models.DateTimeField(editable=False, null=True)),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to='locks.space')),
            ],
            options={
                'db_table': 'octo_webhook',
                'ordering': ('created_at', 'id'),
            },
        ),
        migrations.AddField(
            model_name='delivery',
            name='webhook',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='locks.webhook'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('username'), name='user_name_is_unique_in_any_case', violation_error_message='This user name is taken. Names are compared without regard to case.'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('email'), condition=models.Q(('email', ''), _negated=True), name='user_email_is_unique_in_any_case', violation_error_message='This e-mail address is taken. Addresses are compared without regard to case.'),
        ),
        migrations.AddIndex(
            model_name='bulkreleaseitem',
            index=models.Index(fields=['batch', 'outcome', 'position'], name='bulk_release_item_by_outcome'),
        ),
        migrations.AddConstraint(
            model_name='bulkreleaseitem',
            constraint=models.UniqueConstraint(fields=('batch', 'position'), name='bulk_release_item_position_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='knownnetwork',
            constraint=models.UniqueConstraint(fields=('user', 'network'), name='known_network_is_unique_per_user'),
        ),
        migrations.AddConstraint(
            model_name='snooze',
            constraint=models.UniqueConstraint(fields=('space', 'lock_name', 'fencing_token'), name='snooze_is_one_per_lock_and_holder'),
        ),
        migrations.AddIndex(
            model_name='bulkrelease',
            index=models.Index(fields=['space', '-id'], name='bulk_release_of_space'),
        ),
        migrations.AddIndex(
            model_name='bulkrelease',
            index=models.Index(condition=models.Q(('state', 'confirmed')), fields=['last_progress_at'], name='bulk_release_in_progress'),
        ),
        migrations.AddConstraint(
            model_name='space',
            constraint=models.UniqueConstraint(fields=('team', 'slug'), name='space_slug_is_unique_in_its_team'),
        ),
        migrations.AddConstraint(
            model_name='space',
            constraint=models.CheckConstraint(condition=models.Q(('default_ttl_seconds__gte', 1), ('default_ttl_seconds__lte', models.F('max_ttl_seconds')), ('max_ttl_seconds__lte', 31536000)), name='space_default_ttl_is_within_the_longest'),
        ),
        migrations.AddConstraint(
            model_name='space',
            constraint=models.CheckConstraint(condition=models.Q(('max_hold_seconds__isnull', True), ('max_hold_seconds__gte', 1), _connector='OR'), name='space_longest_hold_is_positive'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('team', 'user'), name='membership_is_one_per_team_and_person'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'operator', 'admin'])), name='membership_role_is_known'),
        ),
        migrations.AddConstraint(
            model_name='invite',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'operator', 'admin'])), name='invite_role_is_known'),
        ),
        migrations.AddConstraint(
            model_name='invite',
            constraint=models.CheckConstraint(condition=models.Q(('accepted_at__isnull', True), ('revoked_at__isnull', True), _connector='OR'), name='invite_ends_in_one_way'),
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.UniqueConstraint(condition=models.Q(('revoked_at__isnull', True), ('rotated_at__isnull', True)), fields=('space', 'name'), name='token_name_is_unique_while_in_use'),
        ),
        migrations.AddConstraint(
            model_name='token',
            constraint=models.CheckConstraint(condition=models.Q(('scopes__contained_by', ['locks:read', 'locks:write', 'locks:force', 'audit:read', 'webhooks:manage', 'tokens:manage']), models.Q(('scopes', []), _negated=True)), name='token_scopes_are_known'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('next_sweep_at__isnull', False)), fields=['next_sweep_at'], name='session_to_sweep'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.CheckConstraint(condition=models.Q(('ttl_seconds__gte', 10), ('ttl_seconds__lte', 300)), name='session_ttl_is_within_bounds'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('created_at'))), name='session_ends_after_it_began'),
        ),
        migrations.AddIndex(
            model_name='lock',
            index=models.Index(condition=models.Q(('lease_id__isnull', False)), fields=['space', 'name'], name='lock_held_by_name'),
        ),
        migrations.AddIndex(
            model_name='lock',
            index=models.Index(condition=models.Q(('available_at__isnull', False)), fields=['space', 'available_at'], name='lock_closed_until'),
        ),
        migrations.AddIndex(
            model_name='lock',
            index=models.Index(condition=models.Q(('lease_id__isnull', False)), fields=['next_sweep_at'], name='lock_to_sweep'),
        ),
        migrations.AddIndex(
            model_name='lock',
            index=models.Index(condition=models.Q(('session_id__isnull', False)), fields=['session_id'], name='lock_of_session'),
        ),
        migrations.AddConstraint(
            model_name='lock',
            constraint=models.UniqueConstraint(fields=('space', 'name'), name='lock_name_is_unique_in_its_space'),
        ),
        migrations.AddConstraint(
            model_name='lock',
            constraint=models.CheckConstraint(condition=models.Q(('fencing_token__gte', 0), ('fencing_token__lte', 9007199254740991)), name='lock_fencing_token_is_exact_in_json'),
        ),
        migrations.AddConstraint(
            model_name='lock',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), django.db.models.lookups.LessThanOrEqual(models.Func(models.F('name'), function='octet_length'), models.Value(256))), name='lock_name_is_within_256_bytes'),
        ),
        migrations.AddConstraint(
            model_name='lock',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('acquired_at__isnull', True), ('bound_session_id__isnull', True), ('expires_at__isnull', True), ('holder_id__isnull', True), ('idempotency_digest__isnull', True), ('lease_id__isnull', True), ('metadata__isnull', True), ('next_sweep_at__isnull', True), ('owner__isnull', True), ('renewals__isnull', True), ('renewed_at__isnull', True), ('request_digest__isnull', True), ('session_id__isnull', True), ('token__isnull', True), ('ttl_seconds__isnull', True)), models.Q(('acquired_at__isnull', False), ('available_at__isnull', True), ('expires_at__gt', models.F('acquired_at')), ('holder_id__isnull', False), ('lease_id__isnull', False), ('next_sweep_at__isnull', False), ('owner__isnull', False), ('renewals__gte', 0), ('renewed_at__gte', models.F('acquired_at')), ('token__isnull', False), ('ttl_seconds__gte', 1)), _connector='OR'), name='lock_is_wholly_held_or_wholly_free'),
        ),
        migrations.AddConstraint(
            model_name='lock',
            constraint=models.CheckConstraint(condition=models.Q(('lock_delay_seconds__gte', 0), ('lock_delay_seconds__lte', 60)), name='lock_delay_is_at_most_a_minute'),
        ),
        migrations.AddIndex(
            model_name='waiter',
            index=models.Index(fields=['space', 'name', 'queue_seq', 'id'], name='waiter_queue'),
        ),
        migrations.AddIndex(
            model_name='waiter',
            index=models.Index(fields=['server_id'], name='waiter_at_server'),
        ),
        migrations.AddIndex(
            model_name='waiter',
            index=models.Index(condition=models.Q(('session_id__isnull', False)), fields=['session_id'], name='waiter_of_session'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['webhook', 'next_attempt_at', 'id'], name='delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['webhook', 'lock_name', 'id'], name='delivery_by_name'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['webhook', '-id'], name='delivery_latest'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['webhook', '-id'], name='delivery_dead'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('claimed_until__isnull', False), ('status', 'pending')), fields=['webhook'], name='delivery_claimed'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'pending'), _negated=True), fields=['finished_at'], name='delivery_to_purge'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('webhook', 'event_id'), name='delivery_unique_event'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at__isnull', True), ('next_attempt_at__isnull', False), ('status', 'pending')), models.Q(models.Q(('status', 'pending'), _negated=True), ('finished_at__isnull', False)), _connector='OR'), name='delivery_is_pending_or_finished'),
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
