"""`manage.py create_demo`: creates a team with a week of deploys, cron jobs and agents.

Past events are written into the history directly. With --play the command then uses the engine until it is interrupted,
so that the pages change.
"""

import random
import secrets
import time
import uuid
from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, count_live, keep_alive, release, renew
from locks.engine.verdicts import Verdict
from locks.events.history.rollup import rollup
from locks.management.demo_data import HELD_LOCKS, JOBS, REASONS, Job
from locks.management.demo_demand import Demand
from locks.management.demo_queue import DemoQueue, DemoWaiter, holder_id
from locks.management.demo_stuck_locks import StuckLocks
from locks.models import Event, Lock, Membership, Role, Space, Team, Token, User
from locks.models.token import PRESETS
from locks.services import clock, tokens
from locks.services.audit import Actor
from locks.token_format import parse

# Fleets that work by day; the others work always.
BY_DAY = ("ci", "agents")
WORKDAY = range(7, 19)
PEOPLE = {"ada": Role.ADMIN, "olga": Role.OPERATOR, "victor": Role.VIEWER}


class Command(BaseCommand):
    help = "Creates a team called Harbor, with users, locks and a week of history."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password", help="of the demo users; by default a random one, which is printed")
        parser.add_argument("--play", action="store_true", help="keep working until interrupted")
        parser.add_argument("--days", type=int, default=7, help="length of the history")
        parser.add_argument("--seed", type=int, default=8, help="of the random numbers")

    def handle(self, *args: Any, **options: Any) -> None:
        if Team.objects.filter(slug="harbor").exists():
            raise CommandError("There is a team harbor already.")
        password = options["password"] or secrets.token_urlsafe(9)
        demo = Demo(seed=options["seed"], history=timedelta(days=options["days"]))
        demo.fill(password=password)
        # Otherwise the worker would do it within a minute.
        run(rollup())
        self.stdout.write(f"Team Harbor: sign in as {', '.join(PEOPLE)} with the password {password}")
        if options["play"]:
            try:
                while True:
                    demo.play()
                    time.sleep(1)
            except KeyboardInterrupt:
                self.stdout.write("Stopped.")


