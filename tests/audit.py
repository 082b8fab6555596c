"""Checks the dependencies for known vulnerabilities, if the network allows it. Run by `make check`."""

import json
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
        print("pip-audit: skipped, the index of vulnerabilities cannot be reached.")
        return
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for vulnerability in package["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            print(f"pip-audit: {package['name']} {package['version']} has {vulnerability['id']}; fixed in {fixed}.")
    sys.exit(1 if vulnerable else 0)


if __name__ == "__main__":
    main()
