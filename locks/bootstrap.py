"""The first contents of a new installation: an admin, a demo team with a space, and a worker token."""

import secrets
from dataclasses import dataclass, field

from django.db import transaction

from locks.models import Membership, Role, Space, Team, User
from locks.models.token import PRESETS
from locks.services import tokens
from locks.services.audit import Actor


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Shown once; only digests are stored."""

    username: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    space: str


@transaction.atomic
def create_initial_data() -> Credentials | None:
    """None if there are users already."""
    if User.objects.exists():
        return None
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser("admin", password=password)
    team = Team.objects.create(slug="demo", name="Demo")
    Membership.objects.create(team=team, user=admin, role=Role.ADMIN)
    space = Space.objects.create(team=team, slug="main", name="Main")
    plaintext, _token = tokens.issue(
        actor=Actor.of_shell(), space=space, name="first-worker", scopes=PRESETS["worker"], created_by=admin
    )
    return Credentials(username="admin", password=password, token=plaintext, space=str(space))
