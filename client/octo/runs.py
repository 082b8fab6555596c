# Generated from async_runs.py by client/unasync.py; edit that file instead.
"""Runs, their actors and their key-value store, of the blocking client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from octo import errors, models, operations
from octo.leases import Session
from octo.models import DEFAULT_SESSION_TTL, Entry, EntryInfo, RunInfo
from octo.protocol import Request, with_query

if TYPE_CHECKING:
    from typing_extensions import Self

    from octo.client import Client


class Store:
    """The entries of a layer, below /ref, /peer/<actor>, /peer/self and /shared. Only with the token of an actor."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str, *, layer: str | None = None) -> Entry:
        """Raises NotFound if there is none. `layer`: the id of a layer below, which lets its parent's lead read."""
        request = Request("GET", with_query(operations.entry_path(path), {"layer": layer}))
        return self._client.call(request, operations.parse_entry)

    def set(
        self,
        path: str,
        value: Any,
        *,
        encoding: models.Encoding | None = None,
        override: bool = False,
        expected_version: int | None = None,
    ) -> int:
        """Any JSON, or bytes; with `encoding="text"` a plain text. Returns the version. `override` lets the lead of the
        layer write below /peer of another actor."""
        body = models.entry_body(value, encoding)
        if expected_version is not None:
            body["expected_version"] = expected_version
        address = with_query(operations.entry_path(path), {"override": "true" if override else None})
        # Repeated, a compare-and-swap that was carried out would be refused.
        request = Request("PUT", address, body, idempotent=expected_version is None)
        return int((self._client.call(request, operations.parse_written))["version"])

    def cas(
        self, path: str, value: Any, expected_version: int, *, encoding: models.Encoding | None = None
    ) -> int:
        """Writes only if the entry is at this version, 0 if it must not exist; otherwise VersionMismatch is raised.
        After a TransportError the value may have been written: read it again."""
        return self.set(path, value, encoding=encoding, expected_version=expected_version)

    def wait(
        self, path: str, *, min_version: int = 1, timeout: float | None = None, layer: str | None = None
    ) -> Entry | None:
        """The entry as soon as it is at `min_version` or later; None after `timeout` seconds. Raises SessionExpired
        when the actor or its run ends."""
        operation = operations.wait_for_entry(
            path, min_version=min_version, timeout=timeout, layer=layer, retry_for=self._client.retry_for
        )
        return self._client.execute(operation, "kv wait")

    def delete(self, path: str, *, expected_version: int | None = None, override: bool = False) -> None:
        query = {"expected_version": expected_version, "override": "true" if override else None}
        request = Request("DELETE", with_query(operations.entry_path(path), query))
        self._client.execute(operations.end(request, retry_for=self._client.retry_for), "kv delete")

    def list(self, glob: str = "/**", *, layer: str | None = None) -> Iterator[EntryInfo]:
        """What the caller may read, by path, without values. `*` and `?` match within a segment, `**` across."""
        for entry in self._client.pages("/kv", {"glob": glob, "layer": layer}, "entries"):
            yield models.parse(EntryInfo, entry)


