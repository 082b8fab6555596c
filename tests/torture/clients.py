"""A client that uses locks in every way and records each invocation and answer."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec

from tests.octoadmin.http_client import Reply
from tests.torture.callers import Caller, Recorder, Servers, Until
from tests.torture.history import Op, Outcome, Spell, Verb
from tests.torture.quiet_spells import QuietSpells

PREFIX = "torture/"
HOT_NAMES = [f"{PREFIX}hot-{number}" for number in range(4)]
NAMES = [f"{PREFIX}name-{number}" for number in range(40)]
# So many that a request which waits for one of them is the only one.
LONE_NAMES = [f"{PREFIX}lone-{number}" for number in range(2000)]
TTLS = (1, 2, 5, 10, 30)

_decode = msgspec.json.Decoder().decode


class Client:
    def __init__(
        self, servers: Servers, recorder: Recorder, token: str, chance: random.Random, *, until: Until, pause: float,
        spells: QuietSpells,
    ) -> None:  # fmt: skip
        self._caller = Caller(servers, token, chance, until=until)
        self._recorder = recorder
        self._random = chance
        self._pause = pause
        self._servers = servers
        self._spells = spells
        self._ops: list[Op] = []
        seed = chance.getrandbits(48)
        self._owners = (f"{seed:x}-{number}" for number in itertools.count())

    async def wait_in_quiet_spells(self) -> None:
        """Instead of `run`: once at the end of each spell."""
        await self._spells.follow(self._end_spell)
        await self._caller.close()

    async def _end_spell(self) -> None:
        name = self._random.choice(LONE_NAMES)
        await self._acquire(name, ttl_seconds=1)
        began = self._spells.last_wait
        op = await self._acquire(name, ttl_seconds=5, wait_seconds=8, in_spell=True)
        await self._use(op)
        self._recorder.add([*self._ops, Spell(server=self._spells.server, began=began, ended=op.invoked)])
        self._ops.clear()

    async def run(self) -> None:
        ways = [
            self._plain, self._wait, self._wait_alone, self._in_session, self._all, self._claim, self._look,
            self._force, self._late,
        ]  # fmt: skip
        weights = [40, 21, 1, 6, 6, 6, 18, 1, 1]
        while not self._caller.is_over:
            (way,) = self._random.choices(ways, weights)
            await way()
            self._recorder.add(self._ops)
            self._ops.clear()
            if self._pause:
                await asyncio.sleep(self._random.random() * 2 * self._pause)
        await self._caller.close()

    # The ways in which locks are used.

    async def _plain(self) -> None:
        op = await self._acquire(self._name(), ttl_seconds=self._random.choice(TTLS))
        await self._use(op)

    async def _wait(self) -> None:
        if self._spells.is_quiet:
            return await self._pause_in_spell()
        name = self._random.choice(HOT_NAMES)
        await self._use(await self._acquire(name, ttl_seconds=10, wait_seconds=self._random.randint(1, 8)))

    async def _wait_alone(self) -> None:
        """For a name that is used seldom, and becomes free by expiry."""
        if self._spells.is_quiet:
            return await self._pause_in_spell()
        name = self._random.choice(LONE_NAMES)
        await self._acquire(name, ttl_seconds=1)
        await self._use(await self._acquire(name, ttl_seconds=5, wait_seconds=8))

    async def _pause_in_spell(self) -> None:
        """About as long as the requests that wait do, so that the others do not come faster."""
        await asyncio.sleep(self._random.random() * 1.5)

    async def _in_session(self) -> None:
        opened, answer = await self._call("open_session", "", "POST", "/sessions", {"ttl_seconds": 10})
        session = answer.get("session_id")
        if session is None:
            return
        opened.session, opened.outcome, opened.expires_at = session, "opened", _time(answer["expires_at"])
        wait = {"wait_seconds": 2} if self._random.random() < 0.3 else {}
        op = await self._acquire(self._name(), ttl_seconds=30, session_id=session, **wait)
        if self._random.random() < 0.5:
            kept, answer = await self._call("keepalive", "", "POST", f"/sessions/{session}/keepalive", session=session)
            if "expires_at" in answer:
                kept.outcome, kept.expires_at = "kept_alive", _time(answer["expires_at"])
        await self._use(op, release=self._random.random() < 0.5)
        ended, answer = await self._call("end_session", "", "DELETE", f"/sessions/{session}", session=session)
        if answer == {"status": 204}:
            ended.outcome = "ended"
        if self._random.random() < 0.1:
            await self._call("keepalive", "", "POST", f"/sessions/{session}/keepalive", session=session)
            await self._look(op.name)

    async def _all(self) -> None:
        names = self._random.sample(NAMES, 3)
        wait = 0 if self._spells.is_quiet else self._random.choice((0, 2))
        body = {"names": names, "ttl_seconds": 10, "wait_seconds": wait}
        ops: list[Op] = []
        async for first, answer in self._attempts(names[0], "/locks/acquire-all", body):
            first.all_of = len(names)
            ops = [first, *(msgspec.structs.replace(first, name=name) for name in names[1:])]
            self._ops += ops[1:]
            leases = {lease["name"]: lease for lease in answer.get("leases", ())}
            for op in ops:
                if op.name in leases:
                    _granted(op, leases[op.name])
        for op in ops:
            await self._use(op, renew=False)

    async def _claim(self) -> None:
        names = self._random.sample(NAMES, 8)
        async for op, answer in self._attempts(names[0], "/locks/claim-next", {"names": names, "ttl_seconds": 10}):
            if op.outcome == "unknown":
                self._ops += [msgspec.structs.replace(op, name=name) for name in names[1:]]
            if answer.get("status") == "acquired":
                op.name = answer["name"]
                op.passed_over = names[: names.index(op.name)]
                _granted(op, answer)
                await self._use(op)

    async def _look(self, name: str | None = None) -> None:
        name = name or self._name()
        op, answer = await self._call("inspect", name, "GET", f"/locks/{name}")
        if answer.get("status") == "held":
            op.outcome, op.fencing_token = "held", answer["fencing_token"]
        elif answer.get("status") == "free":
            op.outcome = "free"

    async def _force(self) -> None:
        name = self._name()
        op, answer = await self._call("force", name, "POST", f"/locks/{name}/force-release", {"reason": "torture"})
        if answer.get("status") == "released":
            op.outcome, op.fencing_token = "released", answer["previous"]["fencing_token"]
        elif op.outcome == "refused":
            op.outcome = "free"

    async def _late(self) -> None:
        """A holder that does nothing until its lease is over, and then goes on."""
        op = await self._acquire(self._name(), ttl_seconds=1)
        if op.outcome == "acquired":
            await asyncio.sleep(1.2)
            await self._renew(op)
            await self._release(op)

    # What they consist of.

    def _name(self) -> str:
        return self._random.choice(HOT_NAMES if self._random.random() < 0.3 else NAMES)

    async def _acquire(self, name: str, *, in_spell: bool = False, **body: Any) -> Op:
        if self._spells.is_quiet and not in_spell:
            body.pop("wait_seconds", None)
        async for op, answer in self._attempts(name, f"/locks/{name}/acquire", body, hangs_up=not in_spell):
            if answer.get("status") == "acquired":
                _granted(op, answer)
            elif answer.get("status") == "held" and "fencing_token" in answer:
                # What was seen last: of a request that waited, and may be old.
                op.outcome, op.fencing_token = ("none" if op.waits else "held"), answer["fencing_token"]
            if "waited_ms" in answer:
                op.waited = answer["waited_ms"] / 1000
        return op

    async def _attempts(
        self, name: str, path: str, body: dict[str, Any], *, hangs_up: bool = True
    ) -> AsyncIterator[tuple[Op, dict[str, Any]]]:
        """Half of them with a key, and again with the same key if the answer was lost. Some hang up while they wait."""
        owner = next(self._owners)
        has_key = self._random.random() < 0.5
        waits = bool(body.get("wait_seconds"))
        body = body | {"owner": owner}
        asked = 0.0
        for attempt in range(4):
            hang_up = hangs_up and waits and not attempt and self._random.random() < 0.05
            op, answer = await self._call(
                "acquire", name, "POST", path, body, owner if has_key else None, session=body.get("session_id"),
                hang_up_after=self._random.random() if hang_up else None,
            )  # fmt: skip
            if waits:
                self._spells.note_wait(self._servers.numbers[self._caller.port])
            asked = asked or op.invoked
            op.invoked, op.waits, op.owner, op.has_key = asked, waits, owner, has_key
            yield op, answer
            if op.outcome != "unknown" or not has_key:
                break
            await asyncio.sleep(0.2)

    async def _use(self, op: Op, *, renew: bool = True, release: bool = True) -> None:
        if op.outcome != "acquired":
            return
        await asyncio.sleep(self._random.random() * 0.02)
        if renew and self._random.random() < 0.4:
            await self._renew(op)
        if release:
            await self._release(op)
            if self._random.random() < 0.1:
                await self._release(op)

    async def _renew(self, held: Op) -> None:
        body = {"lease_id": held.lease_id}
        op, answer = await self._call("renew", held.name, "POST", f"/locks/{held.name}/renew", body)
        op.lease_id = held.lease_id
        if "expires_at" in answer:
            op.outcome, op.expires_at = "renewed", _time(answer["expires_at"])

    async def _release(self, held: Op) -> None:
        body = {"lease_id": held.lease_id}
        op, answer = await self._call("release", held.name, "POST", f"/locks/{held.name}/release", body)
        op.lease_id = held.lease_id
        if answer == {"status": 200}:
            op.outcome = "released"

    async def _call(
        self, verb: Verb, name: str, method: str, path: str, body: Any = None, key: str | None = None, *,
        session: str | None = None, hang_up_after: float | None = None,
    ) -> tuple[Op, dict[str, Any]]:  # fmt: skip
        invoked, reply = await self._caller.request(method, path, body, key, hang_up_after=hang_up_after)
        outcome, answer = ("unknown", {}) if reply is None else _read(reply)
        op = Op(verb=verb, name=name, invoked=invoked, returned=time.time(), outcome=outcome, session=session)
        self._ops.append(op)
        return op, answer


def _read(reply: Reply) -> tuple[Outcome, dict[str, Any]]:
    try:
        content = _decode(reply.body) if reply.body else None
    except msgspec.DecodeError:
        return "unknown", {}
    if reply.status >= 500:
        return "unknown", {}
    if isinstance(content, dict) and content.get("code") in ("lease_not_current", "session_expired", "not_found"):
        return "refused", {}
    if reply.status >= 400:
        return "none", {}
    return "none", content if isinstance(content, dict) else {"status": reply.status}


def _granted(op: Op, lease: dict[str, Any]) -> None:
    op.outcome, op.lease_id, op.fencing_token = "acquired", lease["lease_id"], lease["fencing_token"]
    op.acquired_at, op.expires_at = _time(lease["acquired_at"]), _time(lease["expires_at"])


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
