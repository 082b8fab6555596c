"""Checks the history: replayed, it must give the lock table, and no two leases of a name may overlap."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement

MAX_CONTRADICTIONS = 20


class Contradiction(msgspec.Struct):
    space_id: int | None
    lock_name: str | None
    fencing_token: int | None
    problem: str | None
    at: datetime | None
    leases: int

    def __str__(self) -> str:
        return f"space {self.space_id}, lock {self.lock_name}, lease {self.fencing_token}: {self.problem} ({self.at})"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """How many leases were checked, and the earliest contradictions, at most MAX_CONTRADICTIONS."""

    leases: int
    contradictions: list[Contradiction]


_VERIFY = Statement("verify", (Path(__file__).parent / "sql" / "verify.sql").read_text(), Contradiction, prepared=False)


def verify() -> Operation[Verification]:
    rows = yield _VERIFY, [MAX_CONTRADICTIONS]
    return Verification(
        leases=rows[0].leases, contradictions=[row for row in rows if row.problem is not None][:MAX_CONTRADICTIONS]
    )
