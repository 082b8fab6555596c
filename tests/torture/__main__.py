"""`make torture`: MINUTES and SEED from the environment; the report is in torture-report/."""

import importlib
import os
import random
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from tests.torture import report
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
    history, violations = torture(Options(seconds=60 * minutes, seed=seed), directory)
    report.write(directory, history, violations)
    sys.stdout.write(report.summary(history, violations) + f"\nReport: {directory / 'index.html'}\n")
    # Written by another part of the suite; part of the run where it is there.
    if find_spec("tests.torture.neighbour") is not None:
        importlib.import_module("tests.torture.neighbour").main()
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
