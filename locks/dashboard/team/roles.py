"""What each role may do, as the pages describe it."""

from locks.models import Role

ROLE_DESCRIPTIONS: dict[Role, str] = {
    Role.VIEWER: "sees locks, owners, history and the names of tokens",
    Role.OPERATOR: "also force-releases, reserves and freezes locks and writes notes",
    Role.ADMIN: "also manages members, tokens, spaces and their limits",
}
assert set(ROLE_DESCRIPTIONS) == set(Role)
