"""What every operation is made of: a generator that yields statements and is sent their rows."""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from locks.engine.statements import Statement

# RetriesExhausted requests have met others at a new name, or at the end of a line; each round decides at least one of those.
# More rounds than this means that something else is wrong.
MAX_ROUNDS = 100

Answer = TypeVar("Answer")
Operation: TypeAlias = Generator[tuple[Statement[Any], list[Any]], list[Any], Answer]

_encoder = msgspec.json.Encoder()


class RetriesExhausted(Exception):
    """The rounds ran out. Nothing was changed for the requests that are left."""


def encode(asked: Any) -> str:
    return _encoder.encode(asked).decode()
