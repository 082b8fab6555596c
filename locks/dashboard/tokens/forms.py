"""The forms that issue, rotate and revoke a token."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils.html import format_html

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE, described_choice
from locks.dashboard.tokens.description import SCOPE_DESCRIPTIONS
from locks.models import Space, Token
from locks.models.token import PRESETS
from locks.services.tokens import canonical_prefixes
from locks.token_rules import MAX_NAME, MAX_PREFIX, MAX_PREFIXES, is_valid_name

CUSTOM = "custom"
MAX_LIFETIME = timedelta(days=3650)
MAX_REASON = 500

PRESET_CHOICES = (
    ("worker", described_choice("Worker", "Claims, renews and releases locks. For programs that run jobs.")),
    ("observer", described_choice("Observer", "Sees locks and the history. For monitoring.")),
    ("operator-bot", described_choice("Operator bot", "Sees locks and force-releases them. For on-call bots.")),
    (CUSTOM, described_choice("Choose scopes", "Exactly the permissions you select.")),
)
assert {value for value, _ in PRESET_CHOICES} == {*PRESETS, CUSTOM}
SCOPE_CHOICES = tuple(
    (scope.value, format_html('<code>{}</code> <span class="field-hint">{}</span>', scope.value, text))
    for scope, text in SCOPE_DESCRIPTIONS.items()
)
EXPIRY_CHOICES = (("30", "30 days"), ("90", "90 days"), ("365", "365 days"), ("date", "On a date"), ("never", "Never"))
OVERLAP_CHOICES = (
    (0, "None: the old token stops working at once"),
    (3_600, "1 hour: both work until then"),
    (86_400, "24 hours: both work until then"),
)
LEASE_CHOICES = (
    ("expire", described_choice("Let them expire", "The locks stay held until then, so no second worker starts.")),
    ("release", described_choice("Release them now", "The next claim succeeds at once. Each release is recorded.")),
)
LIFETIME_CHOICES = (("30", "In 30 days"), ("90", "In 90 days"), ("365", "In 365 days"))


class IssueTokenForm(forms.Form):
    name = forms.CharField(
        max_length=MAX_NAME,
        help_text="Unique in this space. Leases carry it as their owner unless the request names another.",
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "ci-deploy", "autofocus": True}),
        error_messages={"required": "Enter a name."},
    )
    preset = forms.ChoiceField(label="Permissions", choices=PRESET_CHOICES, initial="worker", widget=forms.RadioSelect)
    scopes = forms.MultipleChoiceField(choices=SCOPE_CHOICES, required=False, widget=forms.CheckboxSelectMultiple)
    prefixes = forms.CharField(
        label="Only lock names that start with",
        required=False,
        max_length=MAX_PREFIXES * (MAX_PREFIX + 2),
        help_text="One or more, separated by spaces or lines. Empty: all locks of the space.",
        widget=forms.Textarea(attrs={**IDENTIFIER, "rows": 2, "placeholder": "deploy/"}),
    )
    expiry = forms.ChoiceField(label="Expires", choices=EXPIRY_CHOICES, initial="90", widget=forms.RadioSelect)
    expires_on = forms.DateField(
        label="Last day (UTC)",
        required=False,
        input_formats=["%Y-%m-%d"],
        widget=forms.DateInput(attrs={"type": "date"}),
        error_messages={"invalid": "Enter a date like 2027-03-31."},
    )

    def __init__(self, *args: Any, space: Space, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._space = space
        self._now = now.astimezone(UTC)
        expiry = self.fields["expiry"]
        if not space.allow_non_expiring_tokens:
            # Not offered, but still a known choice, so that posting it gets an error that says why.
            expiry.widget.choices = [choice for choice in EXPIRY_CHOICES if choice[0] != "never"]
            expiry.help_text = "Tokens of this space must expire. An admin can change that in its limits."

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not is_valid_name(name):
            raise forms.ValidationError("Visible characters only.")
        if Token.objects.filter(space=self._space, name=name, revoked_at=None, rotated_at=None).exists():
            raise forms.ValidationError("A token of this space has that name. Revoke it first, or choose another name.")
        return name

    def clean_prefixes(self) -> list[str]:
        prefixes = canonical_prefixes(self.cleaned_data["prefixes"].split(), space=self._space)
        if prefixes is None:
            raise forms.ValidationError(f"A prefix has at most {MAX_PREFIX} visible characters, and no path with '..'.")
        if len(prefixes) > MAX_PREFIXES:
            raise forms.ValidationError(f"At most {MAX_PREFIXES} prefixes.")
        return prefixes

    def clean_expiry(self) -> str:
        expiry: str = self.cleaned_data["expiry"]
        if expiry == "never" and not self._space.allow_non_expiring_tokens:
            raise forms.ValidationError("This space does not allow tokens that never expire.")
        return expiry

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("preset") == CUSTOM and "scopes" in cleaned and not cleaned["scopes"]:
            self.add_error("scopes", "Select at least one.")
        if cleaned.get("expiry") == "date" and "expires_on" not in self.errors:
            day = cleaned.get("expires_on")
            if day is None:
                self.add_error("expires_on", "Choose a date.")
            elif not self._now.date() <= day < (self._now + MAX_LIFETIME).date():
                self.add_error("expires_on", "Choose today or a later day, within ten years.")
        return cleaned

    @property
    def selected_scopes(self) -> tuple[str, ...]:
        """Also of a form that is not valid yet."""
        preset = self.cleaned_data.get("preset")
        return tuple(self.cleaned_data.get("scopes", ())) if preset == CUSTOM else PRESETS.get(preset or "worker", ())

    @property
    def expires_at(self) -> datetime | None:
        match self.cleaned_data.get("expiry"):
            case "never":
                return None
            case "date":
                day = self.cleaned_data.get("expires_on")
                return self._end_of(day) if day else None
            case days:
                return self._now + timedelta(days=int(days or 90))

    @staticmethod
    def _end_of(day: date) -> datetime:
        return datetime.combine(day + timedelta(days=1), time(), tzinfo=UTC)


class RotateTokenForm(forms.Form):
    overlap = forms.TypedChoiceField(
        choices=OVERLAP_CHOICES, coerce=int, initial=3_600, widget=forms.RadioSelect(attrs={"autofocus": True})
    )
    lasts = forms.TypedChoiceField(
        label="The new token expires", choices=LIFETIME_CHOICES, coerce=int, required=False, empty_value=None
    )

    def __init__(self, *args: Any, unchanged_expiry: str, **kwargs: Any) -> None:
        """`unchanged_expiry` says when the new token expires if no lifetime is chosen."""
        super().__init__(*args, **kwargs)
        lasts = self.fields["lasts"]
        assert isinstance(lasts, forms.TypedChoiceField)
        lasts.choices = [("", unchanged_expiry), *LIFETIME_CHOICES]


class RevokeTokenForm(forms.Form):
    """`with_predecessors` is asked if the secret before the last rotation still works."""

    with_predecessors = forms.BooleanField(
        label="Also revoke the previous secret",
        required=False,
        initial=True,
        help_text="It still works, because the overlap of the rotation is not over.",
    )
    leases = forms.ChoiceField(
        label="Leases of this token", choices=LEASE_CHOICES, initial="expire", widget=forms.RadioSelect
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        required=False,
        help_text="Recorded in the history.",
        widget=forms.TextInput(attrs=NO_AUTOCOMPLETE),
    )

    def __init__(self, *args: Any, has_predecessors: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not has_predecessors:
            del self.fields["with_predecessors"]
