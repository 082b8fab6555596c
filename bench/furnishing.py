"""What the measurements stand on: databases, a space, a token."""

import psycopg
from psycopg import sql

from locks.models import Space, Team
from locks.services import tokens
from locks.services.audit import Actor
from locks.token_format import parse
from octoadmin.run.postgres import ROLE, SUPERUSER, Cluster


def space_with_token(slug: str) -> tuple[str, str]:
    """The plaintext of the token, and its digest."""
    team = Team.objects.create(slug=slug, name=slug)
    space = Space.objects.create(team=team, slug="main", name="Main", max_live_locks=10**9)
    plaintext, _token = tokens.issue(
        actor=Actor.of_shell(), space=space, name="bench", scopes=["locks:read", "locks:write"]
    )
    presented = parse(plaintext)
    assert presented is not None
    return plaintext, presented.digest.hex()


def another_database(cluster: Cluster, name: str, *, template: str = "template1") -> str:
    """Its conninfo."""
    create = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(ROLE), sql.Identifier(template)
    )
    with psycopg.connect(cluster.conninfo(user=SUPERUSER, dbname="postgres"), autocommit=True) as connection:
        connection.execute(create)
    return cluster.conninfo(dbname=name)
