"""The server restarts under ten `octo run`: none loses its lease, none notices but in its events."""

import pytest

from tests.client.command_line import eventually, kinds_of

RUNS = 10


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_restart_of_the_server_is_only_seen_in_the_events(octo, backend, proxy, client, name, tmp_path):
    logs = [tmp_path / f"events-{number}" for number in range(RUNS)]
    runs = []
    for number, log in enumerate(logs):
        with log.open("w") as file:
            fd = file.fileno()
            options = ("--ttl", "30", "--events-fd", str(fd))
            script = f"while ! test -e {tmp_path}/go; do sleep 0.2; done; exit {number}"
            words = ("run", f"{name}/{number}", *options, "--", "sh", "-c", script)
            runs.append(octo.start(*words, pass_fds=(fd,), OCTO_URL=proxy.url))
    eventually(lambda: all("acquired" in kinds_of(log) for log in logs))
    before = {lock.name: lock.fencing_token for lock in client.locks(prefix=f"{name}/")}

    # Down until every one of them has failed to renew, however fast the server is back.
    proxy.go_down()
    backend.server.kill()
    backend.server.start()
    eventually(lambda: all("renew_failed" in kinds_of(log) for log in logs))
    proxy.recover()

    eventually(lambda: all("renewed" in kinds_of(log) for log in logs))
    assert {lock.name: lock.fencing_token for lock in client.locks(prefix=f"{name}/")} == before
    (tmp_path / "go").touch()
    assert [run.wait(60) for run in runs] == list(range(RUNS))
    for run, log in zip(runs, logs, strict=True):
        assert run.communicate() == ("", "")
        assert not {"lost", "uncertain"} & set(kinds_of(log))
        assert kinds_of(log)[-1] == "released"
    assert not list(client.locks(prefix=f"{name}/"))
