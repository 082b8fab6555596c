"""Another worker, on a thread and a database connection of its own, and a look at whether it is waiting."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection, connections

from tests import database

MAX_WAIT = 20


class Meanwhile:
    def __init__(self, threads: ThreadPoolExecutor, observer: psycopg.Connection) -> None:
        self._threads = threads
        self._observer = observer

    def starts(self, work: Callable[..., Any], *arguments: Any, **terms: Any) -> "Future[Any]":
        """Goes on at once; the future has the answer."""
        return self._threads.submit(work, *arguments, **terms)

    def waits(self, work: Callable[..., Any], *arguments: Any, **terms: Any) -> "Future[Any]":
        """Goes on when the other one is waiting for a lock in the database."""
        future = self.starts(work, *arguments, **terms)
        deadline = time.monotonic() + MAX_WAIT
        while not self.waiting():
            assert not future.done(), f"it did not wait, but answered {future.result()}"
            assert time.monotonic() < deadline, "it neither waited nor answered"
            time.sleep(0.002)
        return future

    def goes_as_far_as_it_can(self, work: Callable[..., Any], *arguments: Any, **terms: Any) -> "Future[Any]":
        """Goes on when the other one is waiting for a lock in the database, or has answered."""
        future = self.starts(work, *arguments, **terms)
        deadline = time.monotonic() + MAX_WAIT
        while not self.waiting() and not future.done():
            assert time.monotonic() < deadline, "it neither waited nor answered"
            time.sleep(0.002)
        return future

    def waiting(self) -> list[int]:
        """The backends that are waiting for a lock."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return [pid for (pid,) in self._observer.execute(query)]

    def end(self, *backends: int) -> None:
        """Ends backends, and goes on when they are gone."""
        for backend in backends:
            self._observer.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])

    def now(self) -> datetime:
        (now,) = self._observer.execute("SELECT clock_timestamp()").fetchone()
        return now


def _be_patient() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{MAX_WAIT}s'")


@contextmanager
def meanwhile() -> Iterator[Meanwhile]:
    """Waits for as long as the test takes, however slow the machine is; a server's request would give up sooner."""
    with (
        psycopg.connect(database.conninfo(connection.settings_dict["NAME"]), autocommit=True) as observer,
        ThreadPoolExecutor(max_workers=1) as threads,
    ):
        threads.submit(_be_patient).result(MAX_WAIT)
        try:
            yield Meanwhile(threads, observer)
        finally:
            threads.submit(connections.close_all).result(MAX_WAIT)
