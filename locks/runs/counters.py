"""How often each actor used leases and the store, counted in memory and written once a second with the other usage."""

import threading
from collections import Counter

from django.db import connection

from locks.engine.verdicts import Verdict

_COLUMNS = ("kv_calls", "kv_denied", "lease_calls", "lease_denied", "lease_contended")
_CONTENDED = frozenset({Verdict.HELD, Verdict.DELAYED})
_DENIED = frozenset(
    {
        Verdict.NAME_NOT_ALLOWED, Verdict.SCOPE_MISSING, Verdict.RUN_DRAINING, Verdict.SPACE_FULL,
        Verdict.SESSION_OVER, Verdict.TOO_MANY_BYTES, Verdict.TOO_MANY_KEYS, Verdict.NO_LAYER,
    }
)  # fmt: skip


class ActorCounters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, Counter[str]] = {}

    def count_kv(self, actor_id: int, verdict: str | None) -> None:
        """`verdict` is None for a call that was refused without asking the database."""
        self._add(actor_id, "kv_calls")
        if verdict is None or verdict in _DENIED:
            self._add(actor_id, "kv_denied")

    def count_lease(self, actor_id: int, verdict: str) -> None:
        self._add(actor_id, "lease_calls")
        if verdict in _CONTENDED:
            self._add(actor_id, "lease_contended")
        elif verdict in _DENIED:
            self._add(actor_id, "lease_denied")

    def _add(self, actor_id: int, column: str) -> None:
        with self._lock:
            self._counts.setdefault(actor_id, Counter())[column] += 1

    def flush(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, {}
        with connection.cursor() as cursor:
            for actor_id, values in sorted(counts.items()):
                cursor.execute(
                    """
                    UPDATE octo_run_actor SET
                        kv_calls = kv_calls + %s, kv_denied = kv_denied + %s, lease_calls = lease_calls + %s,
                        lease_denied = lease_denied + %s, lease_contended = lease_contended + %s
                    WHERE id = %s
                    """,
                    [*(values[column] for column in _COLUMNS), actor_id],
                )


actor_counters = ActorCounters()
