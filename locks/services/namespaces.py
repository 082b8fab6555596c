"""The namespaces and the lock policy of a space: changes, and which leases overlap."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from locks.engine.drain import wait_for_statements
from locks.engine.names import NAMESPACE, InvalidPath, canonical_name, validate
from locks.models import Space, User
from locks.models.space import NamespaceRule
from locks.services import clock, spaces
from locks.services.audit import Actor
from locks.services.sql_files import SqlFiles

MAX_NAMESPACES = 20
MAX_LISTED = 100
# Only tokens of runs use these.
RESERVED = ("layer:", "run:")

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


class InvalidNamespace(ValueError):
    """The message says what is wrong, as a sentence."""


def check_namespaces(namespaces: Mapping[str, str]) -> None:
    """Raises InvalidNamespace."""
    if len(namespaces) > MAX_NAMESPACES:
        raise InvalidNamespace(f"A space has at most {MAX_NAMESPACES} namespaces.")
    for namespace, rule in namespaces.items():
        if not re.fullmatch(NAMESPACE, namespace):
            raise InvalidNamespace(
                f"'{namespace}' is no namespace: lowercase letters, digits, '-' and '_', at most 31, and a colon."
            )
        if namespace in RESERVED:
            raise InvalidNamespace(f"'{namespace}' is reserved for runs.")
        if rule not in NamespaceRule.values:
            raise InvalidNamespace(f"The rule of '{namespace}' must be one of: {', '.join(NamespaceRule.values)}.")


def change(*, actor: Actor, by: User | None, space: Space, namespaces: Mapping[str, str], lock_policy: str) -> bool:
    """Applies from the next request on. False if nothing has changed. Raises InvalidNamespace."""
    check_namespaces(namespaces)
    changes = {"namespaces": dict(sorted(namespaces.items())), "lock_policy": lock_policy}
    if not spaces.change(actor=actor, by=by, space=space, changes=changes):
        return False
    # Those that began before do not know the new rules; afterwards all leases that overlap can be listed.
    wait_for_statements(clock.now())
    return True


def overlapping_leases(*, space: Space, namespaces: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of names that are held although they overlap: held since before the namespaces were changed."""
    parameters = {"space_id": space.pk, "namespaces": json.dumps(dict(namespaces)), "limit": MAX_LISTED}
    return [(row["name"], row["other_name"]) for row in _fetch("overlapping_leases", dict[str, str], parameters)]


def leases_overlapping(*, space: Space, namespaces: Mapping[str, str], name: str) -> tuple[str, list[str]]:
    """The canonical name, and the held names that it overlaps with. Raises InvalidNamespace."""
    try:
        canonical = canonical_name(name, lambda: namespaces)
    except InvalidPath as error:
        raise InvalidNamespace(str(error)) from None
    if problem := validate(canonical):
        raise InvalidNamespace(problem)
    parameters = {
        "space_id": space.pk, "namespaces": json.dumps(dict(namespaces)), "name": canonical, "limit": MAX_LISTED,
    }  # fmt: skip
    return canonical, [row["name"] for row in _fetch("leases_overlapping_name", dict[str, str], parameters)]
