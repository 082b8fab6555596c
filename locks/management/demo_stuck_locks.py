"""Stuck locks of the demo: a revoked token, a forgotten lock, a long queue, a dead host, and a snoozed lock."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from locks.engine.execution import run
from locks.events.history.hold_baselines import compute_hold_baselines
from locks.management.demo_queue import DemoQueue, holder_id
from locks.models import Event, Lock, Session, Space, Token, User
from locks.models.token import PRESETS
from locks.services import tokens
from locks.services.audit import Actor
from locks.services.snooze import snooze

SHARDS = 24
RENEWAL_SECONDS = 20


class StuckLocks:
    def __init__(self, *, space: Space, queue: DemoQueue, now: datetime) -> None:
        self._space = space
        self._queue = queue
        self._now = now

    def create(self, *, fleet: Token, user: User) -> uuid.UUID:
        """Locks of the token `fleet`, one of them snoozed by `user`. Returns a session that the caller keeps alive."""
        self._revoked_token()
        self._forgotten(fleet)
        self._long_queue(fleet)
        self._dead_host(fleet)
        session_id = self._session(fleet)
        late = self._late(fleet)
        run(compute_hold_baselines())
        snooze(
            space=self._space,
            lock_name=late.name,
            fencing_token=late.fencing_token,
            owner=late.owner,
            hours=4,
            note="Known: the export grew with the new region. Ada splits it this week.",
            actor=Actor.of_user(user),
        )
        return session_id

    def _revoked_token(self) -> None:
        shell = Actor.of_shell()
        _plaintext, token = tokens.issue(
            actor=shell, space=self._space, name="ci-old-runners", scopes=PRESETS["worker"]
        )
        metadata = "build=1377 ref=main"
        self._hold("deploy/status-page", token, owner="runner-1", held=3_100, silent=700, ttl=3_600, metadata=metadata)
        tokens.revoke(actor=shell, token=token)

    def _forgotten(self, token: Token) -> None:
        """Two locks of one owner, which renews only one of them."""
        for name, silent in (("report/daily-revenue", 3), ("report/daily-churn", 410)):
            self._hold(name, token, owner="reporter-2", held=800, silent=silent, ttl=600, metadata="run=daily tz=UTC")

    def _long_queue(self, token: Token) -> None:
        self._hold(
            "license/eda-seat-1", token, owner="sim-4", held=1_700, silent=9, ttl=900, metadata="seat=1 tool=eda"
        )
        owners = tuple(f"sim-{number}" for number in range(5, 12))
        self._queue.add("license/eda-seat-1", token=token, owners=owners, now=self._now)

    def _dead_host(self, token: Token) -> None:
        """It holds many locks with a long TTL, and has stopped renewing them."""
        for shard in range(SHARDS):
            self._hold(
                f"shard/{shard:02}",
                token,
                owner="worker-eu-3",
                held=1_560 + 70 * shard,
                silent=1_500,
                ttl=7_200,
                metadata=f"host=worker-eu-3 shard={shard}",
            )

    def _session(self, token: Token) -> uuid.UUID:
        session = Session.objects.create(
            space=self._space,
            token=token,
            owner="ada@laptop",
            ttl_seconds=60,
            created_at=self._now - timedelta(seconds=430),
            last_keepalive_at=self._now,
            expires_at=self._now + timedelta(seconds=60),
            next_sweep_at=self._now + timedelta(seconds=60),
        )
        self._hold(
            "notebook/pricing-model",
            token,
            owner="ada@laptop",
            held=420,
            silent=14,
            ttl=1_800,
            metadata="kernel=python3",
            session_id=session.pk,
            bound_session_id=session.pk,
        )
        return session.pk

    def _late(self, token: Token) -> Lock:
        """Held longer than the holds in its history."""
        metadata = "tables=214 target=s3://harbor-warehouse"
        lock = self._hold(
            "export/warehouse", token, owner="export-1", held=15_400, silent=20, ttl=900, metadata=metadata
        )
        events = []
        for day in range(1, 9):
            begin = self._now - timedelta(hours=5 * day)
            fields = self._event_fields(lock.name, token, owner="export-1", fencing_token=int(begin.timestamp() * 1000))
            held = timedelta(minutes=38 + 3 * day)
            events += [
                Event(at=begin, kind="acquired", **fields),
                Event(at=begin + held, kind="released", held_ms=int(held.total_seconds() * 1000), **fields),
            ]
        Event.objects.bulk_create(sorted(events, key=lambda event: event.at))
        return lock

    def _hold(
        self, name: str, token: Token, *, owner: str, held: int, silent: int, ttl: int, metadata: str, **more: Any
    ) -> Lock:
        acquired, renewed = self._now - timedelta(seconds=held), self._now - timedelta(seconds=silent)
        fencing_token = int(acquired.timestamp() * 1000)
        Event.objects.create(
            at=acquired,
            kind="acquired",
            **self._event_fields(
                name,
                token,
                owner=owner,
                fencing_token=fencing_token,
                metadata=metadata,
                session_id=more.get("session_id"),
            ),
        )
        return Lock.objects.create(
            space=self._space,
            name=name,
            fencing_token=fencing_token,
            lease_id=uuid.uuid4(),
            holder_id=holder_id(token, more.get("session_id")),
            token=token,
            owner=owner,
            metadata=metadata,
            ttl_seconds=ttl,
            acquired_at=acquired,
            renewed_at=renewed,
            expires_at=renewed + timedelta(seconds=ttl),
            renewals=max(1, (held - silent) // RENEWAL_SECONDS),
            next_sweep_at=renewed + timedelta(seconds=ttl),
            **more,
        )

    def _event_fields(
        self,
        name: str,
        token: Token,
        *,
        owner: str,
        fencing_token: int,
        metadata: str | None = None,
        session_id: uuid.UUID | None = None,
    ) -> dict[str, Any]:
        return {
            "team_id": self._space.team_id,
            "space_id": self._space.pk,
            "lock_name": name,
            "owner": owner,
            "token_id": token.pk,
            "fencing_token": fencing_token,
            "metadata": metadata,
            "holder_id": holder_id(token, session_id),
            "actor_kind": "token",
            "actor_id": token.pk,
            "actor_name": token.name,
            "channel": "api",
        }
