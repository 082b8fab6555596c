"""`octo` as people run it: a process with an environment, a home for its state, and two outputs."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from octo.cli.main import main
from tests.forkserver import run_forked
from tests.polling import TIMEOUT_SECONDS as PATIENCE_SECONDS
from tests.polling import until as eventually

__all__ = ["PATIENCE_SECONDS", "eventually"]

OCTO = [sys.executable, "-m", "octo"]
# Of what is renewed while the test waits for that: half of it is left when the time has come, for a slow machine.
TTL = 10


@dataclass
class CommandLine:
    environment: Mapping[str, str]
    directory: Path
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def run(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return run_forked(
            main, words, environment=self._environment(environment), directory=self.directory, timeout=PATIENCE_SECONDS
        )

    def json(self, *words: str, **environment: str) -> Any:
        """The content of the envelope."""
        done = self.run(*words, "--json", **environment)
        envelope = json.loads(done.stdout)
        assert envelope["schema_version"] == 1
        assert envelope["ok"] == (done.returncode == 0)
        assert done.stderr == ""
        return envelope["data"] if envelope["ok"] else envelope["error"]

    def start(self, *words: str, pass_fds: tuple[int, ...] = (), **environment: str) -> "subprocess.Popen[str]":
        """In the background; ended with the test."""
        process = subprocess.Popen(
            [*OCTO, *words], env=self._environment(environment), cwd=self.directory, pass_fds=pass_fds,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **self.environment, "XDG_STATE_HOME": str(self.directory / "state"), **more}

    def end_all(self) -> None:
        for process in self.started:
            if process.poll() is None:
                for child in family_of(process):
                    child.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def family_of(process: "subprocess.Popen[Any]") -> list[psutil.Process]:
    """`octo run`, its watchdog, the command and what that has started."""
    octo = psutil.Process(process.pid)
    return [*octo.children(recursive=True), octo]


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kinds_of(path: Path) -> list[str]:
    return [event["event"] for event in events_of(path)]
