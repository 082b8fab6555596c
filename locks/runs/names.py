"""Lock names of a run: `layer:next-chunk` and `run:deploy`, and the names under which they are stored.

The stored name carries the id: `layer:<layer_id>/next-chunk`, `run:<run_id>/deploy`. An actor only ever uses the short
form; every other token and the pages see the stored name.
"""

import re
from uuid import UUID

from locks.runs.identities import Identity

LAYER, RUN = "layer:", "run:"
PREFIXES = (LAYER, RUN)
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_STORED = re.compile(rf"(layer|run):({_ID})/(.+)", re.DOTALL)


def layer_prefix(layer_id: UUID) -> str:
    return f"{LAYER}{layer_id}/"


def run_prefix(run_id: UUID) -> str:
    return f"{RUN}{run_id}/"


def is_run_name(name: str) -> bool:
    return name.startswith(PREFIXES)


def own_prefixes(actor: Identity) -> dict[str, str]:
    """The short forms, and the stored prefixes that they stand for."""
    return {LAYER: layer_prefix(actor.layer_id), RUN: run_prefix(actor.run_id)}


def to_stored(actor: Identity, name: str) -> str:
    """Also of a prefix of names."""
    for short, stored in own_prefixes(actor).items():
        if name.startswith(short):
            return stored + name[len(short) :]
    return name


def to_short(actor: Identity, name: str) -> str:
    for short, stored in own_prefixes(actor).items():
        if name.startswith(stored):
            return short + name[len(stored) :]
    return name


def split_stored(name: str) -> tuple[str, UUID, str] | None:
    """`layer` or `run`, its id and the short name; None for every other name."""
    match = _STORED.fullmatch(name)
    return (match[1], UUID(match[2]), f"{match[1]}:{match[3]}") if match else None
