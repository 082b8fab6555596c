"""`octo run`: the work runs only while the lock is held, whatever is killed, stopped or restarted."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import psutil
import pytest

from tests.client import fenced_store
from tests.client.command_line import eventually, family_of, kinds_of
from tests.servers import PROJECT_DIR

pytestmark = pytest.mark.timeout(120)


def is_over(file: Path) -> bool:
    """The process whose number is in the file."""
    number = int(file.read_text())
    return not psutil.pid_exists(number) or psutil.Process(number).status() == "zombie"


def test_the_command_has_the_lock_and_its_exit_code_is_passed_on(octo, client, name):
    script = f'test "$OCTO_LOCK" = {name} && echo "$OCTO_FENCING_TOKEN $OCTO_LEASE_ID"; exit 23'
    done = octo.run("run", name, "--ttl", "30", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (23, "")
    fencing_token, lease_id = done.stdout.split()
    assert int(fencing_token) > 0
    assert len(lease_id) == 36
    assert client.inspect(name).status == "free"


def test_how_a_command_can_fail_to_run(octo, client, name, tmp_path):
    assert octo.run("run", name, "--", "sh", "-c", "kill -KILL $$").returncode == 128 + 9
    assert octo.run("run", name, "--", "no-such-command").returncode == 127
    (tmp_path / "text").write_text("not a program")
    assert octo.run("run", name, "--", str(tmp_path / "text")).returncode == 126
    assert octo.run("run", name).returncode == 2
    assert client.inspect(name).status == "free"


def test_what_to_do_if_it_is_held(octo, client, name):
    client.acquire(name, ttl=60, owner="agent-7")
    failed = octo.run("run", name, "--", "true")
    assert failed.returncode == 4
    assert "agent-7" in failed.stderr
    skipped = octo.run("run", name, "--on-held", "skip", "--", "false")
    assert skipped.returncode == 0
    waited = octo.run("run", name, "--wait", "1", "--", "true")
    assert waited.returncode == 124


def test_five_at_once_never_overlap(octo, name, tmp_path):
    """Each child writes when it starts and ends; a checker reads the lines."""
    log = tmp_path / "log"
    script = f"echo start $$ >> {log}; sleep 0.2; echo end $$ >> {log}"
    runs = [octo.start("run", name, "--ttl", "30", "--wait", "90", "--", "sh", "-c", script) for _ in range(5)]
    assert [run.wait(90) for run in runs] == [0] * 5
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [line[0] for line in lines] == ["start", "end"] * 5
    for start, end in zip(lines[::2], lines[1::2], strict=True):
        assert start[1] == end[1]


def test_a_holder_that_is_killed_takes_its_work_along_and_the_next_starts(octo, name, tmp_path):
    log = tmp_path / "log"
    work = f"echo start $$ >> {log}; sleep 60"
    holder = octo.start("run", name, "--ttl", "10", "--", "sh", "-c", work)
    eventually(log.exists)
    next_one = octo.start("run", name, "--ttl", "30", "--wait", "60", "--", "sh", "-c", f"echo next >> {log}")
    family = family_of(holder)
    holder.kill()
    assert next_one.wait(60) == 0
    # The watchdog has ended the first one's work, which was in a group of its own, before the second began.
    assert not [process for process in family if process.is_running() and process.status() != "zombie"]
    assert log.read_text().split("\n")[1] == "next"


def test_a_holder_that_is_stopped_past_its_time_does_no_harm(octo, client, name, tmp_path):
    """Everything of the first holder is stopped, as on a host that was paused. Continued, its late write is refused by
    the fenced store, and then its work is ended."""
    store, go, outcome = tmp_path / "store", tmp_path / "go", tmp_path / "outcome"
    command = f"{sys.executable} -m tests.client.fenced_store {store} $OCTO_FENCING_TOKEN"
    script = f"""
        cd {PROJECT_DIR}; {command} first; touch {tmp_path}/ready
        while ! test -e {go}; do sleep 0.05; done
        {command} late 2> {outcome}; touch {tmp_path}/tried; sleep 60
    """
    events = tmp_path / "events"
    with events.open("w") as file:
        fd = file.fileno()
        options = ("--ttl", "10", "--events-fd", str(fd))
        holder = octo.start("run", name, *options, "--", "sh", "-c", script, pass_fds=(fd,))
    eventually((tmp_path / "ready").exists)
    paused = family_of(holder)
    for process in paused:
        process.suspend()
    with client.lock(name, ttl=30, wait=60) as lease:
        fenced_store.write(store, fencing_token=lease.fencing_token, value="second")
        go.touch()
        # Its group goes on before `octo run` can notice anything.
        shell = next(process for process in paused if process.cmdline()[:2] == ["sh", "-c"])
        os.killpg(shell.pid, signal.SIGCONT)
        eventually((tmp_path / "tried").exists)
        for process in paused:
            if process.is_running():
                process.resume()
        assert holder.wait(30) == 8
        eventually(lambda: not shell.is_running())
    assert outcome.read_text().strip() == "refused"
    assert fenced_store.values(store) == ["first", "second"]
    assert set(kinds_of(events)) & {"lost", "uncertain"}


def test_if_only_octo_is_stopped_its_watchdog_ends_the_work_in_time(octo, client, name, tmp_path):
    holder = octo.start("run", name, "--ttl", "20", "--", "sh", "-c", f"touch {tmp_path}/ready; sleep 60")
    eventually((tmp_path / "ready").exists)
    shell = next(process for process in family_of(holder) if process.cmdline()[:2] == ["sh", "-c"])
    os.kill(holder.pid, signal.SIGSTOP)
    eventually(lambda: shell.status() == "zombie")
    assert client.inspect(name).status == "held"
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait(30) == 8


def test_work_that_cannot_be_renewed_stops_before_the_lock_can_have_another_owner(octo, proxy, client, name, tmp_path):
    script = f"trap 'echo asked >> {tmp_path}/log' TERM; touch {tmp_path}/ready; while :; do sleep 0.1; done"
    holder = octo.start("run", name, "--ttl", "20", "--events", "--", "sh", "-c", script, OCTO_URL=proxy.url)
    eventually((tmp_path / "ready").exists)
    shell = next(process for process in family_of(holder) if process.cmdline()[:2] == ["sh", "-c"])
    proxy.close()
    shell.wait(30)
    # It ignored SIGTERM and was killed, and the lease it had is still not over.
    assert client.inspect(name).status == "held"
    assert holder.wait(30) == 8
    assert (tmp_path / "log").read_text() == "asked\n"
    _out, err = holder.communicate()
    assert "uncertain" in err


def test_what_the_server_ends_is_stopped_with_everything_it_started(octo, operator, name, tmp_path):
    script = f"(trap '' TERM; sleep 60) & echo $! > {tmp_path}/pid; touch {tmp_path}/ready; wait"
    holder = octo.start("run", name, "--ttl", "10", "--events", "--", "sh", "-c", script)
    eventually((tmp_path / "ready").exists)
    operator.force_release(name, reason="the host is gone")
    assert holder.wait(30) == 8
    _out, err = holder.communicate()
    assert '"event": "lost"' in err
    eventually(lambda: is_over(tmp_path / "pid"))


def test_signals_are_passed_on(octo, client, name, tmp_path):
    script = (
        f"trap 'exit 7' TERM; trap 'touch {tmp_path}/hup' HUP; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    )
    holder = octo.start("run", name, "--ttl", "30", "--", "sh", "-c", script)
    eventually((tmp_path / "ready").exists)
    holder.send_signal(signal.SIGHUP)
    eventually((tmp_path / "hup").exists)
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(30) == 7
    assert client.inspect(name).status == "free"


def test_what_a_command_leaves_behind_does_not_outlive_the_lock(octo, name, tmp_path):
    script = f"sleep 60 & echo $! > {tmp_path}/pid"
    assert octo.run("run", name, "--", "sh", "-c", script).returncode == 0
    eventually(lambda: is_over(tmp_path / "pid"))


def test_events_are_json_lines(octo, name, tmp_path):
    script = f"while ! test -e {tmp_path}/go; do sleep 0.1; done"
    running = octo.start("run", name, "--ttl", "10", "--events", "--", "sh", "-c", script)
    lines = [running.stderr.readline(), running.stderr.readline()]
    (tmp_path / "go").touch()
    lines += running.stderr.readlines()
    assert running.wait(30) == 0
    kinds = [json.loads(line)["event"] for line in lines]
    assert kinds[:2] == ["acquired", "renewed"]
    assert kinds[-1] == "released"
    assert "lease_id" not in "".join(lines)


def test_the_terminal_belongs_to_the_command(octo, name, tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "octo", "run", name, "--", "sh", "-c", "read line; echo got $line > out; exit 5"],
        env=octo._environment({}), cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )  # fmt: skip
    octo.started.append(process)
    os.close(theirs)
    os.write(ours, b"hello\n")
    assert process.wait(30) == 5
    os.close(ours)
    assert (tmp_path / "out").read_text() == "got hello\n"
