"""`make bench`: on an embedded PostgreSQL of its own, with the settings it has in production."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from octoadmin.run.postgres import Cluster, stop

if TYPE_CHECKING:
    from bench.sides import Place

# More than in production, for the sides that need a connection for each client.
MAX_CONNECTIONS = {"max_connections": "600"}


@contextmanager
def database() -> Iterator["Place"]:
    """A cluster with the tables of the product, a space and its token, and an empty database for the comparison."""
    with tempfile.TemporaryDirectory(prefix="octo-bench-") as name:
        directory = Path(name)
        cluster = Cluster(directory=directory / "postgres", settings=MAX_CONNECTIONS)
        cluster.initialise()
        with (directory / "postgres.log").open("wb") as log:
            process = cluster.start(log=log)
        try:
            cluster.wait_ready(process)
            cluster.create_database()
            yield _furnished(cluster, directory, psutil.Process(process.pid))
        finally:
            stop(process)


def _furnished(cluster: Cluster, directory: Path, postgres: psutil.Process) -> "Place":
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
    from bench.furnishing import another_database, space_with_token
    from bench.sides import Place

    token, digest = space_with_token("bench")
    return Place(
        directory=directory, cluster=cluster, conninfo=cluster.conninfo(),
        plain_conninfo=another_database(cluster, "plain_orm"), postgres=postgres, token=token, digest=digest,
    )  # fmt: skip


def main() -> None:
    with database() as place:
        from bench.report import run

        run(place)


if __name__ == "__main__":
    main()
