"""Installs a Chromium if there is none: Debian's package when root, Playwright's download otherwise.

Run by `make test`. If neither can be installed it prints one line; the browser tests are then skipped, or fail if CI
is set.
"""

import os
import shutil
import subprocess
import sys

from tests.browser.chromium import find


def main() -> None:
    if find() is not None:
        return
    print("Installing a Chromium for the browser tests.", flush=True)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        attempts = (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"],
        )
    else:
        environment = dict(os.environ)
        attempts = ([sys.executable, "-m", "playwright", "install", "chromium"],)
    for command in attempts:
        subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if find() is None:
        print("No Chromium could be installed: the browser tests are skipped (or fail if CI is set).")


if __name__ == "__main__":
    main()
