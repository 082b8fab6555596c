"""What every measurement needs: a PostgreSQL cluster with the product's tables, a space and a token."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from octoadmin.run.postgres import DATABASE, ROLE, SUPERUSER, Cluster, stop

# More than in production: some contenders need a connection per client.
MAX_CONNECTIONS = {"max_connections": "600"}

# Held locks as acquire leaves them, of 500 owners.
FILL_LOCKS = """
    INSERT INTO octo_lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds,
        lock_delay_seconds, acquired_at, renewed_at, expires_at, next_sweep_at, renewals
    )
    SELECT
        token.space_id, 'held/' || lpad(n::text, 7, '0'), n + 1, gen_random_uuid(),
        octo_holder_id(token.public_id, NULL), token.id, 'runner-' || n %% 500, 'build=' || n || ' ref=main', 86400,
        0, now() - n * interval '30 milliseconds', now(), now() + interval '1 day', now() + interval '1 day', 3
    FROM generate_series(1, %(locks)s) AS n, octo_token AS token
    WHERE token.digest = decode(%(digest)s, 'hex')
"""


@dataclass(frozen=True)
class Environment:
    """What the contenders share. `digest` is that of the token, in hexadecimal."""

    directory: Path
    cluster: Cluster
    postgres: psutil.Process
    token: str
    digest: str

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Returns its conninfo."""
        create = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(ROLE), sql.Identifier(template)
        )
        admin = self.cluster.conninfo(user=SUPERUSER, dbname="postgres")
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(create)
        return self.cluster.conninfo(dbname=name)

    def copy_database(self, name: str) -> str:
        """Copies the product's database, which must have no open connections."""
        return self.create_database(name, template=DATABASE)


@contextmanager
def environment() -> Iterator[Environment]:
    with tempfile.TemporaryDirectory(prefix="octo-bench-") as name:
        directory = Path(name)
        cluster = Cluster(directory=directory / "postgres", settings=MAX_CONNECTIONS)
        cluster.initialise()
        with (directory / "postgres.log").open("wb") as log:
            process = cluster.start(log=log)
        try:
            cluster.wait_ready(process)
            cluster.create_database()
            _set_up_django(cluster, directory)
            token, digest = create_token("bench")
            yield Environment(directory, cluster, psutil.Process(process.pid), token, digest)
        finally:
            stop(process)


def _set_up_django(cluster: Cluster, directory: Path) -> None:
    os.environ |= {
        "DATABASE_URL": cluster.conninfo(),
        "OCTO_DATA_DIR": str(directory / "data"),
        "SECRET_KEY": "only for measurements, and nothing else",
        "DJANGO_SETTINGS_MODULE": "octoadmin.settings",
        "LOG_LEVEL": "error",
    }
    for command in (["migrate"], ["collectstatic", "--no-input"]):
        subprocess.run([sys.executable, "manage.py", *command, "--verbosity", "0"], check=True)
    import django

    django.setup()


def create_token(team: str) -> tuple[str, str]:
    """A token of a new team's only space, practically without limits: its plaintext and its digest."""
    from locks.models import Space, Team
    from locks.services import tokens
    from locks.services.audit import Actor

    space = Space.objects.create(
        team=Team.objects.create(slug=team, name=team), slug="main", name="Main",
        max_live_locks=10**9, requests_per_second=10**6,
    )  # fmt: skip
    plaintext, token = tokens.issue(
        actor=Actor.of_shell(), space=space, name="bench", scopes=["locks:read", "locks:write"]
    )
    return plaintext, bytes(token.digest).hex()
