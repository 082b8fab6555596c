"""Where statements report to if tracing is on; see octoadmin.http.tracing. Off, OpenTelemetry is not imported."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class StatementTracer(Protocol):
    def current(self) -> Any:
        """The span of the request that this task or thread serves."""

    def run(self, name: str, execute: Callable[[], Result]) -> Result:
        """Runs a statement, as a span below the current one."""

    def record_batch(self, name: str, parents: Sequence[Any], *, seconds: float) -> None:
        """A statement that has just ended, as a span below that of each of its requests."""


tracer: StatementTracer | None = None


def traced(name: str, execute: Callable[..., Result], *arguments: Any) -> Result:
    return execute(*arguments) if tracer is None else tracer.run(name, partial(execute, *arguments))
