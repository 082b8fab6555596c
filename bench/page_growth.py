"""What the pages cost with 100, 10,000, 100,000 and 1,000,000 locks in the table; `bench.pages` measures all of them.

In the databases that `growth` has filled. Measured as CPU time of this process and of the database's, for Django's
whole answer without the network: time on the clock would tell more of what else the machine does.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from django.db import connection
from django.test import Client
from psycopg.conninfo import conninfo_to_dict

from bench.growth import SIZES, database_of
from bench.sides import Place
from locks.models import User
from locks.system_state.counters import latest as latest_counters
from locks.system_state.database import latest as latest_state

PAGES = {
    "Now": "",
    "Now, searched": "?q=held/00000",
    "Owners": "owners",
    "Stuck": "stuck",
    "Lock": "locks/held/0000042",
    "Activity": "activity",
}
ROUNDS = 2


def measure(place: Place, *, sizes: tuple[int, ...] = SIZES) -> dict[str, list[float]]:
    """Milliseconds of each page, by size."""
    costs: dict[str, list[float]] = {page: [] for page in PAGES}
    try:
        for size in sizes:
            _connect(database_of(size))
            browser = Client()
            browser.force_login(User.objects.create_superuser("root", "root@example.com", None))
            for page, path in PAGES.items():
                print(f"\rpages: {page}, {size:,} locks{'':20}", end="", file=sys.stderr)
                costs[page].append(_cost(browser, f"/ui/bench/main/{path}"))
    finally:
        _connect(conninfo_to_dict(place.conninfo)["dbname"])
    print(f"\r{'':60}\r", end="", file=sys.stderr)
    return costs


def _connect(database: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = database


def _cost(browser: Client, path: str) -> float:
    took = []
    for _ in range(ROUNDS + 1):
        # What is shared for a second is asked anew each time.
        latest_counters.clear()
        latest_state.clear()
        before = _worked()
        reply = browser.get(path, headers={"Host": "localhost"})
        took.append(_worked() - before)
        if reply.status_code != 200:
            raise RuntimeError(f"{path} was answered with {reply.status_code}")
    # The first compiles the page's template.
    return min(took[1:])


def _worked() -> float:
    connection.ensure_connection()
    backend = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat").read_text()
    return time.process_time() * 1000 + int(backend.split()[0]) / 1_000_000


def lines(costs: dict[str, list[float]], *, sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    yield "| CPU of server and database, ms | " + " | ".join(f"{size:,} locks" for size in sizes) + " |"
    yield "|---|" + "---:|" * len(sizes)
    for page, found in costs.items():
        yield f"| {page} | " + " | ".join(f"{cost:.0f}" for cost in found) + " |"
