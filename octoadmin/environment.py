"""Every setting that the environment can give, typed, in one place.

`Environment` is read once, by settings.py. Problems are reported together, each with the variable's name and what to
set. A test compares the table in docs/configuration.md with the fields below.
"""

import os
import secrets
from functools import cache
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from octoadmin.sign_in_environment import CommaSeparated, SignInEnvironment

PACKAGE_DIR = Path(__file__).resolve().parent
# Where `octoadmin` and `locks` are: the checkout, or site-packages.
PROJECT_DIR = PACKAGE_DIR.parent
# A wheel has templates/ and static/ in octoadmin/assets/, a checkout has them at its top.
_BUNDLED_ASSETS = PACKAGE_DIR / "assets"
IS_CHECKOUT = not _BUNDLED_ASSETS.is_dir()
ASSETS_DIR = PROJECT_DIR if IS_CHECKOUT else _BUNDLED_ASSETS
MIN_SECRET_LENGTH = 32


class EnvironmentProblem(Exception):
    """The environment cannot be used; the message lists every problem, one a line."""


class Environment(SignInEnvironment):
    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    octo_data_dir: Path = Field(
        Path(".octoadmin"),
        description="Where the embedded database, the broker's queue, the secret key and the logs live. A relative "
        "path starts at the checkout or, if Octoadmin was installed as a package, at the current directory.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on. Loopback by default.")
    port: int = Field(8000, ge=1, le=65535, description="Port to listen on.")
    database_url: str = Field(
        "",
        description="`postgresql://user:password@host:5432/name`; several hosts may be given, separated by "
        "commas. Empty: the embedded PostgreSQL in the data directory.",
    )
    celery_broker_url: str = Field(
        "",
        description="`redis://…` or `amqp://…`. Empty: a queue of files in the data directory.",
    )
    secret_key: str = Field(
        "",
        description="At least 32 characters; signs sessions. Generated and kept in the data "
        "directory when empty and the database is embedded; required otherwise.",
    )
    secret_key_fallbacks: Annotated[list[str], NoDecode, CommaSeparated] = Field(
        [],
        description="Earlier secret keys, separated by commas: what they signed or encrypted can still be read.",
    )
    allowed_hosts: Annotated[list[str], NoDecode, CommaSeparated] = Field(
        [],
        description="Host names that requests may ask for, separated by commas. Loopback names and `HOST` "
        "are always allowed.",
    )
    trusted_proxies: Annotated[list[IPv4Network | IPv6Network], NoDecode, CommaSeparated] = Field(
        [],
        description="Addresses or networks of reverse proxies whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are trusted, separated by commas.",
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="`json`, `console`, or `auto`: readable on a terminal, JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe log line to write."
    )
    octo_workers: int | None = Field(None, ge=1, le=64, description="Server processes. Empty: one for every two cores.")
    octo_threads: int = Field(
        8,
        ge=1,
        le=128,
        description="Threads for pages and the API in each server process, each with one database connection. "
        "Five more serve health checks, keepalives and renewals (three) and exports (two).",
    )
    octo_batching: bool = Field(
        True,
        description="Whether plain acquire, renew, release, inspect and keepalive calls, and those of a run's store, "
        "are run in batches, in front of Django. "
        "`0` leaves all of the API to Django.",
    )
    octo_batch_connections: int = Field(
        2,
        ge=1,
        le=16,
        description="Database connections for each of the seven batched calls, in each server process; each is opened "
        "when the call is used, and all but the first only under load.",
    )
    octo_database_seconds: float = Field(
        6.0,
        ge=0.5,
        le=600,
        description="How long a server waits for an answer of the database. Then it closes the connection and answers "
        "503. More than the 5 s that a statement may wait for a locked row.",
    )
    octo_prepared_statements: bool = Field(
        True,
        description="`0` for a connection pooler that gives each transaction another connection, such as PgBouncer in "
        "transaction mode: no prepared statements and no session settings are used.",
    )
    octo_cell: str = Field(
        "",
        pattern=r"^([0-9A-Za-z]{2})?$",
        description="Two letters or digits that the public ids of new tokens begin with, so that a load balancer can "
        "route requests to this installation. See docs/scaling.md.",
    )
    octo_requests_per_second: int = Field(
        1_000,
        ge=1,
        description="How many requests each token may make in a second, on average; a space can have its own. "
        "All processes of all servers on the database share it evenly.",
    )
    octo_failed_authentications_per_minute: int = Field(
        60, ge=1, description="How many requests with a wrong token an address may make in a minute."
    )
    octo_retention_days: int = Field(
        400,
        ge=31,
        description="How many days the audit history is kept at least; whole months are dropped.",
    )
    octo_statistics_days: int = Field(90, ge=1, description="How many days the statistics by minute are kept.")
    octo_max_names: int = Field(
        10_000_000, ge=1, description="The highest limit of names that admins of a team can set for a space."
    )
    octo_max_events: int = Field(
        1_000_000_000,
        ge=1,
        description="The highest limit of events in the history that admins of a team can set for a space.",
    )
    octo_webhook_networks: Annotated[list[IPv4Network | IPv6Network], NoDecode, CommaSeparated] = Field(
        [],
        description="Networks that webhooks may deliver to although they are private, on any port, separated by "
        "commas. Otherwise only public addresses, on ports 80, 443, 8080 and 8443.",
    )
    octo_public_url: str = Field(
        "",
        pattern=r"^(https?://[^/\s]+/?)?$",
        description="Address of the dashboard, such as `https://octo.example.com`, for links in alerts. Empty: alerts "
        "have no links.",
    )
    email_host: str = Field("", description="SMTP server for alerts by e-mail. Empty: none is sent.")
    email_port: int = Field(587, ge=1, le=65535, description="Its port.")
    email_host_user: str = Field("", description="User to sign in there as. Empty: without signing in.")
    email_host_password: str = Field("", repr=False, description="Password of that user.")
    email_use_tls: bool = Field(True, description="Whether the connection is encrypted with STARTTLS.")
    email_use_ssl: bool = Field(
        False,
        description="Whether the connection is encrypted from its start, usual on port 465. Set `EMAIL_USE_TLS=0`.",
    )
    default_from_email: str = Field("", description="Sender of the e-mails. Required with `EMAIL_HOST`.")
    octo_public_elections: bool = Field(
        False,
        description="Whether leader elections are served, to everyone who reaches the server and without a token "
        "([elections](elections.md)).",
    )
    octo_election_requests_per_minute: int = Field(
        600,
        ge=1,
        description="How many rooms an address may create, and campaigns it may make, in a minute; ten times as many "
        "in all. All processes of all servers on the database share both evenly.",
    )
    otel_exporter_otlp_endpoint: str = Field(
        "",
        description="Address of an OpenTelemetry collector, as `http://127.0.0.1:4318`. Set: each request is a span "
        "([operation](operation.md#traces)). Needs the extra `otel`.",
    )
    otel_service_name: str = Field("octoadmin", description="The name of this service in traces.")
    debug: bool = Field(False, description="Django's debug mode. Never on a machine that others can reach.")

    @field_validator("database_url")
    @classmethod
    def _readable_database_url(cls, url: str) -> str:
        if url:
            try:
                conninfo_to_dict(url)
            except psycopg.ProgrammingError:
                # Its message would quote the password.
                raise ValueError("cannot be read; expected postgresql://user:password@host:5432/name") from None
        return url

    @field_validator("otel_exporter_otlp_endpoint")
    @classmethod
    def _installed_exporter(cls, endpoint: str) -> str:
        if endpoint and not _has_exporter():
            raise ValueError("needs the packages of OpenTelemetry: pip install 'octoadmin[otel]'")
        return endpoint

    @field_validator("secret_key")
    @classmethod
    def _long_secret_key(cls, key: str) -> str:
        if key and len(key) < MIN_SECRET_LENGTH:
            raise ValueError(f"must have at least {MIN_SECRET_LENGTH} characters")
        return key

    @field_validator("celery_broker_url")
    @classmethod
    def _known_broker(cls, url: str) -> str:
        if url and url.partition("://")[0] not in {"redis", "rediss", "amqp", "amqps", "pyamqp"}:
            raise ValueError("expected redis://…, rediss://…, amqp://… or nothing")
        return url

    @model_validator(mode="after")
    def _secret_key_for_real_databases(self) -> "Environment":
        if self.database_url and not self.secret_key:
            raise ValueError(
                "SECRET_KEY: must be set together with DATABASE_URL, the same for every server; for example "
                "to the output of: python -c 'import secrets; print(secrets.token_urlsafe(48))'"
            )
        return self

    @model_validator(mode="after")
    def _complete_email_settings(self) -> "Environment":
        if self.email_host and not self.default_from_email:
            raise ValueError("DEFAULT_FROM_EMAIL: must be set together with EMAIL_HOST, to the sender of alerts")
        if self.email_use_tls and self.email_use_ssl:
            raise ValueError("EMAIL_USE_TLS: must be 0 if EMAIL_USE_SSL is set")
        return self

    @property
    def data_dir(self) -> Path:
        return ((PROJECT_DIR if IS_CHECKOUT else Path.cwd()) / self.octo_data_dir).resolve()

    @property
    def embedded(self) -> bool:
        return not self.database_url

    @property
    def workers(self) -> int:
        # Postgres does half of the work of a request, so one process for two cores keeps both busy.
        return self.octo_workers or max(1, (os.cpu_count() or 1) // 2)

    def resolved_secret_key(self) -> str:
        if self.secret_key:
            return self.secret_key
        path = self.data_dir / "secret_key"
        try:
            kept = _kept_secret(path)
        except OSError as error:
            raise EnvironmentProblem(f"OCTO_DATA_DIR: {self.data_dir} cannot be used: {error.strerror}") from None
        if len(kept) < MIN_SECRET_LENGTH:
            raise EnvironmentProblem(
                f"SECRET_KEY: the one kept in {path} is damaged. Remove the file to get a new one."
            )
        return kept


def _has_exporter() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def _kept_secret(path: Path) -> str:
    """The secret in an owner-only file, created on first use; two processes starting at once agree on one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()


def _problem_lines(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        name = str(problem["loc"][0]).upper() if problem["loc"] else None
        lines.append(f"{name}: {message}" if name else message)
    return lines


@cache
def environment() -> Environment:
    try:
        return Environment()
    except ValidationError as error:
        raise EnvironmentProblem("\n".join(_problem_lines(error))) from None
