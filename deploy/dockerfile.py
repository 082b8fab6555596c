"""Runs the steps of deploy/Dockerfile without a container engine, in a root made by debootstrap: as root,

    python3 deploy/dockerfile.py /tmp/image

It reads the file as an engine does: FROM, RUN, COPY, ENV, WORKDIR and USER, with two differences: a Debian root with
Python stands in for the base image, and nothing is cached. Then it starts the image's command as the image's account,
with the whole root mounted read-only but for /tmp and the volume, and waits for the image's own health check. No layer,
no registry and no isolation beyond chroot is tried.
"""

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
DEPLOY = CHECKOUT / "deploy"
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
# How this machine reaches the package index, if that is configured.
INDEX = ("PIP_*", "UV_*", "*_proxy", "*_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
HEALTH_SECONDS = 180


def run(*command: str | Path, **options: object) -> None:
    subprocess.run([*map(str, command)], check=True, **options)  # type: ignore[call-overload]


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word.isupper()]


def base_image(path: Path) -> None:
    """In place of python:3.11-slim-bookworm."""
    if not path.exists():
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", path)
        # Debian's pip refuses to install for all users, the base image's does not.
        for marker in path.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        (path / "usr/bin/python").symlink_to("python3")
    for configuration in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/hosts"):
        if Path(configuration).exists():
            shutil.copy(configuration, path / configuration.lstrip("/"))
    for certificates in ("/etc/ssl/certs", "/usr/local/share/ca-certificates"):
        if Path(certificates).exists():
            shutil.copytree(certificates, path / certificates.lstrip("/"), dirs_exist_ok=True, symlinks=True)


def context_files(source: str) -> list[Path]:
    """Of the build's context, as the .dockerignore leaves them."""
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", source],
        cwd=CHECKOUT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip

    def kept(path: str) -> bool:
        keep = True
        for rule in rules:
            pattern = rule.lstrip("!").removeprefix("**/")
            if fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
                keep = rule.startswith("!")
        return keep

    return [Path(path) for path in tracked if kept(path)]


class Stage:
    def __init__(self, root: Path) -> None:
        self.root = root
        own = {name: value for name, value in os.environ.items() if any(fnmatch.fnmatch(name, each) for each in INDEX)}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", **own}
        self.directory = "/"
        self.account = "0"

    def execute(self, word: str, rest: str, stages: dict[str, "Stage"]) -> None:
        match word:
            case "ENV":
                for assignment in rest.split():
                    name, _, value = assignment.partition("=")
                    self.environment[name] = value.replace("$PATH", self.environment["PATH"])
            case "WORKDIR":
                self.directory = rest
                (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "RUN":
                run("chroot", self.root, "sh", "-ec", f"cd {self.directory} && {rest}", env=self.environment)
            case "USER":
                self.account = rest
            case "COPY" if rest.startswith("--from="):
                name, source, target = rest.removeprefix("--from=").split()
                shutil.copytree(
                    stages[name].root / source.lstrip("/"), self.root / target.lstrip("/"), symlinks=True
                )  # fmt: skip
            case "COPY":
                *sources, _target = rest.split()
                for source in sources:
                    files = context_files(source)
                    assert files, f"{source} is not in the context of the build"
                    for file in files:
                        copied = self.root / self.directory.lstrip("/") / file
                        copied.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(CHECKOUT / file, copied)


def build(directory: Path) -> tuple[Stage, dict[str, str]]:
    base = directory / "base"
    base_image(base)
    stages: dict[str, Stage] = {}
    last: dict[str, str] = {}
    stage = None
    for word, rest in instructions():
        print(f"{word} {rest}"[:150], flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "image"
            root = directory / name
            shutil.rmtree(root, ignore_errors=True)
            run("cp", "--archive", base, root)
            stage = stages[name] = Stage(root)
        else:
            assert stage is not None
            stage.execute(word, rest, stages)
            last[word] = rest
    assert stage is not None
    return stage, last


def try_image(image: Stage, last: dict[str, str], port: int) -> None:
    """In a mount namespace of its own, which ends with the process."""
    command = [*json.loads(last["ENTRYPOINT"]), *json.loads(last["CMD"])]
    volume, temporary = f"{image.root}{last['VOLUME']}", image.root / "tmp"
    script = f"""
        mount --bind {image.root} {image.root}
        mount --bind {volume} {volume}
        mount -t proc proc {image.root}/proc
        mount -t tmpfs tmpfs {temporary}
        mount --bind /dev {image.root}/dev
        mount -o remount,bind,ro {image.root}
        exec chroot --userspec={image.account}:{image.account} {image.root} env --chdir={image.directory} "$@"
    """
    environment = image.environment | {"PORT": str(port), "HOME": image.directory}
    log = image.root.parent / "image.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh", *command],
            env=environment, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        health = [
            "chroot",
            f"--userspec={image.account}",
            image.root,
            *json.loads(last["HEALTHCHECK"].partition("CMD ")[2]),
        ]
        deadline = time.monotonic() + HEALTH_SECONDS
        while subprocess.run(health, env=environment, stderr=subprocess.DEVNULL, check=False).returncode:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)
        print("The image's health check succeeds; as this account, on this root:", flush=True)
        probe = "id; touch /opt/octoadmin/written 2>&1 || true; octoadmin --version"
        (child,) = subprocess.run(
            ["pgrep", "--parent", str(process.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        inside = ("nsenter", "--target", child, "--mount", "chroot", f"--userspec={image.account}", image.root)
        run(*inside, "sh", "-c", probe, env=environment)
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the roots are made; `base` in it is used again")
    parser.add_argument("--port", type=int, default=18610)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    image, last = build(arguments.directory.resolve())
    try_image(image, last, arguments.port)


if __name__ == "__main__":
    main()
