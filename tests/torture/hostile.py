"""A hostile space: every way to use up a server that its tokens allow, all at once, in a process of its own."""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection as Pipe
from typing import Any, Self

from locks import token_format
from tests.octoadmin.http_client import head_of
from tests.torture.connection import Connection, headers_of

# How many of each.
FLOODS = 16
STRANGERS = 16
SLOW_READERS = 10
WATCHERS = 40
BATCHES = 4
WAITERS = 50
HALF_BODIES = 20
WEBHOOKS = 5
RECEIVER_SECONDS = 9.0
# Less than any export or snapshot.
RECEIVE_BUFFER = 4096
RETRY_SECONDS = 1.0
# For opening the streams, before everything else begins.
STREAMS_SECONDS = 1.5


class Hostile:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._numbers = itertools.count()
        self._webhooks: list[str] = []
        self._receiver: asyncio.Server | None = None

    async def attack(self, seconds: float) -> None:
        streams = [(SLOW_READERS, self._unread_export), (WATCHERS, self._unread_watch)]
        others = [
            (FLOODS, self._flood), (STRANGERS, self._flood_as_stranger), (BATCHES, self._batch), (WAITERS, self._wait),
            (HALF_BODIES, self._half_body),
        ]  # fmt: skip
        tasks = _start(streams)
        # Afterwards the space has used up its rate, and no stream would be opened.
        await asyncio.sleep(STREAMS_SECONDS)
        tasks += _start(others)
        await asyncio.sleep(seconds - STREAMS_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def prepare(self) -> None:
        """Webhooks whose receiver is slow, and a lock that others wait for; long metadata for exports and snapshots."""
        self._receiver = await asyncio.start_server(self._slow_receiver, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{self._receiver.sockets[0].getsockname()[1]}"
        async with contextlib.aclosing(self._connection()) as api:
            for number in range(WEBHOOKS):
                created = await api.call("POST", "/webhooks", {"url": f"{url}/{number}"})
                # Refused by a server that delivers to public addresses only.
                if created.status == 201:
                    self._webhooks.append(created.json["id"])
            await api.call("POST", "/locks/wanted/acquire", {"ttl_seconds": 3600})
            for number in range(200):
                await api.call("POST", f"/locks/bulky{number}/acquire", {"ttl_seconds": 3600, "metadata": "x" * 1000})

    async def clean_up(self) -> None:
        """Nothing of the attack goes on after it."""
        async with contextlib.aclosing(self._connection()) as api:
            while self._webhooks:
                reply = await api.call("DELETE", f"/webhooks/{self._webhooks[-1]}")
                if reply.status == 204:
                    self._webhooks.pop()
        if self._receiver is not None:
            self._receiver.close()

    def _connection(self) -> Connection:
        return Connection(self._port, self._token)

    async def _flood(self) -> None:
        api = self._connection()
        async with contextlib.aclosing(api):
            for _ in range(1000):
                name = f"flood{next(self._numbers)}"
                lease = await api.call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 2})
                if lease.status == 200:
                    held = {"lease_id": lease.json.get("lease_id")}
                    await api.call("POST", f"/locks/{name}/renew", held)
                    await api.call("POST", f"/locks/{name}/release", held)

    async def _flood_as_stranger(self) -> None:
        api = Connection(self._port, token_format.generate())
        async with contextlib.aclosing(api):
            for method, path in itertools.cycle(
                (("POST", "/locks/a/acquire"), ("GET", "/whoami"), ("POST", "/sessions"))
            ):
                await api.call(method, path)

    async def _unread_export(self) -> None:
        await self._unread("/events/export?format=csv")

    async def _unread_watch(self) -> None:
        await self._unread("/watch")

    async def _unread(self, path: str) -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", self._port))
            await loop.sock_sendall(client, head_of("GET", path, headers_of(self._token)))
            # An export that was refused, because others are under way, is tried again.
            is_open = (await loop.sock_recv(client, 64)).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(20 if is_open else RETRY_SECONDS)

    async def _batch(self) -> None:
        api = self._connection()
        async with contextlib.aclosing(api):
            first = next(self._numbers)
            names = [f"batch{first}-{number}" for number in range(100)]
            taken = await api.call("POST", "/locks/acquire-all", {"names": names, "ttl_seconds": 2})
            await api.call("POST", "/locks/claim-next", {"names": [f"{name}-{n}" for name in names for n in range(10)]})
            if taken.status == 200:
                leases = [{"name": each["name"], "lease_id": each["lease_id"]} for each in taken.json.get("leases", ())]
                await api.call("POST", "/locks/release-all", {"leases": leases})

    async def _wait(self) -> None:
        api = self._connection()
        async with contextlib.aclosing(api):
            await api.call("POST", "/locks/wanted/acquire", {"wait_seconds": 60})

    async def _half_body(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer):
            head = [*headers_of(self._token), (b"content-type", b"application/json"), (b"content-length", b"60000")]
            writer.write(head_of("POST", "/locks/acquire-all", head) + b"[" * 50_000)
            await reader.read(1)

    async def _slow_receiver(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(RECEIVER_SECONDS)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def _start(attacks: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(_repeat(attack)) for count, attack in attacks for _ in range(count)]


async def _repeat(attack: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await attack()
        await asyncio.sleep(0)


async def _burn(seconds: float, *, share: float) -> None:
    """Uses so much of a processor, and sends nothing."""
    started, used = time.monotonic(), time.process_time()
    while (elapsed := time.monotonic() - started) < seconds:
        if time.process_time() - used > elapsed * share:
            await asyncio.sleep(0.001)


def _obey(orders: Pipe, port: int, token: str, niceness: int) -> None:
    os.nice(niceness)
    hostile = Hostile(port, token)
    with asyncio.Runner() as runner:
        while True:
            match orders.recv():
                case "prepare", _:
                    work = hostile.prepare()
                case "attack", seconds:
                    work = hostile.attack(seconds)
                case "burn", (seconds, share):
                    work = _burn(seconds, share=share)
                case "clean up", _:
                    work = hostile.clean_up()
                case _:
                    return
            used = time.process_time()
            runner.run(work)
            orders.send(time.process_time() - used)


class Attacker:
    """The hostile space's process. Each call returns the seconds of processor time that it took."""

    def __init__(self, port: int, token: str, *, niceness: int) -> None:
        """With a niceness it yields the processor to the others: an attacker has a machine of its own."""
        context = multiprocessing.get_context("spawn")
        self._orders, orders = context.Pipe()
        self._process = context.Process(target=_obey, args=(orders, port, token, niceness), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()

    async def _order(self, what: str, details: object = None) -> float:
        self._orders.send((what, details))
        used: float = await asyncio.to_thread(self._orders.recv)
        return used

    async def prepare(self) -> None:
        await self._order("prepare")

    async def clean_up(self) -> None:
        await self._order("clean up")

    async def attack(self, seconds: float) -> float:
        return await self._order("attack", seconds)

    async def burn(self, seconds: float, *, share: float) -> float:
        return await self._order("burn", (seconds, share))
