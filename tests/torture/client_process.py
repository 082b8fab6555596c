"""A process of clients: each is a task of its event loop."""

import asyncio
import random
from collections.abc import MutableSequence
from pathlib import Path

import uvloop

from tests.torture.callers import Recorder, Servers, Until
from tests.torture.clients import Client
from tests.torture.kv_clients import KvClient
from tests.torture.quiet_spells import Plan, QuietSpells


def run_clients(
    path: Path, *, ports: list[int], token: str, actor_tokens: list[str], seed: int, count: int, until: Until,
    pause: float, plans: list[Plan], server: int, last_waits: MutableSequence[float],
) -> None:  # fmt: skip
    """The main function of the process. `server` is the one at which it ends the quiet spells."""

    def chance(number: int) -> random.Random:
        return random.Random(seed * 1000 + number)

    async def run() -> None:
        numbers = {port: number % len(last_waits) for number, port in enumerate(ports)}
        servers = Servers(ports, numbers)
        spells = QuietSpells(plans, server=server, last_waits=last_waits, until=until)
        clients = [
            Client(servers, recorder, token, chance(number), until=until, pause=pause, spells=spells)
            for number in range(count)
        ]
        alone = Client(
            Servers([ports[server]], numbers), recorder, token, chance(800), until=until, pause=pause, spells=spells
        )
        kv_clients = [
            KvClient(servers, recorder, actor_token, chance(900 + number), until=until, pause=pause)
            for number, actor_token in enumerate(actor_tokens)
        ]
        await asyncio.gather(*(client.run() for client in (*clients, *kv_clients)), alone.wait_in_quiet_spells())

    with path.open("wb") as file:
        recorder = Recorder(file)
        uvloop.run(run())
        recorder.write()
