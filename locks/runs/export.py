"""The export of a run: one snapshot of its layers, actors, entries, leases and waiters, as JSON.

A superset of Pitboss' shared-store.json. Lease ids are never in it.
"""

import base64
import tempfile
import weakref
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

import msgspec
from django.db import connection, transaction
from django.http import FileResponse

from locks.events.history.export import under_way
from locks.models import KvEntry, Run, RunDump
from locks.runs import queries
from locks.services import clock

# Kept in memory up to this size, then in a file.
MAX_IN_MEMORY = 4 * 1024 * 1024
# Compressed. A run with more keeps no dump; its stores can be exported until they are purged.
MAX_DUMP_BYTES = 64 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


class Writable(Protocol):
    def write(self, data: bytes, /) -> object: ...


@contextmanager
def one_snapshot() -> Iterator[None]:
    """All queries in it see the same moment. Within a transaction it is that of the transaction, as far as it goes."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


class _ExportFile(tempfile.SpooledTemporaryFile[bytes]):
    """The export is under way until the file is closed, or dropped: a client that reads slowly keeps it on the disk."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__(max_size=MAX_IN_MEMORY)
        self._end = weakref.finalize(self, end)

    def close(self) -> None:
        super().close()
        self._end()


def export_response(run_id: UUID, *, team_id: int, actor: Hashable) -> FileResponse:
    """Of a finished run that keeps its dump, that one. Raises TooManyExports."""
    # Closed by the response.
    out = _ExportFile(under_way.take(team_id=team_id, actor=actor))
    with one_snapshot():
        run = Run.objects.get(pk=run_id)
        kept = RunDump.objects.filter(run=run).first()
        if kept is not None:
            _decompress(bytes(kept.content), out)
        else:
            write_export(run, out)
    out.seek(0)
    response = FileResponse(out, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="run-{run_id}.json"'
    response["Cache-Control"] = "no-store"
    return response


def compressed_export(run: Run) -> bytes | None:
    """None if it is larger than a dump may be. Never the whole export in memory."""
    out = _Compressed()
    write_export(run, out)
    return out.finished()


class _Compressed:
    def __init__(self) -> None:
        self._compressor = zlib.compressobj()
        self._content = bytearray()

    def write(self, data: bytes) -> None:
        if len(self._content) <= MAX_DUMP_BYTES:
            self._content += self._compressor.compress(data)

    def finished(self) -> bytes | None:
        self._content += self._compressor.flush()
        return bytes(self._content) if len(self._content) <= MAX_DUMP_BYTES else None


def _decompress(content: bytes, out: Writable) -> None:
    decompressor = zlib.decompressobj()
    while content:
        out.write(decompressor.decompress(content, MAX_IN_MEMORY))
        content = decompressor.unconsumed_tail
    out.write(decompressor.flush())


def write_export(run: Run, out: Writable) -> None:
    """An entry at a time: a run can have many layers of 64 MiB each."""
    nodes = queries.layers(run.pk)
    names = {node.layer.pk: node.layer.name for node in nodes}
    head = {
        "finalized_at": run.finished_at or clock.now(),
        "run": {
            "run_id": run.pk, "name": run.name, "metadata": run.metadata, "state": run.state,
            "created_at": run.created_at, "finished_at": run.finished_at, "finish_reason": run.finish_reason,
        },
        "layers": [_layer(node) for node in nodes],
        "actors": [_actor(actor) for node in nodes for actor in node.actors],
        "leases": [_lease(lease) for lease in queries.leases(run.pk)],
        "waiters": [_waiter(waiter) for waiter in queries.waiters(run.pk)],
    }  # fmt: skip
    out.write(_encode(head)[:-1] + b',"entries":[')
    entries = KvEntry.objects.present().filter(layer_id__in=list(names)).order_by("layer_id", "path")
    for index, entry in enumerate(entries.iterator(chunk_size=50)):
        out.write(b"," if index else b"")
        out.write(_encode(_entry(entry, names[entry.layer_id])))
    out.write(b"]}")


def _layer(node: queries.LayerNode) -> dict[str, Any]:
    layer = node.layer
    return {
        "layer_id": layer.pk, "parent_id": layer.parent_id, "name": layer.name, "depth": layer.depth,
        "read_down": layer.read_down, "keys": layer.kv_keys, "bytes": layer.kv_bytes,
    }  # fmt: skip


def _actor(actor: queries.ActorRow) -> dict[str, Any]:
    return {
        "actor_id": actor.name, "role": actor.role, "layer_id": actor.layer_id, "joined_at": actor.created_at,
        "ended_at": actor.ended_at, "end_reason": actor.end_reason, "last_heartbeat_at": actor.last_keepalive_at,
    }  # fmt: skip


def _lease(lease: queries.LeaseRow) -> dict[str, Any]:
    return {
        "name": lease.short_name, "lease_id": None, "holder": lease.holder, "layer_id": lease.layer_id,
        "fencing_token": lease.fencing_token, "owner": lease.owner, "metadata": lease.metadata,
        "acquired_at": lease.acquired_at, "expires_at": lease.expires_at,
    }  # fmt: skip


def _waiter(waiter: queries.WaiterRow) -> dict[str, Any]:
    return {
        "name": waiter.short_name, "actor_id": waiter.actor, "layer_id": waiter.layer_id,
        "since": waiter.enqueued_at,
    }  # fmt: skip


def _entry(entry: KvEntry, layer: str) -> dict[str, Any]:
    return {
        "layer_id": entry.layer_id, "layer": layer, "path": entry.path, "version": entry.version,
        "written_by": entry.written_by, "written_at": entry.written_at, "encoding": entry.encoding,
        "size": entry.size, "value_b64": base64.b64encode(bytes(entry.value)).decode(),
    }  # fmt: skip
