"""Roles by space: admins set them on the Team page; a role in a space replaces that in the team."""

import pytest
from django.db import IntegrityError, transaction

from locks.dashboard.access import get_space_context
from locks.models import Event, Membership, Role, Space, SpaceRole
from locks.services import members
from locks.services.audit import Actor
from locks.services.teams import NotAllowed

pytestmark = pytest.mark.django_db


@pytest.fixture
def staging(blue) -> Space:
    return Space.objects.create(team=blue, slug="staging", name="Staging")


@pytest.fixture
def url(victor) -> str:
    return f"/ui/blue/main/team/members/{victor.pk}/spaces"


def role_in(user, space: Space) -> Role:
    return get_space_context(user, team=space.team.slug, space=space.slug).role


def test_an_admin_makes_a_viewer_operator_in_staging(space, staging, alice, victor, url, visit):
    browser = visit(alice)
    assert "Staging" in browser.get(url).text
    browser.post(url, {f"space_{space.pk}": "", f"space_{staging.pk}": "operator"})
    assert (role_in(victor, space), role_in(victor, staging)) == (Role.VIEWER, Role.OPERATOR)
    assert "operator in Staging" in browser.get("/ui/blue/main/team").text
    event = Event.objects.get(kind="space_role_changed")
    assert (event.space_id, event.actor_name) == (staging.pk, "alice")
    assert event.detail == {"person": "victor", "space": "Staging", "from": "as in the team", "to": "operator"}
    browser.post(url, {f"space_{space.pk}": "", f"space_{staging.pk}": ""})
    assert role_in(victor, staging) == Role.VIEWER
    assert Event.objects.filter(kind="space_role_changed").count() == 2


def test_saving_the_same_changes_nothing(space, staging, alice, url, visit):
    visit(alice).post(url, {f"space_{space.pk}": "", f"space_{staging.pk}": ""})
    assert not Event.objects.filter(kind="space_role_changed").exists()


@pytest.mark.parametrize("role", ["admin", "owner"])
def test_only_viewer_and_operator_are_roles_in_a_space(role, space, alice, victor, url, visit):
    reply = visit(alice).post(url, {f"space_{space.pk}": role})
    assert reply.status_code == 422
    with pytest.raises(IntegrityError), transaction.atomic():
        SpaceRole.objects.create(membership=victor.memberships.get(), space=space, role=role)


def test_admins_have_no_role_in_a_space(space, alice, blue, visit):
    reply = visit(alice).get(f"/ui/blue/main/team/members/{alice.pk}/spaces")
    assert (reply.status_code, "an admin of the team, and so in every space" in reply.text) == (409, True)
    with pytest.raises(members.IsAdmin):
        members.set_space_roles(
            actor=Actor.of_user(alice), by=alice, team=blue, member=alice, roles={space: Role.VIEWER}
        )


def test_a_member_who_becomes_an_admin_loses_them(space, alice, victor, blue, visit):
    actor = Actor.of_user(alice)
    members.set_space_roles(actor=actor, by=alice, team=blue, member=victor, roles={space: Role.OPERATOR})
    members.change_role(actor=actor, by=alice, team=blue, member=victor, role=Role.ADMIN)
    assert role_in(victor, space) == Role.ADMIN
    members.change_role(actor=actor, by=alice, team=blue, member=victor, role=Role.VIEWER)
    assert role_in(victor, space) == Role.VIEWER


def test_they_end_with_the_membership(space, alice, victor, blue):
    actor = Actor.of_user(alice)
    members.set_space_roles(actor=actor, by=alice, team=blue, member=victor, roles={space: Role.OPERATOR})
    members.remove(actor=actor, by=alice, team=blue, member=victor)
    assert not SpaceRole.objects.exists()
    Membership.objects.create(team=blue, user=victor, role=Role.VIEWER)
    assert role_in(victor, space) == Role.VIEWER


def test_only_admins_set_them(space, olga, victor, blue, url, visit):
    assert visit(olga).post(url, {f"space_{space.pk}": "operator"}).status_code == 403
    with pytest.raises(NotAllowed):
        members.set_space_roles(
            actor=Actor.of_user(olga), by=olga, team=blue, member=victor, roles={space: Role.OPERATOR}
        )
