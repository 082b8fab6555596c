"""Installs what tests use besides Python packages: Debian's packages when root; otherwise only Playwright's Chromium.

Run by `make test`. What cannot be installed is named in one line; the tests that need it are skipped, but those in a
browser fail if CI is set.
"""

import os
import shutil
import subprocess
import sys

from tests.browser.chromium import HEADLESS, find

# Programs, which have the names of their packages.
PROGRAMS = (HEADLESS, "haproxy", "pgbouncer")


def main() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _install_packages()
    if find() is None:
        print("Installing a Chromium for the browser tests.", flush=True)
        _run(sys.executable, "-m", "playwright", "install", "chromium")
    missing = [program for program in PROGRAMS if not shutil.which(program) and (program != HEADLESS or not find())]
    if missing:
        print(f"Not installed, so tests that need it are skipped: {', '.join(missing)}")


def _install_packages() -> None:
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if not missing:
        return
    print(f"Installing for the tests: {', '.join(missing)}.", flush=True)
    install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")
    _run("apt-get", "update", "-qq")
    if not _run(*install, *missing):
        # One of them is unavailable in this distribution.
        for program in missing:
            _run(*install, program)
    if find() is None:
        _run(*install, "chromium")


def _run(*command: str) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, check=False, env=environment, **silent).returncode == 0


if __name__ == "__main__":
    main()
