"""The programs that are compared or needed: found, or installed from Debian where that is possible."""

import os
import shutil
import subprocess
import sys

# Debian's package of each.
PACKAGES = {"wrk": "wrk", "etcd": "etcd-server", "redis-server": "redis-server"}


def get(program: str) -> str | None:
    """Where it is; None, and a line that says so, if it cannot be had."""
    if (found := shutil.which(program)) is not None:
        return found
    if shutil.which("apt-get") is not None and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends"]):
            package = [PACKAGES[program]] if "install" in command else []
            subprocess.run([*command, *package], env=environment, capture_output=True, check=False)
    found = shutil.which(program)
    if found is None:
        print(
            f"{program} cannot be had here: left out. On Debian: apt-get install {PACKAGES[program]}", file=sys.stderr
        )
    return found
