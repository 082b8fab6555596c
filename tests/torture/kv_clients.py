"""A client of the store of a run: reads, writes, compare-and-swap, and deletes, each recorded."""

import asyncio
import random
import time
from typing import Any, Literal

import msgspec

from tests.torture.callers import Caller, Recorder, Servers, Until
from tests.torture.history import KvOp

PATHS = [f"/shared/torture-{number}" for number in range(6)]

_decode = msgspec.json.Decoder().decode


class KvClient:
    def __init__(
        self, servers: Servers, recorder: Recorder, token: str, chance: random.Random, *, until: Until, pause: float
    ) -> None:
        self._caller = Caller(servers, token, chance, until=until)
        self._recorder = recorder
        self._random = chance
        self._pause = pause
        # Every value is written once, so that a value says which write it is of.
        seed = chance.getrandbits(32)
        self._values = (seed * 10**6 + number for number in range(10**6))
        self._seen = dict.fromkeys(PATHS, 0)

    async def run(self) -> None:
        ways = [self._get, self._wait, self._put, self._swap, self._delete]
        while not self._caller.is_over:
            (way,) = self._random.choices(ways, (33, 2, 15, 40, 10))
            self._recorder.add([await way(self._random.choice(PATHS))])
            if self._pause:
                await asyncio.sleep(self._random.random() * 2 * self._pause)
        await self._caller.close()

    async def _get(self, path: str) -> KvOp:
        op, answer = await self._call("get", path, "GET")
        if answer is not None:
            op.version, op.value = answer.get("version", 0), answer.get("value")
        return op

    async def _wait(self, path: str) -> KvOp:
        """For the version after the one that was seen last. When the time is up, the server reads what is there."""
        query = f"?min_version={self._seen[path] + 1}&wait_seconds=1"
        op, answer = await self._call("get", path, "GET", query=query)
        if answer is not None:
            op.version, op.value = answer["version"] or 0, answer["value"]
            if answer.get("timed_out"):
                op.invoked += 0.9
        return op

    async def _put(self, path: str, expected: int | None = None) -> KvOp:
        value = next(self._values)
        body = {"value": value} | ({} if expected is None else {"expected_version": expected})
        op, answer = await self._call("put", path, "PUT", body)
        op.value, op.expected = value, expected
        if answer is not None:
            op.version = answer["version"]
        return op

    async def _swap(self, path: str) -> KvOp:
        return await self._put(path, self._seen[path])

    async def _delete(self, path: str) -> KvOp:
        """Of the version that was seen last, so that it is known what was deleted; a few of whatever is there."""
        expected = self._seen[path] if self._random.random() < 0.9 else None
        op, answer = await self._call(
            "delete", path, "DELETE", query="" if expected is None else f"?expected_version={expected}"
        )
        op.expected = expected
        if answer is not None:
            op.version = 0
            self._seen[path] = 0
        return op

    async def _call(
        self, verb: Literal["get", "put", "delete"], path: str, method: str, body: Any = None, query: str = ""
    ) -> tuple[KvOp, dict[str, Any] | None]:
        """The answer is None if the request was refused or its outcome is unknown."""
        invoked, reply = await self._caller.request(method, f"/kv{path}{query}", body)
        op = KvOp(verb=verb, name=path, invoked=invoked, returned=time.time(), outcome="unknown")
        if reply is None or reply.status >= 500:
            return op, None
        try:
            answer = _decode(reply.body) if reply.body else {}
        except msgspec.DecodeError:
            return op, None
        if reply.status == 412:
            op.outcome, op.version = "mismatch", answer["current_version"]
        elif reply.status == 404:
            op.outcome, op.version = "absent", 0
        elif reply.status >= 400:
            op.outcome = "none"
            return op, None
        else:
            op.outcome = "ok"
        self._seen[path] = answer.get("version", op.version or 0)
        return op, answer if op.outcome == "ok" else None
