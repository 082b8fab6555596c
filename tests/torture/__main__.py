"""`make torture`: MINUTES and SEED from the environment; the report is in torture-report/."""

import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.torture import neighbour, report
from tests.torture.run import Options, torture


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    minutes = float(os.environ.get("MINUTES") or 5)
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
    directory = Path(os.environ.get("REPORT") or "torture-report")
    sys.stdout.write(f"Torture for {minutes:g} minutes, seed {seed}.\n")
    sys.stdout.flush()
    history, judgement = torture(Options(seconds=60 * minutes, seed=seed), directory)
    report.write(directory, history, judgement)
    # Of the servers, the worker, PostgreSQL and the clients; not of processes that were killed.
    cpu = 1000 * sum(os.times()[:4]) / max(len(history.ops), 1)
    sys.stdout.write(report.summary(history, judgement) + f"\nCPU: {cpu:.1f} ms for each operation\n")
    sys.stdout.write(f"Report: {directory / 'index.html'}\n\nA space beside a hostile one:\n")
    sys.stdout.flush()
    is_unharmed = neighbour.run()
    violations, unjudged = judgement.violations, ", ".join(judgement.unjudged)
    failed = f"{len(violations)} violations" if violations else unjudged and f"nothing was judged by {unjudged}"
    sys.stdout.write(f"\nRecorded histories: {f'FAILED, {failed}' if failed else 'passed'}\n")
    sys.stdout.write(f"A space beside a hostile one: {'passed' if is_unharmed else 'FAILED'}\n")
    return 1 if failed or not is_unharmed else 0


if __name__ == "__main__":
    sys.exit(main())
