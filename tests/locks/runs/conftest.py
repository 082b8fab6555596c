"""A run over HTTP, as its actors see it."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from locks.models import Space
from locks.models.token import PRESETS
from tests.conftest import issue
from tests.servers import Response, RunningServer


@dataclass
class RunClient:
    """An actor, or the orchestrator that starts runs: what it was answered when it joined, and calls with its token."""

    server: RunningServer
    token: str
    joined: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._api = self.server.api(self.token)

    @property
    def name(self) -> str:
        return self.joined["actor_id"]

    @property
    def run_id(self) -> str:
        return self.joined["run_id"]

    def call(self, method: str, path: str, body: Any = None) -> Response:
        return self._api.call(method, path, body)

    def ok(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        response = self.call(method, path, body)
        assert response.status == status, (method, path, response.status, response.content)
        return response.json() if response.content else None

    def start(self, **options: Any) -> "RunClient":
        return self._joined(self.ok("POST", "/runs", options, status=201))

    def worker(self, name: str, **options: Any) -> "RunClient":
        return self._joined(self.ok("POST", f"/runs/{self.run_id}/actors", {"actor_id": name, **options}, status=201))

    def sublead(self, lead: str, **options: Any) -> "RunClient":
        return self._joined(self.ok("POST", f"/runs/{self.run_id}/layers", {"lead": lead, **options}, status=201))

    def acquire(self, name: str, **options: Any) -> Any:
        return self.ok("POST", f"/locks/{name}/acquire", {"ttl_seconds": 60, **options})

    def put(self, path: str, value: Any, **options: Any) -> Response:
        return self.call("PUT", f"/kv{path}", {"value": value, **options})

    def get(self, path: str) -> Response:
        return self.call("GET", f"/kv{path}")

    def at(self, server: RunningServer) -> "RunClient":
        """The same actor on a connection of its own, to this or another server."""
        return RunClient(server, self.token, self.joined)

    def _joined(self, joined: dict[str, Any]) -> "RunClient":
        return RunClient(self.server, joined["token"], joined)


def orchestrator_token(space: Space) -> str:
    return issue(space, "orchestrator", *PRESETS["orchestrator"], "audit:read")


@pytest.fixture
def orchestrator(server: RunningServer, space: Space) -> RunClient:
    return RunClient(server, orchestrator_token(space))


@pytest.fixture
def lead(orchestrator: RunClient) -> RunClient:
    return orchestrator.start(name="nightly", max_depth=3)


@pytest.fixture
def operator(server: RunningServer, operator_token: str) -> RunClient:
    """A token without a run."""
    return RunClient(server, operator_token)