class Actor(Session):
    """A worker or lead of a run, with a token and a session of its own. As a context it is kept alive in the background
    and leaves at the end. `lock("layer:…")` is a lock of its layer, `lock("run:…")` of the run."""

    def __init__(self, *, client: Client, path: str, body: Mapping[str, Any], ttl: int) -> None:
        super().__init__(client=client, ttl=ttl, owner=None, metadata=None)
        self._parent = client
        self._path = path
        self._fields = body
        self.run_id = self.layer_id = self.actor_id = self.role = self.token = ""

    def open(self) -> Self:
        body = {field: value for field, value in self._fields.items() if value is not None}
        # Repeated, it would find the name taken.
        request = Request("POST", self._path, body, idempotent=False)
        reply = self._parent.send(request, operations.parse_joined, "join run")
        for field in ("run_id", "layer_id", "actor_id", "role", "token"):
            setattr(self, field, reply.value[field])
        self._client = self._parent.with_token(self.token)
        self.opened(reply.value, sent_at=reply.sent_at)
        return self

    @property
    def kv(self) -> Store:
        return Store(self._client)

    @property
    def environment(self) -> dict[str, str]:
        """For another process to work as this actor: there, `client.join_run()` finds it."""
        return {
            "OCTO_URL": self._client.settings.url,
            "OCTO_TOKEN": self.token,
            "OCTO_RUN_ID": self.run_id,
            "OCTO_LAYER_ID": self.layer_id,
            "OCTO_ACTOR_ID": self.actor_id,
            "OCTO_SESSION_ID": self.session_id,
            "OCTO_SESSION_TTL": str(self.ttl),
        }

    def layer(
        self,
        lead: str,
        *,
        name: str | None = None,
        initial_ref: Mapping[str, Any] | None = None,
        read_down: bool = False,
        ttl: int = DEFAULT_SESSION_TTL,
    ) -> Actor:
        """The lead of a new layer below this one. `read_down` lets this layer's lead read its entries."""
        body = {"lead": lead, "name": name, "initial_ref": initial_ref, "read_down": read_down}
        path = f"/runs/{self.run_id}/layers"
        return Actor(client=self._client, path=path, body={**body, "session_ttl_seconds": ttl}, ttl=ttl)

    def actor(self, actor_id: str, *, ttl: int = DEFAULT_SESSION_TTL) -> Actor:
        """A worker in this layer."""
        body = {"actor_id": actor_id, "ttl_seconds": ttl}
        return Actor(client=self._client, path=f"/runs/{self.run_id}/actors", body=body, ttl=ttl)

    def close(self) -> None:
        """Leaves the run: its leases are free at once, and its token is revoked."""
        try:
            super().close()
        finally:
            if self._client is not self._parent:
                self._client.close()

    def _end_session(self) -> None:
        request = Request("DELETE", f"/runs/{self.run_id}/actors/{self.actor_id}")
        self._client.execute(operations.end(request, retry_for=self._client.retry_for), "leave run")


class JoinedActor(Actor):
    """An actor that another process has added, and that this client's token belongs to."""

    def __init__(self, *, client: Client, environment: Mapping[str, str]) -> None:
        ttl = int(environment.get("OCTO_SESSION_TTL") or DEFAULT_SESSION_TTL)
        super().__init__(client=client, path="", body={}, ttl=ttl)
        try:
            self.run_id, self.layer_id = environment["OCTO_RUN_ID"], environment["OCTO_LAYER_ID"]
            self.actor_id, self._joined_session = environment["OCTO_ACTOR_ID"], environment["OCTO_SESSION_ID"]
        except KeyError as missing:
            raise errors.ConfigurationError(
                f"{missing.args[0]} is not set: start this process with the actor's `environment`."
            ) from None

    def open(self) -> Self:
        request = Request("POST", f"/sessions/{self._joined_session}/keepalive", {})
        reply = self._client.send(request, operations.parse_session, "join run")
        self.token = self._client.settings.token
        self.opened(reply.value, sent_at=reply.sent_at)
        return self


class Run(Actor):
    """A run, and the lead of its root layer. As a context it finishes at the end."""

    _reason: str | None = None

    def inspect(self) -> RunInfo:
        return self._parent.inspect_run(self.run_id)

    def drain(self) -> RunInfo:
        """From now on there are no new actors, layers and leases."""
        return self._parent.drain_run(self.run_id)

    def export(self) -> dict[str, Any]:
        return self._parent.export_run(self.run_id)

    def _end_session(self) -> None:
        self._parent.finish_run(self.run_id, reason=self._reason)

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._reason = f"ended by {kind.__name__}" if kind else None
        super().__exit__(kind, *raised)


def joined_actor(client: Client) -> JoinedActor:
    return JoinedActor(client=client, environment=os.environ)
