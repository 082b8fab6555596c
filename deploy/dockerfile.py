"""Runs the steps of deploy/Dockerfile without a container engine, in a root made by debootstrap: `make try-image`.

It reads the file as an engine does: FROM, RUN, COPY, ENV, WORKDIR and USER, with two differences: a Debian root with
Python stands in for the base image, and nothing is cached. Then it starts the image as the image's account, with the
whole root mounted read-only but for /tmp and the volume, and waits for the image's own health check: first its default
command, then migrations, server and worker on a PostgreSQL and a Redis outside, as deploy/compose.yaml does. No layer,
no registry, no network of its own and no seccomp profile is tried. Needs root.
"""

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from shlex import quote

from trial import CHECKOUT, DEPLOY, Trial, run, start_postgres_and_redis, step, trial, wait_until, wait_until_healthy

PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
# How this machine reaches the package index, if that is configured.
INDEX = ("PIP_*", "UV_*", "*_proxy", "*_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
MACHINE = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word.isupper()]


def make_base(path: Path) -> None:
    """In place of python:3.11-slim-bookworm."""
    draft = path.with_suffix(".partial")
    shutil.rmtree(draft, ignore_errors=True)
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", draft)
    # Debian's pip refuses to install for all users, the base image's does not.
    for marker in draft.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    (draft / "usr/bin/python").symlink_to("python3")
    for file in MACHINE:
        if Path(file).exists():
            shutil.copy(file, draft / file.lstrip("/"))
    draft.rename(path)


def context_files(source: str) -> list[Path]:
    """Of the build's context, as the .dockerignore leaves them."""
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", source, cwd=CHECKOUT).splitlines()

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
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        self.directory = "/"
        self.account = "0"
        self.volume = ""
        self.commands: dict[str, list[str]] = {}

    def execute(self, word: str, rest: str, stages: dict[str, "Stage"]) -> None:
        match word:
            case "ENV":
                for assignment in rest.split():
                    name, _, value = assignment.partition("=")
                    self.environment[name] = value.replace("$PATH", self.environment["PATH"])
            case "WORKDIR":
                self.directory = rest
                self.path(rest).mkdir(parents=True, exist_ok=True)
            case "RUN":
                index = [name for name in os.environ if any(fnmatch.fnmatch(name, each) for each in INDEX)]
                variables = {"HOME": "/root"} | {name: os.environ[name] for name in index} | self.environment
                run(*self.contained("sh", "-ec", rest), env=variables)
            case "USER":
                self.account = rest
            case "VOLUME":
                self.volume = rest
            case "COPY" if rest.startswith("--from="):
                name, source, target = rest.removeprefix("--from=").split()
                shutil.copytree(stages[name].path(source), self.path(target), symlinks=True)
            case "COPY":
                *sources, _target = rest.split()
                for source in sources:
                    files = context_files(source)
                    assert files, f"{source} is not in the context of the build"
                    for file in files:
                        copied = self.path(self.directory) / file
                        copied.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(CHECKOUT / file, copied)
            case "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                self.commands[word] = json.loads(rest[rest.index("[") :])

    def path(self, inside: str) -> Path:
        return self.root / inside.lstrip("/")

    def contained(self, *command: str, read_only: bool = False, account: str | None = None) -> list[str]:
        """The command with mounts and processes of its own, which end with it."""
        root, volume, account = quote(str(self.root)), quote(str(self.path(self.volume))), account or self.account
        script = [f"mount --bind {root} {root}", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        if read_only:
            script += [
                f"mount -t tmpfs tmpfs {root}/tmp",
                f"mount --bind {volume} {volume}",
                f"mount -o remount,bind,ro {root}",
            ]
        script.append(f'exec chroot --userspec={account}:{account} {root} env --chdir={self.directory} "$@"')
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", "\n".join(script), "sh", *command]


def build(directory: Path) -> Stage:
    base = directory / "base"
    if not base.exists():
        with step("debootstrap"):
            make_base(base)
    stages: dict[str, Stage] = {}
    for word, rest in instructions():
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "image"
            root = directory / name
            shutil.rmtree(root, ignore_errors=True)
            run("cp", "--archive", base, root)
            stage = stages[name] = Stage(root)
        with step(f"{word} {rest}"[:100]):
            stage.execute(word, rest, stages)
    return stage


def try_root(image: Stage) -> str:
    probe = "for path in / /opt/octoadmin /etc /tmp .; do touch $path/written 2> /dev/null && echo $path; done; true"
    for account in (image.account, "0"):
        contained = image.contained("sh", "-c", probe, read_only=True, account=account)
        written = run(*contained, env=image.environment).split()
        assert written == ["/tmp", "."], written
    return f"only /tmp and {image.volume} can be written to, also by root"


def try_default_command(image: Stage, attempt: Trial) -> str:
    """`up`, with the embedded PostgreSQL in the volume."""
    embedded = dict.fromkeys(("SECRET_KEY", "DATABASE_URL", "CELERY_BROKER_URL"), "")
    health = image.contained(*image.commands["HEALTHCHECK"], read_only=True)
    healthy = partial(subprocess.run, health, env=image.environment, stderr=subprocess.DEVNULL, check=False)
    command = image.contained(*image.commands["ENTRYPOINT"], *image.commands["CMD"], read_only=True)
    with attempt.start("up", *command, **image.environment, **embedded):
        wait_until(lambda: healthy().returncode == 0, "up")
    return "the image's health check succeeds"


def try_parts(image: Stage, attempt: Trial) -> str:
    """As deploy/compose.yaml starts them."""

    def octoadmin(command: str) -> list[str]:
        return image.contained(*image.commands["ENTRYPOINT"], command, read_only=True)

    start_postgres_and_redis(attempt)
    attempt.run(*octoadmin("migrate"), **image.environment)
    for command in ("server", "worker"):
        attempt.start(command, *octoadmin(command), **image.environment)
    wait_until_healthy(attempt.ports["server"])
    return "/health has the worker's heartbeat"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the roots are made; `base` in it is used again")
    parser.add_argument("--first-port", type=int, default=18620, help="nine ports from here on are used")
    arguments = parser.parse_args()
    if os.getuid() != 0:
        raise SystemExit("debootstrap and chroot need root.")
    arguments.directory.mkdir(parents=True, exist_ok=True)
    image = build(arguments.directory.resolve())
    with trial(first_port=arguments.first_port, keep=False) as attempt:
        # Without a network of its own, it listens on the loopback interface only.
        image.environment |= {"HOME": image.directory, "HOST": "127.0.0.1", "PORT": str(attempt.ports["server"])}
        with step("a read-only root") as report:
            report(try_root(image))
        with step("the image's default command") as report:
            report(try_default_command(image, attempt))
        with step("migrations, server and worker on a PostgreSQL and a Redis outside") as report:
            report(try_parts(image, attempt))


if __name__ == "__main__":
    main()
