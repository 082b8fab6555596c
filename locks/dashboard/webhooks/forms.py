"""The forms that create, change and rotate the secret of a webhook."""

from typing import Any

from django import forms
from django.conf import settings

from locks.dashboard.form_rendering import IDENTIFIER, described_choice
from locks.events.webhooks.urls import MAX_URL, InvalidTarget, parse_target
from locks.models import EventKind
from locks.models.event import TROUBLE_KINDS

KIND_CHOICES = (
    (EventKind.ACQUIRED.value, described_choice("Acquired", "a holder got the lock")),
    (EventKind.RELEASED.value, described_choice("Released", "its holder released it")),
    (EventKind.EXPIRED.value, described_choice("Expired", "its lease expired without renewal")),
    (EventKind.FORCE_RELEASED.value, described_choice("Force-released", "it was taken from its holder")),
    (EventKind.STUCK.value, described_choice("Stuck", "the lock needs attention, as on the page Stuck")),
    (EventKind.STUCK_CLEARED.value, described_choice("Stuck cleared", "the lock is no longer stuck")),
    (EventKind.TOKEN_EXPIRING.value, described_choice("Token expiring", "a token expires within 14 days")),
    (EventKind.SYSTEM_UNHEALTHY.value, described_choice("System unhealthy", "the page System requires action")),
    (EventKind.SYSTEM_RECOVERED.value, described_choice("System recovered", "the system is healthy again")),
)
# All changes of locks.
DEFAULT_KINDS = [value for value, _ in KIND_CHOICES if value not in TROUBLE_KINDS]
OVERLAP_CHOICES = (
    (0, "None: the old secret stops signing at once"),
    (3_600, "1 hour: both sign until then"),
    (86_400, "24 hours: both sign until then"),
    (604_800, "7 days: both sign until then"),
)


class WebhookForm(forms.Form):
    url = forms.CharField(
        label="URL",
        max_length=MAX_URL,
        help_text="Must be reachable from this server. Each request is signed, so the URL needs no password.",
        widget=forms.URLInput(
            attrs={**IDENTIFIER, "placeholder": "https://hooks.example.com/octoadmin", "autofocus": True}
        ),
        error_messages={"required": "Enter a URL."},
    )
    kinds = forms.MultipleChoiceField(
        label="Events",
        choices=KIND_CHOICES,
        initial=DEFAULT_KINDS,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one."},
    )
    starts_with = forms.CharField(
        label="Only lock names that start with",
        max_length=256,
        required=False,
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "deploy/"}),
    )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            parse_target(url, allowed=settings.WEBHOOK_NETWORKS)
        except InvalidTarget as error:
            raise forms.ValidationError(str(error).replace("url", "The URL", 1)) from None
        return url

    @property
    def values(self) -> dict[str, Any]:
        """As the service takes them. All changes of locks are stored as none, so later versions may add some."""
        kinds = self.cleaned_data["kinds"]
        return {
            "url": self.cleaned_data["url"],
            "kinds": [] if set(kinds) == set(DEFAULT_KINDS) else kinds,
            "prefix": self.cleaned_data["starts_with"],
        }


class RotateSecretForm(forms.Form):
    overlap = forms.TypedChoiceField(
        coerce=int, choices=OVERLAP_CHOICES, initial=86_400, widget=forms.RadioSelect(attrs={"autofocus": True})
    )
