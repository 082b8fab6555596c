"""`manage.py namespaces`."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from locks.models import Event, Space
from tests.locks.engine.conftest import Engine

pytestmark = pytest.mark.django_db


def namespaces(*arguments: str) -> tuple[str, str]:
    stdout, stderr = StringIO(), StringIO()
    call_command("namespaces", "--team=blue", *arguments, stdout=stdout, stderr=stderr)
    return stdout.getvalue(), stderr.getvalue()


def test_it_shows_the_table_and_changes_nothing(space):
    assert namespaces()[0] == "issue: exact\npath: tree\nrepo: all\npolicy warn\n"
    assert not Event.objects.filter(kind="space_changed").exists()


def test_it_changes_the_table_and_the_policy(space):
    shown, _ = namespaces("--set=doc:=tree", "--set=issue:=all", "--remove=repo:", "--policy=require")
    assert shown == "doc: tree\nissue: all\npath: tree\npolicy require\n"
    stored = Space.objects.get(pk=space.pk)
    assert stored.namespaces == {"doc:": "tree", "issue:": "all", "path:": "tree"}
    assert (stored.lock_policy, Event.objects.get(kind="space_changed").actor_name) == ("require", "manage.py")


def test_it_names_leases_that_overlap(space, worker_token):
    engine = Engine(worker_token)
    for name in ("doc:a", "doc:a/b"):
        engine.acquire(name)
    assert namespaces("--set=doc:=tree")[1] == "doc:a and doc:a/b overlap and are both held.\n"


@pytest.mark.parametrize(
    "arguments",
    [["--set=doc"], ["--set=doc:=some"], ["--set=D:=tree"], ["--set=run:=tree"], ["--remove=doc:"], ["--space=x"]],
)
def test_what_is_not_valid_is_refused(space, arguments):
    with pytest.raises(CommandError):
        namespaces(*arguments)
    assert not Event.objects.filter(kind="space_changed").exists()
