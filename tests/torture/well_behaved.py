"""The well-behaved space of tests.torture.neighbour: holds locks as a client library does, and times its calls."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import quantiles

from locks.api.errors import Code
from tests.octoadmin.http_client import Reply
from tests.torture.connection import Connection

CALLS = ("acquire", "renew", "keepalive")
TTL_SECONDS = 15
PAUSE_SECONDS = 0.05
RENEWALS = 3


@dataclass
class Phase:
    """What the well-behaved space has seen in a time."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {call: [] for call in CALLS})
    # A renewal or keepalive that was refused because the lease or session had ended.
    lost: list[str] = field(default_factory=list)
    # 429 and 503: the contract allows them, and a client tries again.
    put_off: Counter[int] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def percentile(self, call: str, percent: int) -> float:
        """In milliseconds."""
        return quantiles(self.seconds[call], n=100, method="inclusive")[percent - 1] * 1000


class Worker:
    """Calls the API as a client library does, and records each answer in the current phase."""

    def __init__(self, port: int, token: str, phase: Phase) -> None:
        self.connection = Connection(port, token)
        self.phase = phase

    async def call(self, what: str, path: str, body: object) -> Reply | None:
        """None for an answer that a client would try again."""
        started = time.perf_counter()
        try:
            reply = await self.connection.call("POST", path, body)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.phase.broken.append(f"{path}: {type(error).__name__}")
            return None
        if what in CALLS:
            self.phase.seconds[what].append(time.perf_counter() - started)
        if reply.status in (429, 503):
            self.phase.put_off[reply.status] += 1
            return None
        code = reply.json.get("code") if reply.status >= 400 else None
        if code in (Code.LEASE_NOT_CURRENT, Code.SESSION_EXPIRED, Code.NOT_FOUND):
            self.phase.lost.append(f"{path}: {reply.status} {code}")
        elif reply.status >= 400:
            self.phase.broken.append(f"{path}: {reply.status} {code}")
        return reply

    async def until_answered(self, what: str, path: str, body: object) -> Reply:
        while (reply := await self.call(what, path, body)) is None:  # noqa: ASYNC110 -- tries again
            await asyncio.sleep(PAUSE_SECONDS)
        return reply

    async def hold_locks(self, name: str) -> None:
        """Acquires, renews and releases, again and again."""
        while True:
            lease = (await self.until_answered("acquire", f"/locks/{name}/acquire", {"ttl_seconds": TTL_SECONDS})).json
            if lease.get("status") != "acquired":
                self.phase.broken.append(f"{name}: {lease}")
                return
            held = {"lease_id": lease["lease_id"]}
            for _ in range(RENEWALS):
                await asyncio.sleep(PAUSE_SECONDS)
                await self.call("renew", f"/locks/{name}/renew", held)
            await self.until_answered("release", f"/locks/{name}/release", held)

    async def hold_session(self, name: str) -> None:
        """One lock, held by a session for the whole time."""
        opened = (await self.until_answered("open", "/sessions", {"ttl_seconds": TTL_SECONDS})).json["session_id"]
        await self.until_answered("acquire", f"/locks/{name}/acquire", {"session_id": opened})
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            await self.call("keepalive", f"/sessions/{opened}/keepalive", {})
