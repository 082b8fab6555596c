"""Team: members and roles. The last admin stays; a removed member loses access at once."""

import pytest

from locks.models import Event, Invite, Membership, Role, Space, Team, User
from locks.services import members, teams
from locks.services.audit import Actor
from tests.conftest import issue

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(now_url):
    return now_url + "team"


def role_of(user: User) -> str | None:
    found = Membership.objects.filter(user=user).first()
    return found.role if found else None


def test_all_members_see_the_members_and_only_admins_change_them(visit, alice, olga, victor, bob, url):
    for person in (olga, victor):
        text = visit(person).get(url).content.decode()
        assert "alice" in text
        assert "team/invites/new" not in text
        assert "Remove" not in text
        assert visit(person).post(f"{url}/members/{alice.pk}/role", {"role": "viewer"}).status_code == 403
    assert "team/invites/new" in visit(alice).get(url).content.decode()
    assert visit(bob).get(url).status_code == 404
    assert visit(bob).post(f"{url}/members/{victor.pk}/remove").status_code == 404


def test_an_admin_changes_a_role_and_the_history_keeps_the_names(visit, alice, victor, url):
    reply = visit(alice).post(f"{url}/members/{victor.pk}/role", {"role": "operator"}, follow=True)
    assert "victor is now operator" in reply.content.decode()
    assert role_of(victor) == "operator"
    victor.username = "viktor"
    victor.save()
    event = Event.objects.get(kind="role_changed")
    assert (event.actor_name, event.detail) == ("alice", {"person": "victor", "from": "viewer", "to": "operator"})
    text = visit(alice).get(url).content.decode()
    assert "alice changed the role of victor from viewer to operator" in text
    visit(alice).post(f"{url}/members/{victor.pk}/role", {"role": "operator"})
    assert Event.objects.filter(kind="role_changed").count() == 1
    assert visit(alice).post(f"{url}/members/{victor.pk}/role", {"role": "king"}).status_code == 422


def test_the_last_admin_cannot_be_demoted_removed_or_leave(visit, alice, root, olga, url):
    for browser, path, form in (
        (visit(alice), f"{url}/members/{alice.pk}/role", {"role": "viewer"}),
        (visit(root), f"{url}/members/{alice.pk}/remove", {}),
        (visit(alice), f"{url}/leave", {}),
    ):
        reply = browser.post(path, form)
        assert reply.status_code == 409
        assert "needs an admin" in reply.content.decode()
    assert role_of(alice) == "admin"
    assert not Event.objects.filter(kind__in=["role_changed", "member_removed", "member_left"]).exists()


def test_an_admin_who_cannot_sign_in_does_not_count(visit, alice, olga, blue, url):
    Membership.objects.filter(user=olga).update(role=Role.ADMIN)
    User.objects.filter(pk=olga.pk).update(is_active=False)
    assert visit(alice).post(f"{url}/leave").status_code == 409


def test_a_removed_person_s_sessions_lose_the_team_at_once(visit, alice, victor, url, now_url):
    browser = visit(victor)
    assert browser.get(now_url).status_code == 200
    assert "victor has issued no token" in visit(alice).get(f"{url}/members/{victor.pk}/remove").content.decode()
    reply = visit(alice).post(f"{url}/members/{victor.pk}/remove", follow=True)
    assert "victor removed from the team" in reply.content.decode()
    assert browser.get(now_url).status_code == 404
    assert browser.get(url).status_code == 404
    assert "You are not in a team" in browser.get("/ui/").content.decode()
    event = Event.objects.get(kind="member_removed")
    assert event.detail == {"person": "victor", "role": "viewer"}
    assert visit(alice).post(f"{url}/members/{victor.pk}/remove").status_code == 404


def test_removing_a_member_says_how_many_tokens_they_issued(visit, alice, olga, url, space):
    issue(space, "ci", "locks:read", created_by=olga)
    assert (
        "1 token issued by olga remains valid" in visit(alice).get(f"{url}/members/{olga.pk}/remove").content.decode()
    )


