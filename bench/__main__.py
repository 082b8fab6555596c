"""`make bench`: on an embedded PostgreSQL of its own, with the settings it has in production."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from octoadmin.postgres import Cluster, stop


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="octo-bench-") as directory:
        cluster = Cluster(directory=Path(directory) / "postgres")
        cluster.initialise()
        with (Path(directory) / "postgres.log").open("wb") as log:
            process = cluster.start(log=log)
        try:
            cluster.wait_ready(process)
            cluster.create_database()
            _measure(cluster, Path(directory))
        finally:
            stop(process)


def _measure(cluster: Cluster, directory: Path) -> None:
    os.environ |= {
        "DATABASE_URL": cluster.conninfo(),
        "OCTO_DATA_DIR": str(directory / "data"),
        "SECRET_KEY": "only for measurements, and nothing else",
        "DJANGO_SETTINGS_MODULE": "octoadmin.settings",
    }
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True)
    import django

    django.setup()
    from bench import growth

    for line in growth.measure():
        print(line, flush=True)


if __name__ == "__main__":
    main()
