"""The form of an alert rule."""

from typing import Any

from django import forms
from django.conf import settings

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE, described_choice
from locks.events.webhooks.mail import InvalidRecipients
from locks.events.webhooks.urls import MAX_URL, InvalidTarget
from locks.models import AlertRule, EventKind, Transport
from locks.services.alerts.quiet_hours import is_known_zone
from locks.services.alerts.rules import MAX_MINUTES, MAX_TOKEN_DAYS, RuleValues, check_destination
from locks.services.stuck import Reason

KIND_CHOICES = (
    (
        EventKind.STUCK.value,
        described_choice("Stuck", "a lock needs attention, as on the page Stuck; and when it no longer does"),
    ),
    (EventKind.TOKEN_EXPIRING.value, described_choice("Token expiring", "a token of this space expires soon")),
    (
        EventKind.SYSTEM_UNHEALTHY.value,
        described_choice("System unhealthy", "worker, scheduler or sweep require action; and when they no longer do"),
    ),
    (EventKind.FORCE_RELEASED.value, described_choice("Force-released", "a lock was taken from its holder")),
)
TRANSPORT_CHOICES = (
    (Transport.SLACK.value, described_choice("Slack", "the URL of an incoming webhook")),
    (
        Transport.TEAMS.value,
        described_choice("Microsoft Teams", "the URL of a workflow that posts to a channel or chat"),
    ),
    (Transport.EMAIL.value, described_choice("E-mail", "up to ten addresses")),
    (Transport.WEBHOOK.value, described_choice("Webhook", "the URL of your own receiver, as signed JSON")),
)
ALL_REASONS = [reason.value for reason in Reason]
DAYS = ((1, "Mon"), (2, "Tue"), (3, "Wed"), (4, "Thu"), (5, "Fri"), (6, "Sat"), (7, "Sun"))
_TIME = {"type": "time", "class": "mono"}


class AlertRuleForm(forms.Form):
    name = forms.CharField(
        max_length=80,
        widget=forms.TextInput(attrs={**NO_AUTOCOMPLETE, "placeholder": "Deploys, on call", "autofocus": True}),
        error_messages={"required": "Enter a name."},
    )
    kinds = forms.MultipleChoiceField(
        label="Send when",
        choices=KIND_CHOICES,
        initial=[EventKind.STUCK.value],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one."},
    )
    starts_with = forms.CharField(
        label="Only lock names that start with",
        max_length=256,
        required=False,
        help_text="Applies to stuck and force-released locks.",
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "deploy/"}),
    )
    min_minutes = forms.IntegerField(
        label="Lasting at least (minutes)",
        min_value=0,
        max_value=MAX_MINUTES,
        initial=5,
        help_text="A stuck lock, or an unhealthy system.",
    )
    token_days = forms.IntegerField(
        label="Token expires within (days)", min_value=1, max_value=MAX_TOKEN_DAYS, initial=7
    )
    reasons = forms.MultipleChoiceField(
        label="Stuck because",
        choices=[(reason.value, reason.label) for reason in Reason],
        initial=ALL_REASONS,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one."},
    )
    transport = forms.ChoiceField(
        label="Send to", choices=TRANSPORT_CHOICES, initial=Transport.SLACK.value, widget=forms.RadioSelect
    )
    destination = forms.CharField(
        label="URL or addresses",
        max_length=MAX_URL,
        error_messages={"required": "Enter a URL or e-mail addresses."},
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "https://hooks.slack.com/services/…"}),
    )
    quiet_from = forms.TimeField(label="From", required=False, widget=forms.TimeInput(attrs=_TIME, format="%H:%M"))
    quiet_until = forms.TimeField(label="Until", required=False, widget=forms.TimeInput(attrs=_TIME, format="%H:%M"))
    quiet_zone = forms.CharField(
        label="Time zone", initial="UTC", max_length=64,
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "Europe/Berlin"}),
    )  # fmt: skip
    quiet_days = forms.TypedMultipleChoiceField(
        label="On these days", coerce=int, choices=DAYS, initial=[day for day, _ in DAYS], required=False,
        help_text="Days on which quiet hours start.", widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip

    def __init__(self, *args: Any, rule: AlertRule | None = None, **kwargs: Any) -> None:
        self._rule = rule
        if rule is not None:
            kwargs["initial"] = _initial(rule)
        super().__init__(*args, **kwargs)
        if rule is not None and rule.transport in (Transport.SLACK, Transport.TEAMS):
            self.fields["destination"].required = False
            self.fields["destination"].help_text = f"Now {rule.webhook.url}. Leave empty to keep it."

    def clean_quiet_zone(self) -> str:
        zone: str = self.cleaned_data["quiet_zone"]
        if not is_known_zone(zone):
            raise forms.ValidationError("No such time zone. Enter a name such as Europe/Berlin, or UTC.")
        return zone

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        transport = cleaned.get("transport")
        if transport == Transport.EMAIL and not settings.EMAIL_HOST:
            self.add_error("transport", "E-mail is not configured on this server.")
        elif transport and "destination" in cleaned:
            self._check_destination(Transport(transport), cleaned["destination"])
        if (cleaned.get("quiet_from") is None) != (cleaned.get("quiet_until") is None):
            self.add_error("quiet_until", "Enter both times, or none.")
        return cleaned

    def _check_destination(self, transport: Transport, destination: str) -> None:
        if not destination and self._rule is not None and self._rule.transport == transport:
            return
        try:
            check_destination(transport, destination)
        except (InvalidTarget, InvalidRecipients) as error:
            self.add_error("destination", str(error).replace("url", "The URL", 1))

    @property
    def values(self) -> RuleValues:
        """All reasons and all days are stored as none."""
        cleaned = self.cleaned_data
        reasons, days = cleaned["reasons"], cleaned["quiet_days"]
        return RuleValues(
            name=cleaned["name"], kinds=cleaned["kinds"], prefix=cleaned["starts_with"],
            transport=Transport(cleaned["transport"]), destination=cleaned["destination"] or None,
            min_minutes=cleaned["min_minutes"], token_days=cleaned["token_days"],
            reasons=[] if len(reasons) == len(ALL_REASONS) else reasons,
            quiet_from=cleaned["quiet_from"], quiet_until=cleaned["quiet_until"], quiet_zone=cleaned["quiet_zone"],
            quiet_days=[] if len(days) == len(DAYS) else days,
        )  # fmt: skip


def _initial(rule: AlertRule) -> dict[str, Any]:
    webhook = rule.webhook
    shows_destination = rule.transport in (Transport.WEBHOOK, Transport.EMAIL)
    return {
        "name": rule.name, "kinds": webhook.kinds, "starts_with": webhook.prefix, "min_minutes": rule.min_minutes,
        "token_days": rule.token_days, "reasons": rule.reasons or ALL_REASONS, "transport": rule.transport,
        "destination": webhook.url if shows_destination else "", "quiet_from": rule.quiet_from,
        "quiet_until": rule.quiet_until, "quiet_zone": rule.quiet_zone,
        "quiet_days": rule.quiet_days or [day for day, _ in DAYS],
    }  # fmt: skip
