"""The server restarts under ten `octo run`: none loses its lease, none notices but in its events."""

import pytest

from tests.client.command_line import kinds_of
from tests.polling import until

RUNS = 10


@pytest.mark.timeout(180)
def test_a_restart_of_the_server_is_only_seen_in_the_events(octo, backend, wire, client, name, tmp_path):
    logs = [tmp_path / f"events-{number}" for number in range(RUNS)]
    runs = []
    for number, log in enumerate(logs):
        with log.open("w") as file:
            fd = file.fileno()
            options = ("--ttl", "30", "--events-fd", str(fd))
            script = f"while ! test -e {tmp_path}/go; do sleep 0.2; done; exit {number}"
            words = ("run", f"{name}/{number}", *options, "--", "sh", "-c", script)
            runs.append(octo.start(*words, pass_fds=(fd,), OCTO_URL=wire.url))
    until(lambda: all("acquired" in kinds_of(log) for log in logs))
    before = {lock.name: lock.fencing_token for lock in client.locks(prefix=f"{name}/")}

    # Down until every one of them has tried in vain, however fast the server is back.
    wire.go_down()
    backend.server.kill()
    backend.server.start()
    until(lambda: all("renew_failed" in kinds_of(log) for log in logs))
    wire.recover()

    until(lambda: all("renewed" in kinds_of(log) for log in logs))
    assert {lock.name: lock.fencing_token for lock in client.locks(prefix=f"{name}/")} == before
    (tmp_path / "go").touch()
    assert [run.wait(60) for run in runs] == list(range(RUNS))
    for run, log in zip(runs, logs, strict=True):
        assert run.communicate() == ("", "")
        assert not {"lost", "uncertain"} & set(kinds_of(log))
        assert kinds_of(log)[-1] == "released"
    assert not list(client.locks(prefix=f"{name}/"))
