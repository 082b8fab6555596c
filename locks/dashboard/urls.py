"""The dashboard's paths, all under /ui/."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from locks.dashboard.account import views as account
from locks.dashboard.activity import views as activity
from locks.dashboard.alerts import views as alerts
from locks.dashboard.auth import views as auth
from locks.dashboard.bulk_release import views as bulk_release
from locks.dashboard.connect import views as connect
from locks.dashboard.contention import views as contention
from locks.dashboard.elections import views as elections
from locks.dashboard.force_release import views as force_release
from locks.dashboard.freezes import views as freezes
from locks.dashboard.home import views as home
from locks.dashboard.invites import views as invites
from locks.dashboard.live import live, overview_live
from locks.dashboard.lock import views as lock
from locks.dashboard.mfa import views as mfa
from locks.dashboard.names import views as names
from locks.dashboard.namespaces import views as namespaces
from locks.dashboard.notes import views as notes
from locks.dashboard.now import views as now
from locks.dashboard.overview import views as overview
from locks.dashboard.owner import views as owner
from locks.dashboard.owners import views as owners
from locks.dashboard.reauthentication import views as reauthentication
from locks.dashboard.release_requests import views as release_requests
from locks.dashboard.reservations import views as reservations
from locks.dashboard.runs import views as runs
from locks.dashboard.saved_filters import views as saved_filters
from locks.dashboard.search import views as search
from locks.dashboard.social_accounts import views as social_accounts
from locks.dashboard.spaces import views as spaces
from locks.dashboard.stuck import views as stuck
from locks.dashboard.system import views as system
from locks.dashboard.team import views as team
from locks.dashboard.timeline import views as timeline
from locks.dashboard.tokens import views as tokens
from locks.dashboard.waits import views as waits
from locks.dashboard.webhooks import views as webhooks


class LockNameConverter(StringConverter):
    """A lock's name, with its slashes."""

    regex = r"[^\0]+"


register_converter(LockNameConverter, "lock_name")

