"""The type of all operations (a generator that yields statements and is sent their rows) and the limit of rounds."""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from locks.engine.statements import Statement

# A request is retried if it met another at a new name or at the end of a queue; each round decides at least one of
# those. More rounds than this are a defect.
MAX_ROUNDS = 100

Result = TypeVar("Result")
Operation: TypeAlias = Generator[tuple[Statement[Any], list[Any]], list[Any], Result]

_encoder = msgspec.json.Encoder()


class RetriesExhausted(Exception):
    """Nothing was changed for the requests that are left."""


def encode(parameter: Any) -> str:
    return _encoder.encode(parameter).decode()
