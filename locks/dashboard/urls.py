"""The dashboard's paths, all under /ui/."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from locks.dashboard.views import (
    account,
    activity,
    confirmation,
    connect,
    connections,
    contention,
    entrance,
    force_release,
    invites,
    lock,
    now,
    owners,
    releases,
    second_factors,
    spaces,
    stuck,
    system,
    team,
    tokens,
    ways_in,
)


class ShownNameConverter(StringConverter):
    """A lock's name, with its slashes."""

    regex = r"[^\0]+"


register_converter(ShownNameConverter, "shown_name")

app_name = "dashboard"
urlpatterns = [
    path("", entrance.home, name="home"),
    path("sign-in", entrance.sign_in, name="sign-in"),
    path("sign-in/passkey", ways_in.passkey, name="sign-in-passkey"),
    path("sign-in/second-step/passkey", ways_in.second_step_passkey, name="second-step-passkey"),
    path("sign-in/<slug:name>", ways_in.provider, name="sign-in-provider"),
    path("sign-out", entrance.sign_out, name="sign-out"),
    path("confirm", confirmation.confirmation, name="confirmation"),
    path("confirm/passkey", confirmation.passkey, name="confirmation-passkey"),
    path("account", account.account, name="account"),
    path("account/profile", account.profile, name="account-profile"),
    path("account/password", account.password, name="account-password"),
    path("account/sessions/others", account.revoke_other_sessions, name="account-other-sessions"),
    path("account/sessions/<uuid:public_id>", account.revoke_session, name="account-session"),
    path("account/sign-out-everywhere", account.sign_out_everywhere, name="account-sign-out"),
    path("account/codes", second_factors.codes, name="account-codes"),
    path("account/passkeys", second_factors.passkeys, name="account-passkeys"),
    path("account/second-factors/<int:factor_id>", second_factors.remove, name="account-factor"),
    path("account/recovery-codes", second_factors.recovery_codes, name="account-recovery-codes"),
    path("account/connect/<slug:name>", connections.connect, name="account-connect"),
    path("account/connections/<int:connection_id>", connections.disconnect, name="account-disconnect"),
    path("theme", entrance.theme, name="theme"),
    path("join", invites.join, name="join"),
    path("join/accept", invites.accept, name="join-accept"),
    path("teams/new", spaces.create_team, name="new-team"),
    path("<slug:team>/", entrance.team, name="team"),
    path("<slug:team>/<slug:space>/", now.now, name="now"),
    path("<slug:team>/<slug:space>/contention", contention.contention, name="contention"),
    path("<slug:team>/<slug:space>/activity", activity.activity, name="activity"),
    path("<slug:team>/<slug:space>/activity/news", activity.news, name="activity-news"),
    path("<slug:team>/<slug:space>/activity/export", activity.export, name="activity-export"),
    path("<slug:team>/<slug:space>/activity/<int:event_id>", activity.event, name="event"),
    path("<slug:team>/<slug:space>/tokens", tokens.tokens, name="tokens"),
    path("<slug:team>/<slug:space>/tokens/new", tokens.issue, name="issue-token"),
    path("<slug:team>/<slug:space>/tokens/new/sentence", tokens.sentence, name="token-sentence"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/first-use", tokens.first_use, name="token-first-use"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/rotate", tokens.rotate, name="rotate-token"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/revoke", tokens.revoke, name="revoke-token"),
    path("<slug:team>/<slug:space>/team", team.team, name="team-page"),
    path("<slug:team>/<slug:space>/team/name", team.rename, name="rename-team"),
    path("<slug:team>/<slug:space>/team/activity", team.activity, name="team-activity"),
    path("<slug:team>/<slug:space>/team/activity/<int:event_id>", team.event, name="team-event"),
    path("<slug:team>/<slug:space>/team/members/<int:user_id>/role", team.change_role, name="change-role"),
    path("<slug:team>/<slug:space>/team/members/<int:user_id>/remove", team.remove, name="remove-member"),
    path("<slug:team>/<slug:space>/team/leave", team.leave, name="leave-team"),
    path("<slug:team>/<slug:space>/team/invites/new", invites.create, name="new-invite"),
    path("<slug:team>/<slug:space>/team/invites/<int:invite_id>/revoke", invites.revoke, name="revoke-invite"),
    path("<slug:team>/<slug:space>/team/spaces/new", spaces.create, name="new-space"),
    path("<slug:team>/<slug:space>/team/limits", spaces.limits, name="limits"),
    path("<slug:team>/<slug:space>/team/archive", spaces.archive, name="archive-space"),
    path("<slug:team>/<slug:space>/connect", connect.connect, name="connect"),
    path("<slug:team>/<slug:space>/system", system.system, name="system"),
    path("<slug:team>/<slug:space>/owners", owners.owners, name="owners"),
    path("<slug:team>/<slug:space>/stuck", stuck.stuck, name="stuck"),
    path("<slug:team>/<slug:space>/releases", releases.releases, name="releases"),
    path("<slug:team>/<slug:space>/releases/prepare", releases.prepare, name="prepare-release"),
    path("<slug:team>/<slug:space>/releases/<int:number>", releases.release, name="release"),
    path("<slug:team>/<slug:space>/releases/<int:number>/confirm", releases.confirm, name="confirm-release"),
    path("<slug:team>/<slug:space>/releases/<int:number>/stop", releases.stop, name="stop-release"),
    path("<slug:team>/<slug:space>/snooze/<shown_name:name>", stuck.snooze, name="snooze"),
    path("<slug:team>/<slug:space>/end-snooze/<shown_name:name>", stuck.end_snooze, name="end-snooze"),
    # No name ends in a verb, so this path is never a lock's.
    path(
        "<slug:team>/<slug:space>/locks/<shown_name:name>/force-release",
        force_release.force_release,
        name="force-release",
    ),
    path("<slug:team>/<slug:space>/locks/<shown_name:name>", lock.lock, name="lock"),
]
