"""Processes of the benchmark: started on free loopback ports, watched for CPU and memory, stopped by their id."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

START_TIMEOUT_SECONDS = 60
SAMPLE_INTERVAL_SECONDS = 0.25


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], *, log: Path, environment: dict[str, str] | None = None) -> Iterator[psutil.Process]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | (environment or {}), stdout=output, stderr=output, process_group=0
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_http(port: int, path: str, *, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status < 500:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no response on port {port}: {log.read_text()[-2000:]}")


def process_tree(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(process: psutil.Process) -> float:
    """Of the process and its running descendants."""
    total = 0.0
    for member in process_tree(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            total += times.user + times.system
    return total


def memory_mib(process: psutil.Process) -> float:
    """Proportional set size of the process and its descendants: shared pages are counted once."""
    total = 0
    for member in process_tree(process):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += member.memory_full_info().pss
    return total / 2**20


@dataclass
class PeakMemory:
    """Samples the memory of processes on a thread of its own."""

    processes: dict[str, psutil.Process]
    peaks: dict[str, float] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_SECONDS):
            for name, process in self.processes.items():
                self.peaks[name] = max(self.peaks.get(name, 0.0), memory_mib(process))
