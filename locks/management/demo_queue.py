"""Who stands in line in the demo: for a minute at most, as requests do, and then they ask again."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from locks.management.demo_demand import MAX_WAIT
from locks.models import Space, Token, Waiter


@dataclass(frozen=True, kw_only=True)
class Asker:
    name: str
    owner: str
    token: Token


def holder_id(token: Token, session_id: uuid.UUID | None = None) -> str:
    """The pseudonym that the engine would give."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_holder_id(%s, %s)", [token.public_id, session_id])
        return str(cursor.fetchone()[0])


class Line:
    def __init__(self, *, space: Space) -> None:
        self._space = space
        self._askers: list[Asker] = []

    def stand(self, name: str, *, token: Token, owners: tuple[str, ...], now: datetime) -> None:
        """They have come one after the other within the last minute."""
        for place, owner in enumerate(owners):
            asker = Asker(name=name, owner=owner, token=token)
            self._askers.append(asker)
            self._wait(asker, since=now - MAX_WAIT * 0.9 * (1 - place / len(owners)))

    def leave(self, asker: Asker) -> None:
        self._askers.remove(asker)

    def ask_again(self, *, now: datetime) -> tuple[list[str], list[Asker]]:
        """The names that somebody has waited for in vain, and those who found theirs free and now take it."""
        in_line = Waiter.objects.filter(space=self._space)
        in_line.filter(deadline_at__lte=now).delete()
        waiting = set(in_line.values_list("name", "owner"))
        held = self.held()
        asking = [asker for asker in self._askers if (asker.name, asker.owner) not in waiting]
        for asker in asking:
            if asker.name in held:
                self._wait(asker, since=now)
        free = {asker.name: asker for asker in reversed(asking) if asker.name not in held}
        return [asker.name for asker in asking], list(free.values())

    def held(self) -> set[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name FROM octo_lock_state WHERE space_id = %s AND severity IN (2, 4)", [self._space.pk]
            )
            return {name for (name,) in cursor.fetchall()}

    def _wait(self, asker: Asker, *, since: datetime) -> None:
        # Of no server: nobody hands them anything, they find out when they ask again.
        Waiter.objects.create(
            space=self._space, name=asker.name, token=asker.token, owner=asker.owner, enqueued_at=since,
            deadline_at=since + MAX_WAIT,
        )  # fmt: skip
