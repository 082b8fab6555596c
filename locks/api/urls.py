"""The paths of the API."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter, UUIDConverter

from locks.api.views import (
    bulk,
    check,
    deliveries,
    elections,
    freezes,
    history,
    kv,
    leases,
    openapi,
    runs,
    sessions,
    tokens,
    watch,
    webhooks,
)
from locks.token_format import PUBLIC_ID_LENGTH


class LockNameConverter(StringConverter):
    """Matches anything; the view explains what is wrong with an invalid name."""

    regex = r"[\s\S]*"


class PublicIdConverter(StringConverter):
    regex = f"[0-9A-Za-z]{{{PUBLIC_ID_LENGTH}}}"


class WebhookIdConverter(StringConverter):
    regex = UUIDConverter.regex


register_converter(WebhookIdConverter, "webhookid")
register_converter(LockNameConverter, "lockname")
register_converter(PublicIdConverter, "publicid")

urlpatterns = [
    path("locks", bulk.LocksView.as_view()),
    path("locks/claim-next", bulk.ClaimNextView.as_view()),
    path("locks/check", check.CheckView.as_view()),
    path("locks/acquire-all", bulk.AcquireAllView.as_view()),
    path("locks/renew-all", bulk.RenewAllView.as_view()),
    path("locks/release-all", bulk.ReleaseAllView.as_view()),
    path("locks/<lockname:name>/acquire", leases.AcquireView.as_view()),
    path("locks/<lockname:name>/renew", leases.RenewView.as_view()),
    path("locks/<lockname:name>/release", leases.ReleaseView.as_view()),
    path("locks/<lockname:name>/force-release", leases.ForceReleaseView.as_view()),
    path("locks/<lockname:name>/acl", leases.AclView.as_view()),
    path("locks/<lockname:name>/watch", watch.WatchLockView.as_view()),
    path("locks/<lockname:name>/history", history.LockHistoryView.as_view()),
    path("locks/<lockname:name>", leases.LockView.as_view()),
    path("watch", watch.WatchView.as_view()),
    path("events", history.EventsView.as_view()),
    path("events/export", history.ExportView.as_view()),
    path("sessions", sessions.SessionsView.as_view()),
    path("sessions/<uuid:session_id>", sessions.SessionView.as_view()),
    path("sessions/<uuid:session_id>/keepalive", sessions.KeepaliveView.as_view()),
    path("freezes", freezes.FreezesView.as_view()),
    path("freezes/<int:freeze_id>", freezes.FreezeView.as_view()),
    path("elections", elections.ElectionsView.as_view()),
    path("elections/<str:room>", elections.ElectionView.as_view()),
    path("elections/<str:room>/campaign", elections.CampaignView.as_view()),
    path("elections/<str:room>/renew", elections.RenewView.as_view()),
    path("elections/<str:room>/resign", elections.ResignView.as_view()),
    path("elections/<str:room>/watch", elections.WatchView.as_view()),
    path("runs", runs.RunsView.as_view()),
    path("runs/<uuid:run_id>", runs.RunView.as_view()),
    path("runs/<uuid:run_id>/drain", runs.DrainView.as_view()),
    path("runs/<uuid:run_id>/finish", runs.FinishView.as_view()),
    path("runs/<uuid:run_id>/layers", runs.LayersView.as_view()),
    path("runs/<uuid:run_id>/actors", runs.ActorsView.as_view()),
    path("runs/<uuid:run_id>/actors/<str:actor_id>", runs.ActorView.as_view()),
    path("runs/<uuid:run_id>/export", runs.ExportView.as_view()),
    path("kv", kv.EntriesView.as_view()),
    path("kv/<lockname:path>", kv.EntryView.as_view()),
    path("whoami", tokens.WhoAmIView.as_view()),
    path("tokens", tokens.TokensView.as_view()),
    path("tokens/<publicid:public_id>", tokens.TokenView.as_view()),
    path("webhooks", webhooks.WebhooksView.as_view()),
    path("webhooks/<webhookid:public_id>", webhooks.WebhookView.as_view()),
    path("webhooks/<webhookid:public_id>/test", deliveries.TestView.as_view()),
    path("webhooks/<webhookid:public_id>/rotate-secret", webhooks.RotateSecretView.as_view()),
    path("webhooks/<webhookid:public_id>/deliveries", deliveries.DeliveriesView.as_view()),
    path("webhooks/<webhookid:public_id>/deliveries/<uuid:delivery_id>/replay", deliveries.ReplayOneView.as_view()),
    path("webhooks/<webhookid:public_id>/replay", deliveries.ReplayView.as_view()),
    path("auth/token/rotate", tokens.RotateView.as_view()),
    path("openapi.yaml", openapi.openapi, {"format_": "yaml"}),
    path("openapi.json", openapi.openapi, {"format_": "json"}),
    path("docs", openapi.SwaggerView.as_view()),
]
