"""Writes what requests have left in memory: the last use of each token and from where, which spaces to count, and the
usage counters.

A thread of its own writes once a second, so that no request waits for it. If the process dies, up to a second is lost.
It also reports the server, which then shares the rate limits with the others.
"""

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import DatabaseError, connection

from locks.api.election_limits import election_limits
from locks.api.limits import limits
from locks.api.usage_counters import usage_counters
from locks.engine.execution import Unavailable, run
from locks.engine.operations import count_live
from locks.events.history.rollup import add_usage
from locks.runs.counters import actor_counters
from locks.services import servers, token_clients

FLUSH_SECONDS = 1.0
# The last use of a token is written at most this often.
LAST_USE_SECONDS = 60.0
MAX_KNOWN_USES = 100_000
# Of those in a second, so many are written, and so many of one token; the others at a later use.
MAX_USES_WRITTEN = 500
MAX_ADDRESSES_WRITTEN = 10

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TokenUse:
    digest: bytes
    address: str | None
    agent: str


@dataclass
class UsageFlusher:
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spaces: set[int] = field(default_factory=set)
    # By digest and address.
    _uses: dict[tuple[bytes, str | None], TokenUse] = field(default_factory=dict)
    _addresses: Counter[bytes] = field(default_factory=Counter)
    _written_at: dict[tuple[bytes, str | None], float] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def record(self, *, digest: bytes, space_id: int, address: str | None, agent: str) -> None:
        self._spaces.add(space_id)
        is_due = time.monotonic() - self._written_at.get((digest, address), -math.inf) >= LAST_USE_SECONDS
        if not is_due or (digest, address) in self._uses:
            return
        # The first address of a token always counts: a token that is used from many must not displace the others.
        known = self._addresses[digest]
        if known == 0 or (known < MAX_ADDRESSES_WRITTEN and len(self._uses) < MAX_USES_WRITTEN):
            self._addresses[digest] += 1
            self._uses[digest, address] = TokenUse(digest, address, agent)

    def flush(self) -> None:
        """Safe to call from any thread."""
        with self._lock:
            spaces, self._spaces = self._spaces, set()
            uses, self._uses, self._addresses = self._uses, {}, Counter()
            if len(self._written_at) > MAX_KNOWN_USES:
                self._written_at.clear()
            now = time.monotonic()
            for key in uses:
                self._written_at[key] = now
        if spaces:
            run(count_live(sorted(spaces)))
        if counts := usage_counters.take():
            run(add_usage(counts))
        actor_counters.flush()
        for use in uses.values():
            self._write(use)

    @staticmethod
    def _write(use: TokenUse) -> None:
        # A row that another process is writing is skipped: it writes the same.
        with connection.cursor() as cursor:
            cursor.execute(
                """
                UPDATE octo_token SET
                    last_used_at = clock_timestamp(), last_used_address = %s, last_used_agent = %s
                WHERE id IN (
                    SELECT id FROM octo_token
                    WHERE digest = %s
                      AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - %s * interval '1 second')
                    FOR NO KEY UPDATE SKIP LOCKED
                )
                """,
                [use.address, use.agent[:200], use.digest, LAST_USE_SECONDS],
            )
        if use.address is not None:
            token_clients.record(digest=use.digest, address=use.address, user_agent=use.agent)

    def reset(self) -> None:
        """Drops what was recorded, and when each token was last written."""
        with self._lock:
            self._spaces, self._uses, self._addresses, self._written_at = set(), {}, Counter(), {}
            usage_counters.take()

    def start(self) -> None:
        """Flushes every second until the process ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        report_at = time.monotonic()
        while True:
            time.sleep(FLUSH_SECONDS)
            try:
                self.flush()
                if time.monotonic() >= report_at:
                    processes = servers.report(settings.SERVER_NAME, processes=settings.WORKERS)
                    limits.share(processes)
                    election_limits.share(processes)
                    report_at = time.monotonic() + servers.REPORT_SECONDS
            except (Unavailable, DatabaseError) as error:
                _log.warning("usage could not be written", error=str(error))
                connection.close()
            except Exception:
                # If the thread ended, nothing would be written any more.
                _log.exception("usage could not be written")
                connection.close()


usage_flusher = UsageFlusher()
