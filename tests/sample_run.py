"""A run with two layers, four actors, leases and entries, made in this process: for pages and the permission table."""

from dataclasses import dataclass

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import RunActor, Space, Token
from locks.runs import kv, lifecycle
from locks.runs.identities import find_identity
from locks.runs.names import to_stored
from locks.services.audit import Actor
from tests.conftest import issue


@dataclass(kw_only=True)
class SampleRun:
    lead: lifecycle.Joined
    sublead: lifecycle.Joined
    workers: list[lifecycle.Joined]

    @property
    def id(self) -> str:
        return str(self.lead.actor.run_id)


def sample_run(space: Space, *, name: str = "nightly", metadata: str | None = "build=1842") -> SampleRun:
    issue(space, "orchestrator", "locks:read", "locks:write", "runs:manage")
    creator = Token.objects.get(space=space, name="orchestrator")
    lead = lifecycle.start(
        actor=Actor.of_token(creator), creator=creator, name=name, metadata=metadata, ttl_seconds=3600, max_depth=2,
        dump=False, session_ttl_seconds=300,
    )  # fmt: skip
    by_lead = {"actor": Actor.of_token(lead.actor.token), "lead": lead.actor, "session_ttl_seconds": 300}
    sublead = lifecycle.add_layer(**by_lead, name="research", sublead="sub-1", read_down=True)
    by_sublead = {**by_lead, "lead": RunActor.objects.get(pk=sublead.actor.pk)}
    workers = [lifecycle.add_worker(**by_sublead, name=f"worker-{number}") for number in (1, 2)]
    write(lead, "/shared/1", b'{"found": [1, 2, 3]}')
    write(sublead, "/ref/plan", b'["read", "write"]')
    write(workers[0], "/peer/worker-1/result", b'"the secret of worker-1"')
    write(workers[1], "/shared/blob", bytes(range(40)), encoding="base64")
    claim(workers[0], "layer:next-chunk")
    claim(sublead, "run:deploy")
    return SampleRun(lead=lead, sublead=sublead, workers=workers)


def write(joined: lifecycle.Joined, path: str, value: bytes, *, encoding: str = "json") -> None:
    put = kv.KvPut(digest=_digest(joined).hex(), path=path, value=value, encoding=encoding, size=len(value))
    (written,) = run(kv.put([put]))
    assert written.verdict == "written"


def claim(joined: lifecycle.Joined, name: str) -> None:
    digest = _digest(joined)
    actor = find_identity(digest)
    assert actor is not None
    stored = to_stored(actor, name)
    (row,) = run(acquire([requests.Acquire(digest=digest.hex(), name=stored, ttl_seconds=600)]))
    assert row.verdict == "acquired"


def _digest(joined: lifecycle.Joined) -> bytes:
    return bytes(joined.actor.token.digest)
