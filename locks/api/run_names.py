"""Lock names of a run in requests and responses: an actor uses `layer:` and `run:`, the database the stored names.

A plain name costs a comparison of its beginning. Other tokens see and force-release stored names, and cannot acquire
them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from locks.api.errors import ApiError, Code
from locks.engine.names import MAX_NAME_BYTES
from locks.runs.identities import Identity, find_identity, known_identity
from locks.runs.names import PREFIXES, own_prefixes, to_short, to_stored


def stored_name(name: str, digest: bytes, *, to_acquire: bool = False) -> str:
    """May ask the database. `name` can be a prefix of names too."""
    if not name.startswith(PREFIXES):
        return name
    actor = find_identity(digest)
    if actor is not None:
        return actor_stored_name(actor, name)
    if to_acquire:
        raise ApiError(
            403,
            Code.FORBIDDEN,
            f"Only the token of a run's actor can acquire '{name}': names that start with 'layer:' or 'run:' belong to "
            "a run. Use another name, or the token that the actor got when it joined the run.",
        )
    return name


def actor_stored_name(actor: Identity, name: str) -> str:
    stored = to_stored(actor, name)
    if len(stored.encode()) > MAX_NAME_BYTES:
        longest = MAX_NAME_BYTES - len(stored.encode()) + len(name.encode())
        raise ApiError(400, Code.INVALID_LOCK_NAME, f"A name of a run or layer may have at most {longest} bytes.")
    return stored


def show_names(rows: Iterable[Any], digest: bytes) -> None:
    """Replaces stored names in results by those that the actor uses. To other tokens they are shown as they are."""
    for row in rows:
        if row.name is not None and row.name.startswith(PREFIXES) and (actor := find_identity(digest)) is not None:
            row.name = to_short(actor, row.name)


def show_lock_names(events: Iterable[Any], digest: bytes) -> None:
    """The same for events of the history."""
    for event in events:
        if event.lock_name is not None and event.lock_name.startswith(PREFIXES):
            actor = find_identity(digest)
            event.lock_name = to_short(actor, event.lock_name) if actor else event.lock_name


def names_shown_to(digest: str | None, names: Iterable[str]) -> Callable[[Iterable[Any]], None]:
    """The same for results that come later, on the event loop, which must not ask the database."""
    actor = None
    if digest is not None and any(name.startswith(PREFIXES) for name in names):
        actor = known_identity(bytes.fromhex(digest))

    def show(rows: Iterable[Any]) -> None:
        if actor is not None:
            for row in rows:
                row.name = to_short(actor, row.name)

    return show


def visible_run_names(digest: bytes) -> tuple[str, ...] | None:
    """Of all names of runs and layers, the prefixes of those that an actor sees; None for other tokens."""
    actor = find_identity(digest)
    return tuple(own_prefixes(actor).values()) if actor else None
