"""Holds leases through a fault proxy, and checks with the server itself that what it believes is true. It ends when its
input is closed and each lease has been checked and, on average, renewed.

python -m tests.client.fault_holder PROXY_URL SERVER_URL PREFIX LEASES TTL
"""

import json
import logging
import select
import sys
import time
from collections import Counter

import octo
from octo import Client, Lease, LeaseEvent, Status, clock

# Of the two clocks that a deadline is converted between.
CLOCK_SLACK = 0.05
CLIENTS = 5


class Holder:
    def __init__(self, *, proxy: str, server: str, prefix: str, count: int, ttl: int) -> None:
        # Several, so that not all leases are renewed by one request.
        self._clients = [Client(proxy) for _ in range(CLIENTS)]
        self._observer = Client(server)
        self._prefix = prefix
        self._ttl = ttl
        self._leases: dict[str, Lease | None] = {f"{prefix}{number}": None for number in range(count)}
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def run(self) -> None:
        while not (_is_input_closed() and self._has_seen_enough()):
            self._acquire_missing()
            self._check()
            time.sleep(0.2)
        for client in self._clients:
            client.close()

    def _has_seen_enough(self) -> bool:
        needed = {"renewed": len(self._leases), "renew_failed": 0, "checked": len(self._leases)}
        return all(self.counts[event] > count for event, count in needed.items())

    def _acquire_missing(self) -> None:
        missing = [name for name, lease in self._leases.items() if lease is None]
        for name in missing:
            try:
                lease = self._clients[hash(name) % CLIENTS].acquire(name, ttl=self._ttl, on_event=self._count)
            except octo.LockHeld:
                self.counts["held by the competitor"] += 1
                continue
            except octo.OctoError:
                self.counts["acquire failed"] += 1
                return
            lease.start_renewing()
            self._leases[name] = lease
            self.counts["acquired"] += 1

    def _count(self, event: LeaseEvent, _lease: Lease, _detail: str) -> None:
        self.counts[event.value] += 1

    def _check(self) -> None:
        before = {name: (lease.deadline, lease.status) for name, lease in self._leases.items() if lease is not None}
        offset = time.time() - clock.now()
        seen = {lock.name: lock for lock in self._observer.locks(prefix=self._prefix)}
        for name, (deadline, status_before) in before.items():
            lease, lock = self._leases[name], seen.get(name)
            assert lease is not None
            ours = lock is not None and lock.fencing_token == lease.fencing_token
            self.counts["checked"] += 1
            # It is believed held now, so it must have been held when the server looked, a moment ago.
            if lease.status is Status.HELD:
                if not ours:
                    self.violations.append(f"{name} is believed held, and the server says {lock}")
                elif lock.expires_at.timestamp() < deadline + offset - CLOCK_SLACK:
                    self.violations.append(f"{name} is believed held until {deadline + offset}, longer than {lock}")
            # It was lost before the server looked, so the server must not have it any more.
            if status_before is Status.LOST and ours:
                self.violations.append(f"{name} is lost, and the server says {lock}")
            if lease.status is not Status.HELD:
                self._leases[name] = None


def _is_input_closed() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    logging.disable(logging.CRITICAL)
    proxy, server, prefix, count, ttl = sys.argv[1:]
    holder = Holder(proxy=proxy, server=server, prefix=prefix, count=int(count), ttl=int(ttl))
    holder.run()
    print(json.dumps({"counts": holder.counts, "violations": holder.violations}))


if __name__ == "__main__":
    main()
