"""The cost of the main pages with 100, 10,000, 100,000 and 1,000,000 locks, in the databases that `growth` filled.

CPU time of this process and of the database, for Django's whole response without the network.
"""

import sys
from collections.abc import Iterator

from django.db import connection
from django.test import Client

from bench.growth import SIZES, database_name
from bench.pages import cpu_ms, get, log_in

PAGES = {
    "Now": "",
    "Now, searched": "?q=held/00000",
    "Owners": "owners",
    "Stuck": "stuck",
    "Lock": "locks/held/0000042",
    "Activity": "activity",
}
ROUNDS = 2


def measure(*, sizes: tuple[int, ...] = SIZES) -> dict[str, list[float]]:
    """Milliseconds by page, for each size."""
    costs: dict[str, list[float]] = {page: [] for page in PAGES}
    original = connection.settings_dict["NAME"]
    try:
        for size in sizes:
            _connect_to(database_name(size))
            browser = log_in()
            for page, path in PAGES.items():
                print(f"\rpages: {page}, {size:,} locks{'':20}", end="", file=sys.stderr)
                get(browser, path)  # compiles the template
                costs[page].append(min(_cost(browser, path) for _ in range(ROUNDS)))
    finally:
        _connect_to(original)
    print(f"\r{'':60}\r", end="", file=sys.stderr)
    return costs


def _connect_to(database: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = database


def _cost(browser: Client, path: str) -> float:
    before = cpu_ms()
    get(browser, path)
    return cpu_ms() - before


def lines(costs: dict[str, list[float]], *, sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    yield "| CPU of server and database, ms | " + " | ".join(f"{size:,} locks" for size in sizes) + " |"
    yield "|---|" + "---:|" * len(sizes)
    for page, by_size in costs.items():
        yield f"| {page} | " + " | ".join(f"{cost:.0f}" for cost in by_size) + " |"
