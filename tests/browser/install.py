"""Installs a Chromium: Debian's package without windows when root; otherwise, if there is none, Playwright's download.

Run by `make test`. If neither can be installed it prints one line; the browser tests are then skipped, or fail if CI
is set.
"""

import os
import shutil
import subprocess
import sys

from tests.browser.chromium import HEADLESS, find


def main() -> None:
    if shutil.which(HEADLESS):
        return
    is_debian = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if find() is not None and not (is_debian and _run("apt-cache", "show", HEADLESS)):
        return
    print("Installing a Chromium for the browser tests.", flush=True)
    if is_debian:
        install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")
        _run("apt-get", "update", "-qq")
        if not _run(*install, HEADLESS):
            _run(*install, "chromium")
    else:
        _run(sys.executable, "-m", "playwright", "install", "chromium")
    if find() is None:
        print("No Chromium could be installed: the browser tests are skipped (or fail if CI is set).")


def _run(*command: str) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, check=False, env=environment, **silent).returncode == 0


if __name__ == "__main__":
    main()
