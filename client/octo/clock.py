"""The clock that local deadlines are counted on: it never jumps, and it runs while the machine sleeps.

`time.monotonic` stops with a closed laptop lid on Linux and macOS; a lease does not.
"""

import sys
import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":
    # There, unlike time.monotonic, the C library's monotonic clock counts sleep.
    def now() -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)

else:
    # Windows counts sleep in the clock that time.monotonic reads.
    now = time.monotonic
