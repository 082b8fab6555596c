"""Waiters of the demo: they wait for a minute at most, as requests do, and then ask again."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from locks.management.demo_demand import MAX_WAIT
from locks.models import Space, Token, Waiter


@dataclass(frozen=True, kw_only=True)
class DemoWaiter:
    name: str
    owner: str
    token: Token


def holder_id(token: Token, session_id: uuid.UUID | None = None) -> str:
    """The pseudonym that the engine assigns."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_holder_id(%s, %s)", [token.public_id, session_id])
        return str(cursor.fetchone()[0])


class DemoQueue:
    def __init__(self, *, space: Space) -> None:
        self._space = space
        self._waiters: list[DemoWaiter] = []

    def add(self, name: str, *, token: Token, owners: tuple[str, ...], now: datetime) -> None:
        """They have arrived one after the other within the last minute."""
        for index, owner in enumerate(owners):
            waiter = DemoWaiter(name=name, owner=owner, token=token)
            self._waiters.append(waiter)
            self._enqueue(waiter, since=now - MAX_WAIT * 0.9 * (1 - index / len(owners)))

    def remove(self, waiter: DemoWaiter) -> None:
        self._waiters.remove(waiter)

    def ask_again(self, *, now: datetime) -> tuple[list[str], list[DemoWaiter]]:
        """The names whose waits timed out, and the waiters whose lock is free now."""
        waiters = Waiter.objects.filter(space=self._space)
        waiters.filter(deadline_at__lte=now).delete()
        waiting = set(waiters.values_list("name", "owner"))
        held = self.held()
        timed_out = [waiter for waiter in self._waiters if (waiter.name, waiter.owner) not in waiting]
        for waiter in timed_out:
            if waiter.name in held:
                self._enqueue(waiter, since=now)
        free = {waiter.name: waiter for waiter in reversed(timed_out) if waiter.name not in held}
        return [waiter.name for waiter in timed_out], list(free.values())

    def held(self) -> set[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name FROM octo_lock_state_v2 WHERE space_id = %s AND severity IN (2, 4)", [self._space.pk]
            )
            return {name for (name,) in cursor.fetchall()}

    def _enqueue(self, waiter: DemoWaiter, *, since: datetime) -> None:
        # Without a server process, so that no lease is handed over to them.
        Waiter.objects.create(
            space=self._space,
            name=waiter.name,
            token=waiter.token,
            owner=waiter.owner,
            enqueued_at=since,
            deadline_at=since + MAX_WAIT,
        )
