"""Checks the dependencies for known vulnerabilities.

`make audit` fails if the index cannot be reached. `make check` must work without a network: it passes `--may-skip`, and
on GitHub the skip is a warning of the run.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(sys.executable).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        requirements = Path(directory) / "requirements.txt"
        export = [HERE / "uv", "export", "--quiet", "--frozen", "--no-default-groups", "--output-file", requirements]
        subprocess.run(export, check=True)
        audit = subprocess.run(
            [HERE / "pip-audit", "-r", requirements, "--disable-pip", "--progress-spinner", "off", "--format", "json"],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    try:
        packages = json.loads(audit.stdout)["dependencies"]
    except ValueError:
        packages = []
    audited = [package for package in packages if "vulns" in package]
    if not audited:
        message = "pip-audit: skipped, the index of vulnerabilities cannot be reached."
        print(f"::warning::{message}" if "GITHUB_ACTIONS" in os.environ else message)
        sys.exit(0 if "--may-skip" in sys.argv else 1)
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for vulnerability in package["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            print(f"pip-audit: {package['name']} {package['version']} has {vulnerability['id']}; fixed in {fixed}.")
    sys.exit(1 if vulnerable else 0)


if __name__ == "__main__":
    main()
