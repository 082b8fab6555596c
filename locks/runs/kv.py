"""Operations on the key-value store of a layer, as the engine's are written: generators that yield statements."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from locks.engine.operations import run_batch
from locks.engine.requests import Caller
from locks.engine.retry import Operation, encode
from locks.engine.statements import Statement

# Of one layer. kv_put.sql and kv_delete.sql have the last three as literals; a test compares them.
MAX_VALUE_BYTES = 1024 * 1024
MAX_LAYER_BYTES = 64 * 1024 * 1024
MAX_LAYER_KEYS = 10_000
# How many deleted paths of a layer are kept for their version.
MAX_DELETED_PATHS = 10_000

_DIRECTORY = Path(__file__).parent / "sql"


class KvGet(Caller, kw_only=True):
    """`layer_id` is a child of the caller's layer; null for its own."""

    path: str
    min_version: int = 1
    layer_id: UUID | None = None


class KvPut(Caller, kw_only=True):
    """`value` is sent as base64, whatever the encoding in which it is shown."""

    path: str
    value: bytes
    encoding: str
    size: int
    expected_version: int | None = None


class KvDelete(Caller, kw_only=True):
    path: str
    expected_version: int | None = None


class KvFound(msgspec.Struct):
    """Without an entry of at least `min_version` the verdict is `unknown`; `version` is 0 if there is none at all."""

    index: int
    verdict: str
    name: str
    version: int
    value: bytes | None
    encoding: str | None
    written_by: str | None
    written_at: datetime | None
    layer_id: UUID | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class KvWritten(msgspec.Struct):
    """`version` is the new one or, if the write was refused, the present one; 0 if there is no entry."""

    index: int
    verdict: str
    name: str
    version: int
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class KvListed(msgspec.Struct):
    """One entry of a page. A page without entries is a single row whose name is null."""

    verdict: str
    name: str | None
    version: int
    encoding: str
    size: int
    written_by: str
    written_at: datetime
    now: datetime
    space_id: int | None
    requests_per_second: int | None


def _load(name: str, row: Any, *, prepared: bool = True) -> Statement[Any]:
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared)


GET: Statement[KvFound] = _load("kv_get", KvFound)
PUT: Statement[KvWritten] = _load("kv_put", KvWritten)
DELETE: Statement[KvWritten] = _load("kv_delete", KvWritten)
# Planned with its values, so that the beginning of the path bounds the scan of the index.
LIST: Statement[KvListed] = _load("kv_list", KvListed, prepared=False)
MARK_WAITED: Statement[None] = _load("mark_waited", lambda *_: None)


def get(batch: Sequence[KvGet]) -> Operation[list[KvFound]]:
    return run_batch(GET, batch)


def put(batch: Sequence[KvPut]) -> Operation[list[KvWritten]]:
    return run_batch(PUT, batch)


def delete(request: KvDelete) -> Operation[KvWritten]:
    (row,) = yield DELETE, [encode(request)]
    return row  # type: ignore[no-any-return]  # rows are untyped


def listing(
    *, digest: str, layer_id: UUID | None, prefix: str, pattern: str, after: str, limit: int
) -> Operation[list[KvListed]]:
    return (yield LIST, [digest, layer_id, prefix, pattern, after, limit])


def mark_waited(layer_ids: Sequence[UUID], *, seconds: int) -> Operation[None]:
    yield MARK_WAITED, [list(layer_ids), seconds]
