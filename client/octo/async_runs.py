"""Runs, their actors and their key-value store, of the asynchronous client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from octo import errors, models, operations
from octo.async_leases import AsyncSession
from octo.models import DEFAULT_SESSION_TTL, Entry, EntryInfo, RunInfo
from octo.protocol import Request, with_query

if TYPE_CHECKING:
    from typing_extensions import Self

    from octo.async_client import AsyncClient


class AsyncStore:
    """The entries of a layer, below /ref, /peer/<actor>, /peer/self and /shared. Only with the token of an actor."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, *, layer: str | None = None) -> Entry:
        """Raises NotFound if there is none. `layer`: the id of a layer below, which lets its parent's lead read."""
        request = Request("GET", with_query(operations.entry_path(path), {"layer": layer}))
        return await self._client.call(request, operations.parse_entry)

    async def set(
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
        return int((await self._client.call(request, operations.parse_written))["version"])

    async def cas(
        self, path: str, value: Any, expected_version: int, *, encoding: models.Encoding | None = None
    ) -> int:
        """Writes only if the entry is at this version, 0 if it must not exist; otherwise VersionMismatch is raised.
        After a TransportError the value may have been written: read it again."""
        return await self.set(path, value, encoding=encoding, expected_version=expected_version)

    async def wait(
        self, path: str, *, min_version: int = 1, timeout: float | None = None, layer: str | None = None
    ) -> Entry | None:
        """The entry as soon as it is at `min_version` or later; None after `timeout` seconds. Raises SessionExpired
        when the actor or its run ends."""
        operation = operations.wait_for_entry(
            path, min_version=min_version, timeout=timeout, layer=layer, retry_for=self._client.retry_for
        )
        return await self._client.execute(operation, "kv wait")

    async def delete(self, path: str, *, expected_version: int | None = None, override: bool = False) -> None:
        query = {"expected_version": expected_version, "override": "true" if override else None}
        request = Request("DELETE", with_query(operations.entry_path(path), query))
        await self._client.execute(operations.end(request, retry_for=self._client.retry_for), "kv delete")

    async def list(self, glob: str = "/**", *, layer: str | None = None) -> AsyncIterator[EntryInfo]:
        """What the caller may read, by path, without values. `*` and `?` match within a segment, `**` across."""
        async for entry in self._client.pages("/kv", {"glob": glob, "layer": layer}, "entries"):
            yield models.parse(EntryInfo, entry)


class AsyncActor(AsyncSession):
    """A worker or lead of a run, with a token and a session of its own. As a context it is kept alive in the background
    and leaves at the end. `lock("layer:…")` is a lock of its layer, `lock("run:…")` of the run."""

    def __init__(self, *, client: AsyncClient, path: str, body: Mapping[str, Any], ttl: int) -> None:
        super().__init__(client=client, ttl=ttl, owner=None, metadata=None)
        self._parent = client
        self._path = path
        self._fields = body
        self.run_id = self.layer_id = self.actor_id = self.role = self.token = ""

    async def open(self) -> Self:
        body = {field: value for field, value in self._fields.items() if value is not None}
        # Repeated, it would find the name taken.
        request = Request("POST", self._path, body, idempotent=False)
        reply = await self._parent.send(request, operations.parse_joined, "join run")
        for field in ("run_id", "layer_id", "actor_id", "role", "token"):
            setattr(self, field, reply.value[field])
        self._client = self._parent.with_token(self.token)
        self.opened(reply.value, sent_at=reply.sent_at)
        return self

    @property
    def kv(self) -> AsyncStore:
        return AsyncStore(self._client)

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
    ) -> AsyncActor:
        """The lead of a new layer below this one. `read_down` lets this layer's lead read its entries."""
        body = {"lead": lead, "name": name, "initial_ref": initial_ref, "read_down": read_down}
        path = f"/runs/{self.run_id}/layers"
        return AsyncActor(client=self._client, path=path, body={**body, "session_ttl_seconds": ttl}, ttl=ttl)

    def actor(self, actor_id: str, *, ttl: int = DEFAULT_SESSION_TTL) -> AsyncActor:
        """A worker in this layer."""
        body = {"actor_id": actor_id, "ttl_seconds": ttl}
        return AsyncActor(client=self._client, path=f"/runs/{self.run_id}/actors", body=body, ttl=ttl)

    async def close(self) -> None:
        """Leaves the run: its leases are free at once, and its token is revoked."""
        try:
            await super().close()
        finally:
            if self._client is not self._parent:
                await self._client.close()

    async def _end_session(self) -> None:
        request = Request("DELETE", f"/runs/{self.run_id}/actors/{self.actor_id}")
        await self._client.execute(operations.end(request, retry_for=self._client.retry_for), "leave run")


class AsyncJoinedActor(AsyncActor):
    """An actor that another process has added, and that this client's token belongs to."""

    def __init__(self, *, client: AsyncClient, environment: Mapping[str, str]) -> None:
        ttl = int(environment.get("OCTO_SESSION_TTL") or DEFAULT_SESSION_TTL)
        super().__init__(client=client, path="", body={}, ttl=ttl)
        try:
            self.run_id, self.layer_id = environment["OCTO_RUN_ID"], environment["OCTO_LAYER_ID"]
            self.actor_id, self._joined_session = environment["OCTO_ACTOR_ID"], environment["OCTO_SESSION_ID"]
        except KeyError as missing:
            raise errors.ConfigurationError(
                f"{missing.args[0]} is not set: start this process with the actor's `environment`."
            ) from None

    async def open(self) -> Self:
        request = Request("POST", f"/sessions/{self._joined_session}/keepalive", {})
        reply = await self._client.send(request, operations.parse_session, "join run")
        self.token = self._client.settings.token
        self.opened(reply.value, sent_at=reply.sent_at)
        return self


class AsyncRun(AsyncActor):
    """A run, and the lead of its root layer. As a context it finishes at the end."""

    _reason: str | None = None

    async def inspect(self) -> RunInfo:
        return await self._parent.inspect_run(self.run_id)

    async def drain(self) -> RunInfo:
        """From now on there are no new actors, layers and leases."""
        return await self._parent.drain_run(self.run_id)

    async def export(self) -> dict[str, Any]:
        return await self._parent.export_run(self.run_id)

    async def _end_session(self) -> None:
        await self._parent.finish_run(self.run_id, reason=self._reason)

    async def __aexit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._reason = f"ended by {kind.__name__}" if kind else None
        await super().__aexit__(kind, *raised)


def joined_actor(client: AsyncClient) -> AsyncJoinedActor:
    return AsyncJoinedActor(client=client, environment=os.environ)
