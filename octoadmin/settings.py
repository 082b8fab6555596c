"""Django's settings. What differs between deployments comes from `octoadmin.environment` and nowhere else."""

import socket
from datetime import timedelta
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from octoadmin.environment import ASSETS_DIR, IS_CHECKOUT, environment
from octoadmin.logs import logging_config
from octoadmin.run.postgres import Cluster
from octoadmin.sign_in_settings import *  # noqa: F403 -- the settings of sign-in
from octoadmin.sign_in_settings import SIGN_IN_APPS

VERSION = "0.2.0"
ENVIRONMENT = environment()
DATA_DIR = ENVIRONMENT.data_dir
DEBUG = ENVIRONMENT.debug
SECRET_KEY = ENVIRONMENT.resolved_secret_key()
SECRET_KEY_FALLBACKS = ENVIRONMENT.secret_key_fallbacks
HOST_NAME = f"[{ENVIRONMENT.host}]" if ":" in ENVIRONMENT.host else ENVIRONMENT.host
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", HOST_NAME, *ENVIRONMENT.allowed_hosts]

INSTALLED_APPS = [
    "octoadmin.apps.OctoadminConfig",
    "octoadmin.apps.OctoAdminConfig",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django.forms",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    *SIGN_IN_APPS,
    "locks",
    # After ours, whose commands for users replace Django's: they write to the audit log.
    "django.contrib.auth",
]
MIDDLEWARE = [
    "octoadmin.http.middleware.RequestContextMiddleware",
    "octoadmin.http.middleware.SecureCookiesMiddleware",
    "octoadmin.http.middleware.ContentSecurityPolicyMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "octoadmin.http.middleware.AllauthForPagesMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "octoadmin.http.middleware.PathMiddleware",
]
TRACING = bool(ENVIRONMENT.otel_exporter_otlp_endpoint)
OTEL_SERVICE_NAME = ENVIRONMENT.otel_service_name
if TRACING:
    # The outermost one stays in front.
    MIDDLEWARE.insert(1, "octoadmin.http.tracing.TracingMiddleware")
ROOT_URLCONF = "octoadmin.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "locks.dashboard.rendering.theme",
            ],
            "builtins": ["locks.dashboard.template_tags"],
        },
    },
]

FORM_RENDERER = "locks.dashboard.form_rendering.FormRenderer"


LOCK_TIMEOUT = "5s"
# No request needs so long, whatever it asks for. Tasks that work on whole tables have a limit of their own.
STATEMENT_TIMEOUT = "30s"
PREPARED_STATEMENTS = ENVIRONMENT.octo_prepared_statements
DATABASE_SECONDS = ENVIRONMENT.octo_database_seconds
# The tasks of the worker read and purge whole tables.
WORKER_DATABASE_SECONDS = 300.0
CELL = ENVIRONMENT.octo_cell


def _database(conninfo: str) -> dict[str, Any]:
    options: dict[str, Any] = conninfo_to_dict(conninfo)
    options.setdefault("connect_timeout", 3)
    # Of several hosts, the primary. A standby is not used even if it is the only one.
    options.setdefault("target_session_attrs", "read-write")
    # A server that has vanished must not block threads.
    options.setdefault("tcp_user_timeout", 5000)
    if PREPARED_STATEMENTS:
        # A transaction that holds a row and hangs must not block requests for ever. What the operator has set is last.
        limits = f"-c lock_timeout={LOCK_TIMEOUT} -c statement_timeout={STATEMENT_TIMEOUT}"
        options["options"] = f"{limits} {options.get('options', '')}".strip()
    return {
        "ENGINE": "locks.postgresql",
        "NAME": options.pop("dbname", ""),
        "USER": options.pop("user", ""),
        "PASSWORD": options.pop("password", ""),
        "HOST": options.pop("host", ""),
        "PORT": options.pop("port", ""),
        "CONN_MAX_AGE": None,
        "DISABLE_SERVER_SIDE_CURSORS": not PREPARED_STATEMENTS,
        # A threshold allows prepared statements; the ORM's client-side cursors never ask for one.
        "OPTIONS": {
            **options, "prepare_threshold": 5 if PREPARED_STATEMENTS else None, "application_name": "octoadmin",
        },
    }  # fmt: skip


