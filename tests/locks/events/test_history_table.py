"""The database itself keeps the history append-only."""

import pytest
from django.db import DatabaseError, connection, transaction

from locks.models import Event, EventKind
from locks.services import tokens
from locks.services.audit import Actor

pytestmark = pytest.mark.django_db


def test_acts_are_recorded_with_the_names_as_they_were(space):
    tokens.issue(actor=Actor.of_shell(), space=space, name="ci", scopes=["locks:read"])
    event = Event.objects.get(kind=EventKind.TOKEN_ISSUED)
    assert (event.actor_name, event.team_id, event.space_id) == ("manage.py", space.team_id, space.pk)
    assert event.detail["name"] == "ci"


@pytest.mark.parametrize(
    "statement",
    ["UPDATE octo_event SET reason = 'never'", "DELETE FROM octo_event", "TRUNCATE octo_event"],
)
def test_changing_the_history_is_refused(space, worker_token, statement):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(statement)
    assert Event.objects.filter(kind=EventKind.TOKEN_ISSUED).count() == 1


def test_a_partition_cannot_be_changed_behind_its_back(space, worker_token):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM octo_event LIMIT 1")
        (partition,) = cursor.fetchone()
    for statement in (f"DELETE FROM {partition}", f"TRUNCATE {partition}"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(statement)


def test_an_event_of_a_month_without_partition_is_kept():
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_event (at, kind, actor_kind, actor_name, channel) "
            "VALUES ('2001-01-01Z', 'released', 'system', 'test', 'task') RETURNING tableoid::regclass::text"
        )
        assert cursor.fetchone() == ("octo_event_default",)
