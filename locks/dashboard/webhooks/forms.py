"""What people fill in about webhooks."""

from django import forms
from django.conf import settings

from locks.events.webhooks.urls import MAX_URL, InvalidTarget, parse_target

KINDS = (
    ("acquired", "Acquired", "somebody got a lock"),
    ("released", "Released", "its holder gave it back"),
    ("expired", "Expired", "its holder let it run out"),
    ("force_released", "Released by force", "somebody took it from its holder"),
)
OVERLAPS = (
    (0, "None: the old secret stops signing at once"),
    (3_600, "1 hour: both sign until then"),
    (86_400, "24 hours: both sign until then"),
    (604_800, "7 days: both sign until then"),
)


class WebhookForm(forms.Form):
    url = forms.CharField(max_length=MAX_URL, error_messages={"required": "Say where to deliver to."})
    kinds = forms.MultipleChoiceField(
        choices=[(value, words) for value, words, _ in KINDS],
        error_messages={"required": "Choose at least one."},
    )
    starts_with = forms.CharField(max_length=256, required=False)

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            parse_target(url, allowed=settings.WEBHOOK_NETWORKS)
        except InvalidTarget as bad:
            raise forms.ValidationError(str(bad).replace("url", "The URL", 1)) from None
        return url

    @property
    def kinds_chosen(self) -> list[str]:
        """All of them is the same as none in particular, whatever kinds there will be."""
        chosen: list[str] = self.cleaned_data["kinds"]
        return [] if len(chosen) == len(KINDS) else chosen


class RotateSecretForm(forms.Form):
    overlap = forms.TypedChoiceField(coerce=int, choices=OVERLAPS, initial=86_400)