DATABASES = {"default": _database(ENVIRONMENT.database_url or Cluster(directory=DATA_DIR / "postgres").conninfo())}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "locks.User"
AUTHENTICATION_BACKENDS = ["locks.services.sign_in.UsernameOrEmailBackend"]
LOGIN_URL = "dashboard:sign-in"
LOGIN_REDIRECT_URL = "dashboard:home"
MIN_PASSWORD_LENGTH = 10
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
AUTH_PASSWORD_VALIDATORS.append(
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": MIN_PASSWORD_LENGTH},
    }
)

SESSION_ENGINE = "locks.browser_sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = int(timedelta(days=14).total_seconds())
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "octoadmin.http.error_pages.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds())
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [ASSETS_DIR / "static"]
HELP_DIR = ASSETS_DIR / ("build/help" if IS_CHECKOUT else "help")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LOGGING_CONFIG = "octoadmin.logs.configure"
LOGGING = logging_config(log_format=ENVIRONMENT.log_format, level=ENVIRONMENT.log_level)

# Several servers, each with its worker, may run on one host.
SERVER_NAME = f"{socket.gethostname()}:{ENVIRONMENT.port}"

QUEUE_DIR = DATA_DIR / "queue"
if ENVIRONMENT.celery_broker_url:
    CELERY_BROKER_URL = ENVIRONMENT.celery_broker_url
else:
    CELERY_BROKER_URL = "filesystem://localhost"
    CELERY_BROKER_TRANSPORT = "octoadmin.run.broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(QUEUE_DIR),
        "data_folder_out": str(QUEUE_DIR),
        "control_folder": str(QUEUE_DIR / "control"),
        "polling_interval": 0.1,
    }
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# Tasks that were queued while no worker ran expire: the next run does all of the work.
CELERY_BEAT_SCHEDULE = {
    "heartbeat": {
        "task": "locks.tasks.heartbeat",
        "schedule": 5.0,
        "kwargs": {"beat": SERVER_NAME},
        "options": {"expires": 30},
    },
    "sweep": {"task": "locks.tasks.sweep", "schedule": 1.0, "options": {"expires": 5}},
    "deliveries": {"task": "locks.tasks.deliveries", "schedule": 1.0, "options": {"expires": 5}},
    "rollup": {"task": "locks.tasks.rollup", "schedule": 60.0, "options": {"expires": 60}},
    "resume_bulk_releases": {"task": "locks.tasks.resume_bulk_releases", "schedule": 5.0, "options": {"expires": 5}},
    "detect_stuck": {"task": "locks.tasks.detect_stuck", "schedule": 15.0, "options": {"expires": 15}},
    "retention": {"task": "locks.tasks.retention", "schedule": 3600.0, "options": {"expires": 3600}},
}

RETENTION_DAYS = ENVIRONMENT.octo_retention_days
STATISTICS_DAYS = ENVIRONMENT.octo_statistics_days
MAX_NAMES = ENVIRONMENT.octo_max_names
MAX_EVENTS = ENVIRONMENT.octo_max_events
WEBHOOK_NETWORKS = ENVIRONMENT.octo_webhook_networks

# Of the dashboard, for links in alerts.
PUBLIC_URL = ENVIRONMENT.octo_public_url.rstrip("/")
# Empty: no alert is sent by e-mail.
EMAIL_HOST = ENVIRONMENT.email_host
EMAIL_PORT = ENVIRONMENT.email_port
EMAIL_HOST_USER = ENVIRONMENT.email_host_user
EMAIL_HOST_PASSWORD = ENVIRONMENT.email_host_password
EMAIL_USE_TLS = ENVIRONMENT.email_use_tls
EMAIL_USE_SSL = ENVIRONMENT.email_use_ssl
DEFAULT_FROM_EMAIL = ENVIRONMENT.default_from_email

TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies
THREADS = ENVIRONMENT.octo_threads
BATCHING = ENVIRONMENT.octo_batching
BATCH_CONNECTIONS = ENVIRONMENT.octo_batch_connections

PUBLIC_ELECTIONS = ENVIRONMENT.octo_public_elections
ELECTION_REQUESTS_PER_MINUTE = ENVIRONMENT.octo_election_requests_per_minute

WORKERS = ENVIRONMENT.workers
REQUESTS_PER_SECOND = ENVIRONMENT.octo_requests_per_second
FAILED_AUTHENTICATIONS_PER_MINUTE = ENVIRONMENT.octo_failed_authentications_per_minute

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "locks.api.openapi_hooks.EndpointSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Octoadmin",
    "DESCRIPTION": "One owner per job: claim a named lock, renew while you work, release when you are done.",
    "VERSION": VERSION,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_INCLUDE_SCHEMA": False,
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": ["locks.api.openapi_hooks.add_components"],
}
