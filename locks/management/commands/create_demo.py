"""`manage.py create_demo`: fills a lively team, as it would look after a week of deploys, crons and agents.

What is past is written into the history directly, as nothing else could have happened then. With --play the present
goes on through the engine until interrupted, so that the pages move.
"""

import random
import secrets
import time
import uuid
from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, count_live, keep_alive, release, renew
from locks.engine.verdicts import Verdict
from locks.events.history.rollup import rollup
from locks.management.demo_data import REASONS, STANDING, WORK, Work
from locks.management.demo_demand import Demand
from locks.management.demo_queue import Asker, Line, holder_id
from locks.management.demo_trouble import Trouble
from locks.models import Event, Lock, Membership, Role, Space, Team, Token, User
from locks.models.token import PRESETS
from locks.services import tokens
from locks.services.audit import Actor
from locks.token_format import parse

# People and their helpers work by day; machines always.
BY_DAY = ("ci", "agents")
WORKDAY = range(7, 19)
PEOPLE = {"ada": Role.ADMIN, "olga": Role.OPERATOR, "victor": Role.VIEWER}


class Command(BaseCommand):
    help = "Fill a lively team called Harbor, with people, locks and a week of history."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password", help="of the demo's people; one is made up and printed if absent")
        parser.add_argument("--play", action="store_true", help="go on working through the engine until interrupted")
        parser.add_argument("--days", type=int, default=7, help="how far the history reaches back")
        parser.add_argument("--seed", type=int, default=8, help="another number, another history")

    def handle(self, *args: Any, **options: Any) -> None:
        if Team.objects.filter(slug="harbor").exists():
            raise CommandError("There is a team called harbor already.")
        password = options["password"] or secrets.token_urlsafe(9)
        demo = Demo(seed=options["seed"], past=timedelta(days=options["days"]))
        demo.fill(password=password)
        # The worker would do it within a minute.
        run(rollup())
        self.stdout.write(f"Team Harbor: sign in as {', '.join(PEOPLE)} with the password {password}")
        if options["play"]:
            try:
                while True:
                    demo.play()
                    time.sleep(1)
            except KeyboardInterrupt:
                self.stdout.write("The demo is over.")


