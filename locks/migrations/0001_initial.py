import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.db.models.lookups
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
            ],
            options={
                "db_table": "octo_heartbeat",
            },
        ),
        migrations.CreateModel(
            name="Space",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("slug", models.SlugField()),
                ("name", models.CharField(max_length=100)),
                (
                    "default_ttl_seconds",
                    models.PositiveIntegerField(
                        default=60,
                        help_text="How long a lease lasts when the worker does not say.",
                        validators=[django.core.validators.MinValueValidator(1)],
                    ),
                ),
                (
                    "max_ttl_seconds",
                    models.PositiveIntegerField(
                        default=86400,
                        help_text="The longest lease a worker may ask for at once.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(31536000),
                        ],
                    ),
                ),
                (
                    "max_hold_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="However often it renews, a holder must let go after this long. Empty: no limit.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                    ),
                ),
                (
                    "max_metadata_length",
                    models.PositiveIntegerField(
                        default=1024,
                        help_text="The longest metadata, in characters.",
                        validators=[django.core.validators.MaxValueValidator(16384)],
                    ),
                ),
                (
                    "max_live_locks",
                    models.PositiveIntegerField(
                        default=100000,
                        help_text="How many locks may be held at the same time. Counted once a second.",
                        validators=[django.core.validators.MinValueValidator(1)],
                    ),
                ),
                (
                    "requests_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="How many requests each token may make in a second. Empty: the server's default.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                    ),
                ),
                (
                    "recognises_metadata",
                    models.BooleanField(
                        default=False,
                        help_text="Asking again with the same token and the same metadata returns the lease one has, as OctoStore does. Off: only an idempotency key or a session does.",
                    ),
                ),
                (
                    "allows_eternal_tokens",
                    models.BooleanField(
                        default=False,
                        help_text="Whether tokens without an expiry may be issued.",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "archived_at",
                    models.DateTimeField(blank=True, editable=False, null=True),
                ),
            ],
            options={
                "db_table": "octo_space",
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=100)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
            ],
            options={
                "db_table": "octo_team",
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(
                        blank=True, null=True, verbose_name="last login"
                    ),
                ),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={
                            "unique": "A user with that username already exists."
                        },
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[
                            django.contrib.auth.validators.UnicodeUsernameValidator()
                        ],
                        verbose_name="username",
                    ),
                ),
                (
                    "first_name",
                    models.CharField(
                        blank=True, max_length=150, verbose_name="first name"
                    ),
                ),
                (
                    "last_name",
                    models.CharField(
                        blank=True, max_length=150, verbose_name="last name"
                    ),
                ),
                (
                    "email",
                    models.EmailField(
                        blank=True, max_length=254, verbose_name="email address"
                    ),
                ),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(
                        default=django.utils.timezone.now, verbose_name="date joined"
                    ),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "db_table": "octo_user",
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="SpaceUsage",
            fields=[
                (
                    "space",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="usage",
                        serialize=False,
                        to="locks.space",
                    ),
                ),
                ("live_locks", models.PositiveIntegerField(default=0)),
                (
                    "counted_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
            ],
            options={
                "db_table": "octo_space_usage",
            },
        ),
        migrations.AddField(
            model_name="space",
            name="team",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="spaces",
                to="locks.team",
            ),
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("operator", "Operator"),
                            ("admin", "Admin"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="locks.team",
                    ),
                ),
            ],
            options={
                "db_table": "octo_membership",
            },
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        help_text="What uses it; the owner of its leases unless they say.",
                        max_length=128,
                    ),
                ),
                (
                    "public_id",
                    models.CharField(editable=False, max_length=12, unique=True),
                ),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("locks:read", "Locks Read"),
                                ("locks:write", "Locks Write"),
                                ("locks:force", "Locks Force"),
                                ("audit:read", "Audit Read"),
                                ("webhooks:manage", "Webhooks Manage"),
                                ("tokens:manage", "Tokens Manage"),
                            ],
                            max_length=32,
                        ),
                        size=None,
                    ),
                ),
                (
                    "prefixes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=256),
                        blank=True,
                        default=list,
                        help_text="The token may touch only names that start with one of these. Empty: every name.",
                        size=None,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "superseded_at",
                    models.DateTimeField(blank=True, editable=False, null=True),
                ),
                (
                    "revoked_at",
                    models.DateTimeField(blank=True, editable=False, null=True),
                ),
                (
                    "last_used_at",
                    models.DateTimeField(blank=True, editable=False, null=True),
                ),
                (
                    "last_used_address",
                    models.GenericIPAddressField(blank=True, editable=False, null=True),
                ),
                (
                    "last_used_agent",
                    models.CharField(
                        blank=True, default="", editable=False, max_length=200
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "space",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tokens",
                        to="locks.space",
                    ),
                ),
            ],
            options={
                "db_table": "octo_token",
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("owner", models.TextField()),
                ("metadata", models.TextField(null=True)),
                ("ttl_seconds", models.IntegerField()),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "kept_alive_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "space",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="locks.space",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="locks.token",
                    ),
                ),
            ],
            options={
                "db_table": "octo_session",
            },
        ),
        migrations.CreateModel(
            name="Lock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("name", models.TextField(db_collation="C")),
                ("fencing_token", models.BigIntegerField(default=0)),
                ("lease_id", models.UUIDField(editable=False, null=True)),
                ("holder_id", models.TextField(null=True)),
                ("session_id", models.UUIDField(editable=False, null=True)),
                ("owner", models.TextField(null=True)),
                ("metadata", models.TextField(null=True)),
                ("ttl_seconds", models.IntegerField(null=True)),
                ("acquired_at", models.DateTimeField(null=True)),
                ("renewed_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("renewals", models.IntegerField(null=True)),
                ("idempotency_digest", models.BinaryField(max_length=32, null=True)),
                ("request_digest", models.BinaryField(max_length=32, null=True)),
                ("sweep_at", models.DateTimeField(editable=False, null=True)),
                ("lock_delay_seconds", models.IntegerField(default=0)),
                ("available_at", models.DateTimeField(null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "changed_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="locks",
                        to="locks.space",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="locks.token",
                    ),
                ),
            ],
            options={
                "db_table": "octo_lock",
            },
        ),
        migrations.CreateModel(
            name="Waiter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("name", models.TextField(db_collation="C")),
                ("session_id", models.UUIDField(null=True)),
                ("owner", models.TextField()),
                ("metadata", models.TextField(null=True)),
                (
                    "waiting_since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("gives_up_at", models.DateTimeField()),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="waiters",
                        to="locks.space",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="locks.token",
                    ),
                ),
            ],
            options={
                "db_table": "octo_waiter",
            },
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                django.db.models.functions.text.Lower("username"),
                name="user_name_is_unique_in_any_case",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                django.db.models.functions.text.Lower("email"),
                condition=models.Q(("email", ""), _negated=True),
                name="user_email_is_unique_in_any_case",
            ),
        ),
        migrations.AddConstraint(
            model_name="space",
            constraint=models.UniqueConstraint(
                fields=("team", "slug"), name="space_slug_is_unique_in_its_team"
            ),
        ),
        migrations.AddConstraint(
            model_name="space",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("default_ttl_seconds__gte", 1),
                    ("default_ttl_seconds__lte", models.F("max_ttl_seconds")),
                    ("max_ttl_seconds__lte", 31536000),
                ),
                name="space_default_ttl_is_within_the_longest",
            ),
        ),
        migrations.AddConstraint(
            model_name="space",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("max_hold_seconds__isnull", True),
                    ("max_hold_seconds__gte", 1),
                    _connector="OR",
                ),
                name="space_longest_hold_is_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(
                fields=("team", "user"), name="membership_is_one_per_team_and_person"
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["viewer", "operator", "admin"])),
                name="membership_role_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="token",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("revoked_at__isnull", True), ("superseded_at__isnull", True)
                ),
                fields=("space", "name"),
                name="token_name_is_unique_while_in_use",
            ),
        ),
        migrations.AddConstraint(
            model_name="token",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "scopes__contained_by",
                        [
                            "locks:read",
                            "locks:write",
                            "locks:force",
                            "audit:read",
                            "webhooks:manage",
                            "tokens:manage",
                        ],
                    ),
                    models.Q(("scopes", []), _negated=True),
                ),
                name="token_scopes_are_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.CheckConstraint(
                condition=models.Q(("ttl_seconds__gte", 10), ("ttl_seconds__lte", 300)),
                name="session_ttl_is_within_bounds",
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.CheckConstraint(
                condition=models.Q(("expires_at__gt", models.F("created_at"))),
                name="session_ends_after_it_began",
            ),
        ),
        migrations.AddIndex(
            model_name="lock",
            index=models.Index(
                condition=models.Q(("lease_id__isnull", False)),
                fields=["space", "name"],
                name="lock_held_by_name",
            ),
        ),
        migrations.AddIndex(
            model_name="lock",
            index=models.Index(
                condition=models.Q(("lease_id__isnull", False)),
                fields=["sweep_at"],
                name="lock_to_sweep",
            ),
        ),
        migrations.AddIndex(
            model_name="lock",
            index=models.Index(
                condition=models.Q(("session_id__isnull", False)),
                fields=["session_id"],
                name="lock_of_session",
            ),
        ),
        migrations.AddConstraint(
            model_name="lock",
            constraint=models.UniqueConstraint(
                fields=("space", "name"), name="lock_name_is_unique_in_its_space"
            ),
        ),
        migrations.AddConstraint(
            model_name="lock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("fencing_token__gte", 0), ("fencing_token__lte", 9007199254740991)
                ),
                name="lock_fencing_token_is_exact_in_json",
            ),
        ),
        migrations.AddConstraint(
            model_name="lock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("name", ""), _negated=True),
                    django.db.models.lookups.LessThanOrEqual(
                        models.Func(models.F("name"), function="octet_length"),
                        models.Value(256),
                    ),
                ),
                name="lock_name_is_within_256_bytes",
            ),
        ),
        migrations.AddConstraint(
            model_name="lock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("acquired_at__isnull", True),
                        ("expires_at__isnull", True),
                        ("holder_id__isnull", True),
                        ("idempotency_digest__isnull", True),
                        ("lease_id__isnull", True),
                        ("metadata__isnull", True),
                        ("owner__isnull", True),
                        ("renewals__isnull", True),
                        ("renewed_at__isnull", True),
                        ("request_digest__isnull", True),
                        ("session_id__isnull", True),
                        ("sweep_at__isnull", True),
                        ("token__isnull", True),
                        ("ttl_seconds__isnull", True),
                    ),
                    models.Q(
                        ("acquired_at__isnull", False),
                        ("available_at__isnull", True),
                        ("expires_at__gt", models.F("acquired_at")),
                        ("holder_id__isnull", False),
                        ("lease_id__isnull", False),
                        ("owner__isnull", False),
                        ("renewals__gte", 0),
                        ("renewed_at__gte", models.F("acquired_at")),
                        ("sweep_at__isnull", False),
                        ("token__isnull", False),
                        ("ttl_seconds__gte", 1),
                    ),
                    _connector="OR",
                ),
                name="lock_is_wholly_held_or_wholly_free",
            ),
        ),
        migrations.AddConstraint(
            model_name="lock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lock_delay_seconds__gte", 0), ("lock_delay_seconds__lte", 60)
                ),
                name="lock_delay_is_at_most_a_minute",
            ),
        ),
        migrations.AddIndex(
            model_name="waiter",
            index=models.Index(fields=["space", "name", "id"], name="waiter_in_line"),
        ),
    ]
