"""The programs that the benchmark runs: found on the PATH, or installed where apt-get is available."""

import os
import shutil
import subprocess
import sys

DEBIAN_PACKAGES = {"wrk": "wrk", "etcd": "etcd-server", "redis-server": "redis-server"}


def is_available(program: str) -> bool:
    if shutil.which(program) is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        # RUNLEVEL=1 keeps Debian from starting the service.
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        install = ["apt-get", "install", "--yes", "--no-install-recommends", DEBIAN_PACKAGES[program]]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, env=environment, capture_output=True, check=False)
    if shutil.which(program) is None:
        print(f"{program} is not installed. On Debian: apt-get install {DEBIAN_PACKAGES[program]}", file=sys.stderr)
        return False
    return True
