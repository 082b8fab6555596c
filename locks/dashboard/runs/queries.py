"""The store of a layer as the page of a run shows it."""

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from locks.dashboard.filters import Filters
from locks.models import KvEncoding, KvEntry
from locks.runs.queries import LayerNode

ENTRIES = 100
# Longer values are cut; the export has all of them.
MAX_SHOWN = 20_000
BYTES_PER_LINE = 16


@dataclass(frozen=True, kw_only=True)
class RunsFilters(Filters):
    CHOICES = {"state": ("unfinished", "active", "draining", "finished")}
    NARROWING = ("state",)

    state: str = ""


@dataclass(frozen=True, kw_only=True)
class StoreFilters(Filters):
    """`layer` is the id of the layer whose store is shown, `path` the entry whose value is shown, `after` the path to
    continue after."""

    layer: str = ""
    path: str = ""
    after: str = ""
    search: str = ""

    def node(self, nodes: list[LayerNode]) -> LayerNode | None:
        """The chosen layer, or the first."""
        return next((node for node in nodes if str(node.layer.pk) == self.layer), nodes[0] if nodes else None)


@dataclass(frozen=True, kw_only=True)
class StoreEntry:
    path: str
    version: int
    encoding: str
    size: int
    written_by: str
    written_at: datetime
    # Under /peer, and the user may not see such values.
    is_hidden: bool


@dataclass(frozen=True, kw_only=True)
class Store:
    entries: list[StoreEntry]
    next_path: str | None
    opened: StoreEntry | None
    text: str
    is_cut: bool


def store(layer_id: UUID, filters: StoreFilters, *, shows_peer: bool) -> Store:
    present = KvEntry.objects.present().filter(layer_id=layer_id)
    found = present.filter(path__gt=filters.after).order_by("path")
    if filters.search:
        found = found.filter(path__contains=filters.search)
    rows = [_entry(row, shows_peer=shows_peer) for row in found.defer("value")[: ENTRIES + 1]]
    opened = present.filter(path=filters.path).first() if filters.path else None
    shown = _entry(opened, shows_peer=shows_peer) if opened else None
    text = ""
    if opened is not None and shown is not None and not shown.is_hidden:
        text = show_value(bytes(opened.value), opened.encoding)
    return Store(
        entries=rows[:ENTRIES],
        next_path=rows[ENTRIES - 1].path if len(rows) > ENTRIES else None,
        opened=shown,
        text=text[:MAX_SHOWN],
        is_cut=len(text) > MAX_SHOWN,
    )


def _entry(row: KvEntry, *, shows_peer: bool) -> StoreEntry:
    return StoreEntry(
        path=row.path,
        version=row.version,
        encoding=row.encoding,
        size=row.size,
        written_by=row.written_by,
        written_at=row.written_at,
        is_hidden=not shows_peer and row.path.startswith("/peer/"),
    )


def show_value(value: bytes, encoding: str) -> str:
    """JSON indented, text as it is, everything else as hexadecimal digits."""
    if encoding == KvEncoding.BASE64:
        return hex_dump(value[:MAX_SHOWN])
    text = value.decode(errors="replace")
    if encoding == KvEncoding.JSON and len(text) <= MAX_SHOWN:
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text


def hex_dump(value: bytes) -> str:
    lines = []
    for start in range(0, len(value), BYTES_PER_LINE):
        part = value[start : start + BYTES_PER_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * BYTES_PER_LINE - 1}}  {letters}")
    return "\n".join(lines)