class Demo:
    def __init__(self, *, seed: int, history: timedelta) -> None:
        self._history = history
        self._rng = random.Random(seed)  # noqa: S311 -- demo data, not a secret
        self._digests: dict[str, str] = {}
        self._leases: dict[str, uuid.UUID] = {}
        # Leases that --play renews, with their fleets.
        self._renewed: dict[str, tuple[str, uuid.UUID]] = {}

    @transaction.atomic
    def fill(self, *, password: str) -> None:
        team = Team.objects.create(slug="harbor", name="Harbor")
        self._space = Space.objects.create(team=team, slug="production", name="Production")
        Space.objects.create(team=team, slug="staging", name="Staging")
        for name, role in PEOPLE.items():
            user = User.objects.create_user(name, f"{name}@harbor.example", password)
            Membership.objects.create(team=team, user=user, role=role)
        issued = {name: self._issue(name) for name in ("ci", "cron", "agents")}
        self._holder_ids = {token.pk: holder_id(token) for token in issued.values()}
        now = clock.now()
        held = {lock.name: lock for lock in HELD_LOCKS}
        events: list[Event] = []
        for job in JOBS:
            until = now - timedelta(seconds=held[job.name].held if job.name in held else job.pause_seconds / 3)
            events += self._past_events(
                job, issued[job.fleet], begin=now - self._history, until=until, is_held=job.name in held
            )
        Event.objects.bulk_create(sorted(events, key=lambda event: event.at), batch_size=1_000)
        self._demand = Demand(space=self._space, rng=self._rng)
        self._demand.count(events)
        self._queue = DemoQueue(space=self._space)
        self._create_held_locks(now, issued, start=clock.now())
        run(count_live([self._space.pk]))
        stuck = StuckLocks(space=self._space, queue=self._queue, now=clock.now())
        self._session_id = stuck.create(fleet=issued["cron"], user=User.objects.get(username="olga"))

    def play(self) -> None:
        """Plays one second: some jobs acquire, renew or release their locks. Locks held at the start are renewed."""
        for name, (fleet, lease) in self._renewed.items():
            if self._rng.random() < 0.1:
                run(renew([requests.Renew(digest=self._digests[fleet], name=name, lease_id=lease)]))
        for job in JOBS:
            if job.name.startswith(("cache/", "cron/inv", "path:", "deploy/web")) and self._rng.random() < 0.3:
                self._work_on(job)
        if self._rng.random() < 0.1:
            digest = self._digests["cron"]
            run(keep_alive([requests.SessionRef(digest=digest, session_id=self._session_id)]))
        now = clock.now()
        timed_out, next_holders = self._queue.ask_again(now=now)
        for waiter in next_holders:
            self._acquire(waiter)
        self._demand.advance(now=now, held=self._queue.held(), timed_out=timed_out)

    def _acquire(self, waiter: DemoWaiter) -> None:
        request = requests.Acquire(digest=self._digests[waiter.token.name], name=waiter.name, owner=waiter.owner)
        (outcome,) = run(acquire([request]))
        if outcome.verdict == Verdict.ACQUIRED and outcome.lease_id is not None:
            self._renewed[waiter.name] = (waiter.token.name, outcome.lease_id)
            self._queue.remove(waiter)

    def _work_on(self, job: Job) -> None:
        digest = self._digests[job.fleet]
        lease = self._leases.get(job.name)
        if lease is None:
            request = requests.Acquire(
                digest=digest,
                name=job.name,
                ttl_seconds=20,
                owner=self._rng.choice(job.owners),
                metadata=self._metadata(job),
            )
            (outcome,) = run(acquire([request]))
            if outcome.verdict == Verdict.ACQUIRED and outcome.lease_id is not None:
                self._leases[job.name] = outcome.lease_id
        elif self._rng.random() < 0.06:
            # The worker has died: the lease expires.
            del self._leases[job.name]
        elif self._rng.random() < 0.75:
            (renewed,) = run(renew([requests.Renew(digest=digest, name=job.name, lease_id=lease)]))
            if renewed.verdict != Verdict.RENEWED:
                del self._leases[job.name]
        else:
            run(release([requests.Release(digest=digest, name=job.name, lease_id=lease)]))
            del self._leases[job.name]

    def _issue(self, name: str) -> Token:
        plaintext, token = tokens.issue(actor=Actor.of_shell(), space=self._space, name=name, scopes=PRESETS["worker"])
        presented = parse(plaintext)
        assert presented is not None
        self._digests[name] = presented.digest.hex()
        return token

    def _past_events(self, job: Job, token: Token, *, begin: datetime, until: datetime, is_held: bool) -> list[Event]:
        events = []
        at = begin + timedelta(seconds=self._rng.uniform(0, job.pause_seconds))
        while True:
            held = timedelta(seconds=job.usual_seconds * self._rng.lognormvariate(0, 0.5))
            if at + held > until:
                break
            owner = self._rng.choice(job.owners)
            fields = self._event_fields(job, token, owner=owner, fencing_token=int(at.timestamp() * 1000))
            events.append(Event(at=at, kind="acquired", **_by_token(token), **fields))
            events.append(self._end_event(job, token, at=at, held=held, fields=fields))
            at += held + timedelta(
                seconds=job.pause_seconds * self._rng.uniform(0.3, 1.7) * self._pause_factor(job, at)
            )
        if is_held:
            fields = self._event_fields(job, token, owner=job.owners[0], fencing_token=int(until.timestamp() * 1000))
            events.append(Event(at=until, kind="acquired", **_by_token(token), **fields))
        return events

    @staticmethod
    def _pause_factor(job: Job, at: datetime) -> float:
        """Pauses are longer at night and at weekends."""
        return 4.0 if job.fleet in BY_DAY and (at.hour not in WORKDAY or at.weekday() > 4) else 1.0

    def _end_event(self, job: Job, token: Token, *, at: datetime, held: timedelta, fields: dict[str, Any]) -> Event:
        held_ms = int(held.total_seconds() * 1000)
        end = at + held
        draw = self._rng.random()
        if draw < job.fails / 3:
            by = {"actor_kind": "user", "actor_name": "olga", "channel": "web", "reason": self._rng.choice(REASONS)}
            return Event(at=end, kind="force_released", held_ms=held_ms, **by, **fields)
        if draw < job.fails:
            late_ms = int(self._rng.uniform(80, 900))
            return Event(
                at=end + timedelta(milliseconds=late_ms),
                kind="expired",
                actor_kind="system",
                actor_name="expiry",
                channel="task",
                held_ms=held_ms,
                recorded_late_ms=late_ms,
                **fields,
            )
        return Event(at=end, kind="released", held_ms=held_ms, **_by_token(token), **fields)

    def _event_fields(self, job: Job, token: Token, *, owner: str, fencing_token: int) -> dict[str, Any]:
        return {
            "team_id": self._space.team_id,
            "space_id": self._space.pk,
            "lock_name": job.name,
            "owner": owner,
            "metadata": self._metadata(job),
            "token_id": token.pk,
            "fencing_token": fencing_token,
            "holder_id": self._holder_ids[token.pk],
        }

    def _metadata(self, job: Job) -> str:
        return job.metadata.format(n=self._rng.randint(1_200, 1_990))

    def _create_held_locks(self, now: datetime, issued: dict[str, Token], *, start: datetime) -> None:
        """`now` is the end of the history. Writing it took a while, so heartbeats are relative to `start`."""
        jobs = {job.name: job for job in JOBS}
        for held in HELD_LOCKS:
            job = jobs[held.name]
            token = issued[job.fleet]
            acquired = now - timedelta(seconds=held.held)
            renewed = start - timedelta(seconds=held.silent)
            lease = uuid.uuid4()
            if held.silent < job.ttl_seconds / 2:
                self._renewed[job.name] = (job.fleet, lease)
            expires = renewed + timedelta(seconds=job.ttl_seconds)
            Lock.objects.create(
                space=self._space,
                name=job.name,
                fencing_token=int(acquired.timestamp() * 1000),
                lease_id=lease,
                holder_id=self._holder_ids[token.pk],
                token=token,
                owner=job.owners[0],
                metadata=self._metadata(job),
                ttl_seconds=job.ttl_seconds,
                acquired_at=acquired,
                renewed_at=renewed,
                expires_at=expires,
                renewals=max(1, held.held * 2 // job.ttl_seconds),
                next_sweep_at=expires,
            )
            self._queue.add(job.name, token=token, owners=held.waiters, now=start)
        Lock.objects.create(
            space=self._space,
            name="path:migrations",
            fencing_token=int(now.timestamp() * 1000) - 90_000,
            available_at=start + timedelta(seconds=55),
        )


def _by_token(token: Token) -> dict[str, Any]:
    return {"actor_kind": "token", "actor_id": token.pk, "actor_name": token.name, "channel": "api"}
