"""Decides whether what clients of a store saw is linearizable, path by path.

A path never has the same version twice, and each write raises it by one, so the versions are the order of all writes,
across deletions too, and no search is needed. `certain` is the highest version that was certainly written before an
operation began: it must not see a lower one, and may find no entry only if a deletion of that version or a later one
may have taken effect. A request whose outcome is unknown may take effect at any time after its invocation.
"""

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Callable

from tests.torture.history import KvOp

Report = Callable[[str, str, KvOp], None]


def check_store(ops: list[KvOp], report: Report) -> int:
    """Calls `report` with the path, what is wrong, and the operation that shows it. Returns how many it judged."""
    by_path: dict[str, list[KvOp]] = defaultdict(list)
    for op in ops:
        by_path[op.name].append(op)
    for path, of_path in sorted(by_path.items()):
        _PathChecker(path, sorted(of_path, key=lambda op: op.invoked), report).check()
    return sum(op.outcome not in ("none", "unknown") and op.version is not None for op in ops)


class _PathChecker:
    def __init__(self, path: str, ops: list[KvOp], report: Report) -> None:
        self.path = path
        self.ops = ops
        self._report = report
        self.writes = {op.version: op for op in ops if op.verb == "put" and op.outcome == "ok" and op.version}
        # A read shows that its version was written before it returned.
        seen = sorted((op.returned, op.version) for op in ops if op.version)
        self._seen_at = [returned for returned, _ in seen]
        self._highest = list(itertools.accumulate((version for _, version in seen), max))
        self._deletions = [op for op in ops if op.verb == "delete" and op.outcome in ("ok", "unknown")]
        self._deletions_at = [op.invoked for op in self._deletions]
        self._deleted: dict[int, KvOp] = {}
        for op in sorted(self._deletions, key=lambda op: op.returned):
            if op.outcome == "ok" and op.expected:
                self._deleted.setdefault(op.expected, op)

    def check(self) -> None:
        values: dict[int, int | None] = {}
        for op in self.ops:
            if op.outcome in ("none", "unknown") or op.version is None:
                continue
            if op.verb == "put" and op.outcome == "ok":
                self._check_write(op)
            elif op.verb == "delete" and op.outcome == "ok":
                self._check_deletion(op)
            elif op.version == 0:
                self._check_absent(op)
            else:
                self._check_seen(op)
            if op.outcome == "ok" and op.value is not None and values.setdefault(op.version, op.value) != op.value:
                self._report(self.path, f"version {op.version} has two values", op)

    def _check_write(self, op: KvOp) -> None:
        assert op.version is not None
        if self.writes[op.version] is not op:
            self._report(self.path, f"version {op.version} was written twice", op)
        if op.version <= self._certain(op.invoked):
            self._report(self.path, f"version {op.version} was written after a later one", op)
        if op.expected and op.version != op.expected + 1:
            self._report(self.path, f"version {op.version} was swapped for {op.expected}", op)
        if op.expected == 0:
            self._check_absent(op)
        elif op.expected:
            self._check_present(op, op.expected)

    def _check_deletion(self, op: KvOp) -> None:
        if op.expected:
            if self._deleted[op.expected] is not op:
                self._report(self.path, f"version {op.expected} was deleted twice", op)
            if op.expected < self._certain(op.invoked):
                self._report(self.path, f"version {op.expected} was deleted after a later one was written", op)
            self._check_present(op, op.expected)

    def _check_seen(self, op: KvOp) -> None:
        assert op.version is not None
        if op.version < self._certain(op.invoked):
            self._report(self.path, f"version {op.version} was seen after a later one", op)
        self._check_present(op, op.version)

    def _check_present(self, op: KvOp, version: int) -> None:
        """It was there at some time between the invocation and the answer."""
        write = self.writes.get(version)
        if write is not None and write.invoked > op.returned:
            self._report(self.path, f"version {version} was seen before it was written", op)
        deletion = self._deleted.get(version)
        if deletion is not None and deletion.returned < op.invoked:
            self._report(self.path, f"version {version} was seen after it was deleted", op)

    def _check_absent(self, op: KvOp) -> None:
        certain = self._certain(op.invoked)
        if not certain:
            return
        write = self.writes.get(certain)
        began = write.invoked if write is not None else -math.inf
        for index in range(bisect.bisect_right(self._deletions_at, op.returned) - 1, -1, -1):
            deletion = self._deletions[index]
            returned = deletion.returned if deletion.outcome == "ok" else math.inf
            if deletion is not op and returned >= began and (deletion.expected is None or deletion.expected >= certain):
                return
        self._report(self.path, f"there was no entry though version {certain} was written and not deleted", op)

    def _certain(self, time: float) -> int:
        count = bisect.bisect_left(self._seen_at, time)
        return self._highest[count - 1] if count else 0
