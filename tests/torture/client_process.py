"""A process of clients: each is a task of its event loop."""

import asyncio
import random
from pathlib import Path

import uvloop

from tests.torture.callers import Recorder, Servers, Until
from tests.torture.clients import Client
from tests.torture.kv_clients import KvClient


def run_clients(
    path: Path, *, ports: list[int], token: str, actor_tokens: list[str], seed: int, count: int, until: Until,
    pause: float,
) -> None:  # fmt: skip
    """The main function of the process."""

    def chance(number: int) -> random.Random:
        return random.Random(seed * 1000 + number)

    async def run() -> None:
        servers = Servers(ports)
        clients = [
            Client(servers, recorder, token, chance(number), until=until, pause=pause) for number in range(count)
        ]
        kv_clients = [
            KvClient(servers, recorder, actor_token, chance(900 + number), until=until, pause=pause)
            for number, actor_token in enumerate(actor_tokens)
        ]
        await asyncio.gather(*(client.run() for client in (*clients, *kv_clients)))

    with path.open("wb") as file:
        recorder = Recorder(file)
        uvloop.run(run())
        recorder.write()