class Demo:
    def __init__(self, *, seed: int, past: timedelta) -> None:
        self._reach = past
        self._chance = random.Random(seed)  # noqa: S311 -- a story, not a secret
        self._digests: dict[str, str] = {}
        self._leases: dict[str, uuid.UUID] = {}
        # What --play keeps alive: of which fleet, and its lease.
        self._kept: dict[str, tuple[str, uuid.UUID]] = {}

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
        now = _clock()
        held = {standing.name: standing for standing in STANDING}
        events: list[Event] = []
        for work in WORK:
            until = now - timedelta(seconds=held[work.name].held if work.name in held else work.pause_seconds / 3)
            events += self._past(
                work, issued[work.fleet], begin=now - self._reach, until=until, is_held=work.name in held
            )
        Event.objects.bulk_create(sorted(events, key=lambda event: event.at), batch_size=1_000)
        self._demand = Demand(space=self._space, chance=self._chance)
        self._demand.count(events)
        self._line = Line(space=self._space)
        self._stand(now, issued, curtain=_clock())
        run(count_live([self._space.pk]))
        trouble = Trouble(space=self._space, line=self._line, now=_clock())
        self._session_id = trouble.brew(fleet=issued["cron"], person=User.objects.get(username="olga"))

    def play(self) -> None:
        """A second of work: somebody claims, somebody renews, somebody is done. Who was at work stays at it."""
        for name, (fleet, lease) in self._kept.items():
            if self._chance.random() < 0.1:
                run(renew([requests.Renew(digest=self._digests[fleet], name=name, lease_id=lease)]))
        for work in WORK:
            if work.name.startswith(("cache/", "cron/inv", "path:", "deploy/web")) and self._chance.random() < 0.3:
                self._act(work)
        if self._chance.random() < 0.1:
            digest = self._digests["cron"]
            run(keep_alive([requests.SessionRef(digest=digest, session_id=self._session_id)]))
        now = _clock()
        gave_up, taking = self._line.ask_again(now=now)
        for asker in taking:
            self._take(asker)
        self._demand.go_on(now=now, held=self._line.held(), gave_up=gave_up)

    def _take(self, asker: Asker) -> None:
        asked = requests.Acquire(digest=self._digests[asker.token.name], name=asker.name, owner=asker.owner)
        (outcome,) = run(acquire([asked]))
        if outcome.verdict == Verdict.ACQUIRED and outcome.lease_id is not None:
            self._kept[asker.name] = (asker.token.name, outcome.lease_id)
            self._line.leave(asker)

    def _act(self, work: Work) -> None:
        digest = self._digests[work.fleet]
        lease = self._leases.get(work.name)
        if lease is None:
            asked = requests.Acquire(
                digest=digest, name=work.name, ttl_seconds=20, owner=self._chance.choice(work.owners),
                metadata=self._metadata(work),
            )  # fmt: skip
            (outcome,) = run(acquire([asked]))
            if outcome.verdict == Verdict.ACQUIRED and outcome.lease_id is not None:
                self._leases[work.name] = outcome.lease_id
        elif self._chance.random() < 0.06:
            # Its worker died: the lease runs out.
            del self._leases[work.name]
        elif self._chance.random() < 0.75:
            (renewed,) = run(renew([requests.Renew(digest=digest, name=work.name, lease_id=lease)]))
            if renewed.verdict != Verdict.RENEWED:
                del self._leases[work.name]
        else:
            run(release([requests.Release(digest=digest, name=work.name, lease_id=lease)]))
            del self._leases[work.name]

    def _issue(self, name: str) -> Token:
        plaintext, token = tokens.issue(actor=Actor.of_shell(), space=self._space, name=name, scopes=PRESETS["worker"])
        presented = parse(plaintext)
        assert presented is not None
        self._digests[name] = presented.digest.hex()
        return token

    def _past(self, work: Work, token: Token, *, begin: datetime, until: datetime, is_held: bool) -> list[Event]:
        events = []
        at = begin + timedelta(seconds=self._chance.uniform(0, work.pause_seconds))
        while True:
            held = timedelta(seconds=work.usual_seconds * self._chance.lognormvariate(0, 0.5))
            if at + held > until:
                break
            owner = self._chance.choice(work.owners)
            common = self._common(work, token, owner=owner, fencing_token=int(at.timestamp() * 1000))
            events.append(Event(at=at, kind="acquired", actor_kind="token", actor_name=token.name, channel="api",
                                actor_id=token.pk, **common))  # fmt: skip
            events.append(self._ending(work, token, at=at, held=held, common=common))
            at += held + timedelta(seconds=work.pause_seconds * self._chance.uniform(0.3, 1.7) * self._calm(work, at))
        if is_held:
            common = self._common(work, token, owner=work.owners[0], fencing_token=int(until.timestamp() * 1000))
            events.append(Event(at=until, kind="acquired", actor_kind="token", actor_name=token.name, channel="api",
                                actor_id=token.pk, **common))  # fmt: skip
        return events

    @staticmethod
    def _calm(work: Work, at: datetime) -> float:
        """How much longer than by day the pauses are."""
        return 4.0 if work.fleet in BY_DAY and (at.hour not in WORKDAY or at.weekday() > 4) else 1.0

    def _ending(self, work: Work, token: Token, *, at: datetime, held: timedelta, common: dict[str, Any]) -> Event:
        held_ms = int(held.total_seconds() * 1000)
        end = at + held
        luck = self._chance.random()
        if luck < work.fails / 3:
            return Event(at=end, kind="force_released", actor_kind="user", actor_name="olga", channel="web",
                         reason=self._chance.choice(REASONS), held_ms=held_ms, **common)  # fmt: skip
        if luck < work.fails:
            overdue = timedelta(milliseconds=self._chance.uniform(80, 900))
            return Event(at=end + overdue, kind="expired", actor_kind="system", actor_name="expiry", channel="task",
                         held_ms=held_ms, recorded_late_ms=int(overdue.total_seconds() * 1000), **common)  # fmt: skip
        return Event(at=end, kind="released", actor_kind="token", actor_name=token.name, channel="api",
                     actor_id=token.pk, held_ms=held_ms, **common)  # fmt: skip

    def _common(self, work: Work, token: Token, *, owner: str, fencing_token: int) -> dict[str, Any]:
        return {
            "team_id": self._space.team_id, "space_id": self._space.pk, "lock_name": work.name, "owner": owner,
            "metadata": self._metadata(work), "token_id": token.pk, "fencing_token": fencing_token,
            "holder_id": self._holder_ids[token.pk],
        }  # fmt: skip

    def _metadata(self, work: Work) -> str:
        return work.metadata.format(n=self._chance.randint(1_200, 1_990))

    def _stand(self, now: datetime, issued: dict[str, Token], *, curtain: datetime) -> None:
        """`now` is where the history ends; it took a while to write, and the heartbeats are as old as the cast says
        when the curtain opens."""
        by_name = {work.name: work for work in WORK}
        for standing in STANDING:
            work = by_name[standing.name]
            token = issued[work.fleet]
            acquired = now - timedelta(seconds=standing.held)
            renewed = curtain - timedelta(seconds=standing.silent)
            lease = uuid.uuid4()
            if standing.silent < work.ttl_seconds / 2:
                self._kept[work.name] = (work.fleet, lease)
            expires = renewed + timedelta(seconds=work.ttl_seconds)
            Lock.objects.create(
                space=self._space, name=work.name, fencing_token=int(acquired.timestamp() * 1000),
                lease_id=lease, holder_id=self._holder_ids[token.pk], token=token,
                owner=work.owners[0], metadata=self._metadata(work), ttl_seconds=work.ttl_seconds,
                acquired_at=acquired, renewed_at=renewed, expires_at=expires,
                renewals=max(1, standing.held * 2 // work.ttl_seconds), next_sweep_at=expires,
            )  # fmt: skip
            self._line.stand(work.name, token=token, owners=standing.waiters, now=curtain)
        Lock.objects.create(
            space=self._space, name="path:migrations", fencing_token=int(now.timestamp() * 1000) - 90_000,
            available_at=curtain + timedelta(seconds=55),
        )  # fmt: skip


def _clock() -> datetime:
    """The database's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
