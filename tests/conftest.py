"""Fixtures for every test: databases, teams and users.

Alice is an admin of team Blue, Olga an operator, Victor a viewer; Bob is an admin of team Red and
sees nothing of Blue; Root is a superuser.
"""

import asyncio
import gc
import itertools
import random
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings
from hypothesis import settings as hypothesis_settings
from psycopg.pq import TransactionStatus

from locks.models import Membership, Role, Space, Team, User
from locks.models.token import PRESETS
from locks.services import tokens
from locks.services.audit import Actor
from locks.system_state.db_health import drop_dead_connection
from tests import database
from tests.servers import RunningServer, SharedServers

hypothesis_settings.register_profile("octoadmin", deadline=None, print_blob=True)
hypothesis_settings.load_profile("octoadmin")

PASSWORD = "correct horse battery staple"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Tests that share a server run in one process, as one group; those that share a browser in two, as they would take
    too long one after the other."""
    scopes = {item: {each[-1].scope for each in item._fixtureinfo.name2fixturedefs.values()} for item in items}  # type: ignore[attr-defined]
    ungrouped = [item for item in items if not item.get_closest_marker("xdist_group")]
    halves = dict(zip(sorted({item.path for item in ungrouped if "package" in scopes[item]}), itertools.cycle("ab")))
    for item in ungrouped:
        if scopes[item] & {"module", "package"}:
            half = halves.get(item.path)
            group = f"{item.path.parent.name}-{half}" if half else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))
    yield
    if hasattr(config, "workerinput"):
        items[:] = _mixed(items, random.Random(config.getoption("randomly_seed", 0)))


def _mixed(items: list[pytest.Item], rng: random.Random) -> list[pytest.Item]:
    """In an order that keeps the cores busy, but not overloaded, until the end. Groups, and tests with a timeout of
    their own, take long: the largest is the first, and they are spread over most of the run. The others are mixed
    beyond their modules, many of which only wait for a clock. In a group, modules stay together: each sets up its
    fixtures once."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = item.get_closest_marker("xdist_group")
        units.setdefault(group.args[0] if group else item.nodeid, []).append(item)
    long, short = [], []
    for unit in units.values():
        unit.sort(key=lambda item: item.path)
        (long if any(map(unit[0].get_closest_marker, ("timeout", "xdist_group"))) else short).append(unit)
    long.sort(key=len, reverse=True)
    rng.shuffle(short)
    placed = [(index / len(long) * 5 / 6, unit) for index, unit in enumerate(long)]
    placed += [(index / len(short), unit) for index, unit in enumerate(short)]
    return [item for _place, unit in sorted(placed, key=itemgetter(0)) for item in unit]


def pytest_collection_finish() -> None:
    """The garbage collector leaves out the modules and tests: they stay, and each full collection would go through
    them."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before a fixture begins a transaction. A browser test may leave a connection to a cleaned database, because an
    event loop runs in its thread."""
    drop_dead_connection()


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """The plugin tests.database has created the database of this worker."""


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[SharedServers]:
    shared = SharedServers()
    yield shared
    shared.kill()


def _backend_of_tests() -> int:
    """Of Django's connection, which stays for the next test: a new one would have to plan each statement again. 0 if
    there is none, or it cannot stay."""
    drop_dead_connection()
    raw = connection.connection
    # While an event loop runs in this thread, the connection is another one, which later loops would find again.
    has_loop = asyncio._get_running_loop() is not None
    if has_loop or raw is None or not raw.autocommit or raw.info.transaction_status != TransactionStatus.IDLE:
        connection.close()
        return 0
    raw.execute("RESET ALL")
    return raw.info.backend_pid


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: Any, shared_servers: SharedServers) -> Iterator[None]:
    """For tests whose threads and processes must see each other's commits: no wrapping transaction; the database is
    cleaned afterwards."""
    with django_db_blocker.unblock():
        yield
        is_clean = database.clean(connection.settings_dict["NAME"], kept=_backend_of_tests())
        if not is_clean:
            connection.close()
            # They may remember rows whose ids are given out again.
            shared_servers.kill()


@pytest.fixture(autouse=True, scope="session")
def _fast_settings() -> Iterator[None]:
    """Cheap password hashes; and without autorefresh the handler of each test client would scan all static files."""
    hashers = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with override_settings(PASSWORD_HASHERS=hashers, WHITENOISE_AUTOREFRESH=True):
        yield


def _create_user(name: str, *, team: Team | None = None, role: Role | None = None, superuser: bool = False) -> User:
    create = User.objects.create_superuser if superuser else User.objects.create_user
    user = create(name, f"{name}@example.com", PASSWORD)
    if team is not None and role is not None:
        Membership.objects.create(team=team, user=user, role=role)
    return user


def session_cookie(user: User) -> str:
    """Of a new session, for clients that are not Django's."""
    visitor = Client()
    visitor.force_login(user)
    return visitor.cookies["sessionid"].value


@pytest.fixture
def blue() -> Team:
    return Team.objects.create(slug="blue", name="Blue")


@pytest.fixture
def red() -> Team:
    return Team.objects.create(slug="red", name="Red")


@pytest.fixture
def alice(blue: Team) -> User:
    return _create_user("alice", team=blue, role=Role.ADMIN)


@pytest.fixture
def olga(blue: Team) -> User:
    return _create_user("olga", team=blue, role=Role.OPERATOR)


@pytest.fixture
def victor(blue: Team) -> User:
    return _create_user("victor", team=blue, role=Role.VIEWER)


@pytest.fixture
def bob(red: Team) -> User:
    return _create_user("bob", team=red, role=Role.ADMIN)


@pytest.fixture
def root() -> User:
    return _create_user("root", superuser=True)


@pytest.fixture
def space(blue: Team) -> Space:
    """The space of team Blue."""
    return Space.objects.create(team=blue, slug="main", name="Main")


@pytest.fixture
def red_space(red: Team) -> Space:
    return Space.objects.create(team=red, slug="main", name="Main")


def issue(space: Space, name: str, *scopes: str, **options: Any) -> str:
    plaintext, _token = tokens.issue(actor=Actor.of_shell(), space=space, name=name, scopes=scopes, **options)
    return plaintext


@pytest.fixture
def worker_token(space: Space) -> str:
    return issue(space, "worker", *PRESETS["worker"])


@pytest.fixture
def operator_token(space: Space) -> str:
    """With all scopes for locks."""
    return issue(space, "operator", "locks:read", "locks:write", "locks:force", "audit:read")


@pytest.fixture
def server(committed: None, shared_servers: SharedServers) -> Iterator[RunningServer]:
    """A real server process on the database of the test."""
    with shared_servers.used() as running:
        yield running