app_name = "dashboard"
urlpatterns = [
    path("", home.home, name="home"),
    path("sign-in", auth.sign_in, name="sign-in"),
    path("sign-in/passkey", auth.passkey, name="sign-in-passkey"),
    path("sign-in/second-step/passkey", auth.second_step_passkey, name="second-step-passkey"),
    path("sign-in/<slug:name>", social_accounts.sign_in, name="sign-in-provider"),
    path("sign-out", auth.sign_out, name="sign-out"),
    path("confirm", reauthentication.confirmation, name="confirmation"),
    path("confirm/passkey", reauthentication.passkey, name="confirmation-passkey"),
    path("account", account.account, name="account"),
    path("account/profile", account.profile, name="account-profile"),
    path("account/password", account.password, name="account-password"),
    path("account/sessions/others", account.revoke_other_sessions, name="account-other-sessions"),
    path("account/sessions/<uuid:public_id>", account.revoke_session, name="account-session"),
    path("account/sign-out-everywhere", account.sign_out_everywhere, name="account-sign-out"),
    path("account/codes", mfa.totp, name="account-codes"),
    path("account/passkeys", mfa.passkeys, name="account-passkeys"),
    path("account/second-factors/<int:factor_id>", mfa.remove, name="account-factor"),
    path("account/recovery-codes", mfa.recovery_codes, name="account-recovery-codes"),
    path("account/connect/<slug:name>", social_accounts.connect, name="account-connect"),
    path("account/connections/<int:connection_id>", social_accounts.disconnect, name="account-disconnect"),
    path("theme", home.theme, name="theme"),
    path("join", invites.join, name="join"),
    path("join/accept", invites.accept, name="join-accept"),
    path("teams/new", team.create, name="new-team"),
    path("elections", elections.list_rooms, name="elections"),
    path("overview", overview.overview, name="overview"),
    path("overview/live", overview_live, name="overview-live"),
    path("search", search.search, name="search"),
    path("<slug:team>/", home.team, name="team"),
    path("<slug:team>/<slug:space>/", now.now, name="now"),
    path("<slug:team>/<slug:space>/live", live, name="live"),
    path("<slug:team>/<slug:space>/export", now.export, name="now-export"),
    path("<slug:team>/<slug:space>/contention/export", contention.export, name="contention-export"),
    path("<slug:team>/<slug:space>/contention", contention.contention, name="contention"),
    path("<slug:team>/<slug:space>/activity", activity.activity, name="activity"),
    path("<slug:team>/<slug:space>/activity/new-count", activity.new_count, name="activity-new-count"),
    path("<slug:team>/<slug:space>/activity/export", activity.export, name="activity-export"),
    path("<slug:team>/<slug:space>/activity/<int:event_id>", activity.event, name="event"),
    path("<slug:team>/<slug:space>/tokens", tokens.tokens, name="tokens"),
    path("<slug:team>/<slug:space>/tokens/new", tokens.issue, name="issue-token"),
    path("<slug:team>/<slug:space>/tokens/new/preview", tokens.preview, name="token-preview"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/first-use", tokens.first_use, name="token-first-use"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/rotate", tokens.rotate, name="rotate-token"),
    path("<slug:team>/<slug:space>/tokens/<slug:public_id>/revoke", tokens.revoke, name="revoke-token"),
    path("<slug:team>/<slug:space>/webhooks", webhooks.webhooks, name="webhooks"),
    path("<slug:team>/<slug:space>/webhooks/new", webhooks.create, name="new-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>", webhooks.webhook, name="webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/change", webhooks.change, name="change-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/rotate", webhooks.rotate, name="rotate-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/delete", webhooks.delete, name="delete-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/test", webhooks.send_test, name="test-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/pause", webhooks.pause, name="pause-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/resume", webhooks.resume, name="resume-webhook"),
    path("<slug:team>/<slug:space>/webhooks/<slug:public_id>/replay", webhooks.replay_all, name="replay-webhook"),
    path(
        "<slug:team>/<slug:space>/webhooks/<slug:public_id>/deliveries/<uuid:delivery_id>/replay",
        webhooks.replay_one,
        name="replay-delivery",
    ),
    path("<slug:team>/<slug:space>/alerts", alerts.alerts, name="alerts"),
    path("<slug:team>/<slug:space>/alerts/new", alerts.create, name="new-alert"),
    path("<slug:team>/<slug:space>/alerts/<slug:public_id>", alerts.alert, name="alert"),
    path("<slug:team>/<slug:space>/alerts/<slug:public_id>/change", alerts.change, name="change-alert"),
    path("<slug:team>/<slug:space>/team", team.team, name="team-page"),
    path("<slug:team>/<slug:space>/team/name", team.rename, name="rename-team"),
    path("<slug:team>/<slug:space>/team/activity", team.activity, name="team-activity"),
    path("<slug:team>/<slug:space>/team/activity/<int:event_id>", team.event, name="team-event"),
    path("<slug:team>/<slug:space>/team/members/<int:user_id>/role", team.change_role, name="change-role"),
    path("<slug:team>/<slug:space>/team/members/<int:user_id>/spaces", team.space_roles, name="space-roles"),
    path("<slug:team>/<slug:space>/team/members/<int:user_id>/remove", team.remove, name="remove-member"),
    path("<slug:team>/<slug:space>/team/leave", team.leave, name="leave-team"),
    path("<slug:team>/<slug:space>/team/invites/new", invites.create, name="new-invite"),
    path("<slug:team>/<slug:space>/team/invites/<int:invite_id>/revoke", invites.revoke, name="revoke-invite"),
    path("<slug:team>/<slug:space>/team/spaces/new", spaces.create, name="new-space"),
    path("<slug:team>/<slug:space>/team/limits", spaces.limits, name="limits"),
    path("<slug:team>/<slug:space>/team/namespaces", namespaces.namespaces, name="namespaces"),
    path("<slug:team>/<slug:space>/team/namespaces/preview", namespaces.preview, name="namespaces-preview"),
    path("<slug:team>/<slug:space>/names", names.names, name="names"),
    path("<slug:team>/<slug:space>/team/archive", spaces.archive, name="archive-space"),
    path("<slug:team>/<slug:space>/team/restore/<slug:archived>", spaces.restore, name="restore-space"),
    path("<slug:team>/<slug:space>/connect", connect.connect, name="connect"),
    path("<slug:team>/<slug:space>/system", system.system, name="system"),
    path("<slug:team>/<slug:space>/timeline", timeline.timeline, name="timeline"),
    path("<slug:team>/<slug:space>/waits", waits.waits, name="waits"),
    path("<slug:team>/<slug:space>/owners", owners.owners, name="owners"),
    # In the query string: the name of an owner may have any characters.
    path("<slug:team>/<slug:space>/owner", owner.owner, name="owner"),
    path("<slug:team>/<slug:space>/runs", runs.runs, name="runs"),
    path("<slug:team>/<slug:space>/runs/<uuid:run_id>", runs.run, name="run"),
    path("<slug:team>/<slug:space>/runs/<uuid:run_id>/export", runs.export, name="export-run"),
    path("<slug:team>/<slug:space>/runs/<uuid:run_id>/drain", runs.drain, name="drain-run"),
    path("<slug:team>/<slug:space>/runs/<uuid:run_id>/finish", runs.finish, name="finish-run"),
    path("<slug:team>/<slug:space>/runs/<uuid:run_id>/actors/<str:actor_name>/end", runs.end_actor, name="end-actor"),
    path("<slug:team>/<slug:space>/stuck", stuck.stuck, name="stuck"),
    path("<slug:team>/<slug:space>/releases", bulk_release.releases, name="releases"),
    path("<slug:team>/<slug:space>/releases/prepare", bulk_release.prepare, name="prepare-release"),
    path("<slug:team>/<slug:space>/releases/<int:number>", bulk_release.release, name="release"),
    path("<slug:team>/<slug:space>/releases/<int:number>/confirm", bulk_release.confirm, name="confirm-release"),
    path("<slug:team>/<slug:space>/releases/<int:number>/stop", bulk_release.stop, name="stop-release"),
    path("<slug:team>/<slug:space>/snooze/<lock_name:name>", stuck.snooze, name="snooze"),
    path("<slug:team>/<slug:space>/end-snooze/<lock_name:name>", stuck.end_snooze, name="end-snooze"),
    path("<slug:team>/<slug:space>/freeze", freezes.freeze, name="freeze"),
    path("<slug:team>/<slug:space>/freeze/preview", freezes.preview, name="freeze-preview"),
    path("<slug:team>/<slug:space>/freezes/<int:freeze_id>/lift", freezes.lift, name="lift-freeze"),
    path("<slug:team>/<slug:space>/reserve", reservations.reserve, name="reserve-name"),
    path("<slug:team>/<slug:space>/reserve/<lock_name:name>", reservations.reserve, name="reserve"),
    path("<slug:team>/<slug:space>/extend/<lock_name:name>", reservations.extend, name="extend-reservation"),
    path("<slug:team>/<slug:space>/hand-over/<lock_name:name>", reservations.hand_over, name="hand-over"),
    path("<slug:team>/<slug:space>/release/<lock_name:name>", reservations.release, name="release-reservation"),
    path("<slug:team>/<slug:space>/filters", saved_filters.save, name="save-filter"),
    path("<slug:team>/<slug:space>/filters/<int:filter_id>/delete", saved_filters.delete, name="delete-filter"),
    path("<slug:team>/<slug:space>/note/<lock_name:name>", notes.note, name="note"),
    path("<slug:team>/<slug:space>/ask/<lock_name:name>", release_requests.ask, name="ask-for-release"),
    # No lock name ends in the name of an operation, so this path is never that of a lock.
    path(
        "<slug:team>/<slug:space>/locks/<lock_name:name>/force-release",
        force_release.force_release,
        name="force-release",
    ),
    path("<slug:team>/<slug:space>/locks/<lock_name:name>", lock.lock, name="lock"),
]
