"""Freezes in the SDK and on the command line, on a real server."""

import pytest

from octo import LockDelayed


def test_the_sdk_freezes_lists_and_lifts(client, operator, name):
    frozen = operator.freeze(name, reason="database migration", duration=3600)
    assert (frozen.prefix, frozen.created_by) == (name, "operator")
    assert frozen in client.freezes()
    with pytest.raises(LockDelayed) as refused:
        client.acquire(name)
    assert (refused.value.delayed.frozen, refused.value.delayed.reason) == (True, "database migration")
    assert "is frozen: database migration" in str(refused.value)
    assert client.inspect(name).frozen_prefix == name
    operator.unfreeze(frozen.id)
    client.acquire(name).release()


def test_a_job_that_waits_runs_when_the_freeze_is_lifted(octo, operator, name):
    frozen = operator.freeze(name, reason="database migration", duration=3600)
    waiting = octo.start("run", name, "--wait", "forever", "--", "true")
    operator.unfreeze(frozen.id)
    assert waiting.wait(60) == 0


def test_the_command_line_does_the_same(octo, backend, name):
    as_operator = {"OCTO_TOKEN": backend.operator_token}
    words = ("freeze", name, "--reason", "database migration", "--for", "2h")
    frozen = octo.json(*words, **as_operator)["freeze"]
    assert frozen["prefix"] == name
    listed = octo.run("freeze", "list")
    assert name in listed.stdout
    refused = octo.json("lock", "acquire", name)
    assert (refused["code"], refused["reason"]) == ("delayed", "database migration")
    assert "database migration" in octo.run("lock", "status", name).stdout
    assert octo.run("unfreeze", str(frozen["id"]), **as_operator).returncode == 0
    assert octo.run("lock", "acquire", name).returncode == 0


def test_the_command_line_is_refused_without_a_reason_or_the_scope(octo, name):
    assert octo.run("freeze", name, "--for", "2h").returncode == 2
    assert octo.run("freeze", name, "--reason", "x", "--for", "2h").returncode == 7
    assert octo.run("unfreeze", "999999").returncode == 7
