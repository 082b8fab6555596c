"""Another worker, on a thread and a database connection of its own, and whether it waits for a lock."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection, connections

from tests import database
from tests.polling import until

MAX_WAIT = 20


class ConcurrentSession:
    def __init__(self, threads: ThreadPoolExecutor, observer: psycopg.Connection) -> None:
        self._threads = threads
        self._observer = observer

    def start(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        """Returns at once; the future has the answer."""
        return self._threads.submit(work, *arguments, **options)

    def run_blocked(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        """Returns when the work waits for a lock in the database; fails if it does not."""
        future = self.run_until_blocked(work, *arguments, **options)
        assert self.waiting() or not future.done(), f"it did not wait, but answered {future.result()}"
        return future

    def run_until_blocked(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        """Returns when the work waits for a lock in the database, or is done."""
        future = self.start(work, *arguments, **options)
        until(lambda: self.waiting() or future.done(), "it waits or has answered", timeout=MAX_WAIT)
        return future

    def waiting(self) -> list[int]:
        """The backends that wait for a lock."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return [pid for (pid,) in self._observer.execute(query)]

    def end(self, *backends: int) -> None:
        """Ends backends, and returns when they are gone."""
        for backend in backends:
            self._observer.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])

    def now(self) -> datetime:
        (now,) = self._observer.execute("SELECT clock_timestamp()").fetchone()
        return now


def _set_lock_timeout() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{MAX_WAIT}s'")


@contextmanager
def concurrent_session() -> Iterator[ConcurrentSession]:
    """Its lock timeout is longer than a server's, so that a slow machine does not fail the test."""
    with (
        psycopg.connect(database.conninfo(connection.settings_dict["NAME"]), autocommit=True) as observer,
        ThreadPoolExecutor(max_workers=1) as threads,
    ):
        threads.submit(_set_lock_timeout).result(MAX_WAIT)
        try:
            yield ConcurrentSession(threads, observer)
        finally:
            threads.submit(connections.close_all).result(MAX_WAIT)