def test_a_member_leaves(visit, alice, victor, url, now_url):
    browser = visit(victor)
    assert "Leave Blue" in browser.get(f"{url}/leave").content.decode()
    assert browser.post(f"{url}/leave")["Location"] == "/ui/"
    assert browser.get(now_url).status_code == 404
    assert Event.objects.get(kind="member_left").actor_name == "victor"


def test_a_superuser_who_is_not_a_member_cannot_leave(visit, alice, root, url):
    assert visit(root).get(f"{url}/leave").status_code == 404


def test_an_admin_who_was_demoted_meanwhile_is_refused(alice, olga, victor, blue):
    Membership.objects.filter(user=alice).update(role=Role.VIEWER)
    with pytest.raises(teams.NotAllowed):
        members.remove(actor=Actor.of_user(alice), by=alice, team=blue, member=victor)
    assert role_of(victor) == "viewer"


def test_an_admin_s_open_invitations_end_with_the_role(visit, alice, olga, blue, url, space):
    Membership.objects.filter(user=olga).update(role=Role.ADMIN)
    visit(olga).post(f"{url}/invites/new", {"role": "admin", "days": 7, "note": "myself"})
    visit(alice).post(f"{url}/members/{olga.pk}/role", {"role": "viewer"})
    assert Invite.objects.get().revoked_at is not None
    assert Event.objects.filter(kind="invite_revoked").count() == 1


def test_renaming_keeps_the_address(visit, alice, url, blue):
    reply = visit(alice).post(f"{url}/name", {"name": "Azure"}, follow=True)
    assert "renamed to Azure" in reply.content.decode()
    blue.refresh_from_db()
    assert (blue.name, blue.slug) == ("Azure", "blue")
    assert Event.objects.get(kind="team_renamed").detail == {"from": "Blue", "to": "Azure"}
    assert "Not renamed" in visit(alice).post(f"{url}/name", {"name": ""}, follow=True).content.decode()


def test_the_audit_log_is_for_admins_only(visit, alice, olga, bob, url, space, red_space):
    issue(space, "ci", "locks:read")
    visit(alice).post(f"{url}/name", {"name": "Azure"})
    text = visit(alice).get(f"{url}/activity").content.decode()
    assert "issued the token ci" in text
    assert "renamed the team from Blue to Azure" in text
    assert visit(olga).get(f"{url}/activity").status_code == 403
    event = Event.objects.get(kind="team_renamed")
    assert "Azure" in visit(alice).get(f"{url}/activity/{event.pk}").content.decode()
    assert visit(bob).get(f"/ui/red/main/team/activity/{event.pk}").status_code == 404
    assert visit(alice).get(f"{url}/activity?before=nonsense").status_code == 200


def test_only_a_superuser_creates_a_team(visit, root, alice):
    assert visit(alice).get("/ui/teams/new").status_code == 403
    assert "Create a team" in visit(root).get("/ui/").content.decode()
    for slug in ("", "no spaces", "join", "blue"):
        assert visit(root).post("/ui/teams/new", {"name": "X", "slug": slug}).status_code == 422
    reply = visit(root).post("/ui/teams/new", {"name": "Green", "slug": "green"})
    assert reply["Location"] == "/ui/green/main/team"
    team = Team.objects.get(slug="green")
    assert Space.objects.get(team=team).slug == "main"
    assert Membership.objects.get(team=team).role == "admin"
    assert set(Event.objects.filter(team_id=team.pk).values_list("kind", flat=True)) == {
        "team_created", "space_created",
    }  # fmt: skip


def test_events_of_programs_are_not_in_the_audit_log(visit, alice, space, worker_token, client):
    headers = {"Authorization": f"Bearer {worker_token}"}
    opened = client.post("/sessions", {}, content_type="application/json", headers=headers)
    assert opened.status_code == 201
    shown = visit(alice).get("/ui/blue/main/team").content.decode()
    assert "issued the token" in shown
    assert "session opened" not in shown.lower()
