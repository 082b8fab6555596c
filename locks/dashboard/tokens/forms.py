"""What people fill in to issue, rotate and revoke tokens."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms

from locks.models import Scope, Space, Token
from locks.models.token import PRESETS
from locks.token_rules import MAX_NAME, MAX_PREFIX, MAX_PREFIXES, is_valid_name, is_valid_prefix

CUSTOM = "custom"
MAX_LIFE = timedelta(days=3650)

PRESET_CHOICES = (
    ("worker", "Worker", "Claims, renews and releases. What runs jobs."),
    ("observer", "Observer", "Sees locks and the history. What draws graphs."),
    ("operator-bot", "Operator bot", "Sees, and frees what is stuck. What is on call."),
    (CUSTOM, "Choose scopes", "Exactly the rights you tick."),
)
assert {value for value, _, _ in PRESET_CHOICES} == {*PRESETS, CUSTOM}
EXPIRIES = (("30", "30 days"), ("90", "90 days"), ("365", "365 days"), ("date", "On a date"), ("never", "Never"))
OVERLAPS = (
    (0, "None: the old token stops at once"),
    (3_600, "1 hour: both work until then"),
    (86_400, "24 hours: both work until then"),
)
LIVES = (("", "When the old one would have"), ("30", "30 days from now"), ("90", "90 days from now"),
         ("365", "365 days from now"))  # fmt: skip
LEASES = (("expire", "Let them run out"), ("release", "Release them now"))


class IssueTokenForm(forms.Form):
    name = forms.CharField(max_length=MAX_NAME, error_messages={"required": "Say what will use it."})
    preset = forms.ChoiceField(choices=[(value, words) for value, words, _ in PRESET_CHOICES], initial="worker")
    scopes = forms.MultipleChoiceField(choices=[(scope.value, scope.value) for scope in Scope], required=False)
    prefixes = forms.CharField(required=False, max_length=MAX_PREFIXES * (MAX_PREFIX + 2))
    expiry = forms.ChoiceField(choices=EXPIRIES, initial="90")
    expires_on = forms.DateField(
        required=False, error_messages={"invalid": "A date like 2027-03-31."}, input_formats=["%Y-%m-%d"]
    )

    def __init__(self, *args: Any, space: Space, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._space = space
        self._now = now.astimezone(UTC)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not is_valid_name(name):
            raise forms.ValidationError("Visible text only, without control characters.")
        in_use = Token.objects.filter(space=self._space, name=name, revoked_at=None, rotated_at=None)
        if in_use.exists():
            raise forms.ValidationError("The space has a token of that name. Revoke it first, or take another name.")
        return name

    def clean_prefixes(self) -> list[str]:
        prefixes = list(dict.fromkeys(self.cleaned_data["prefixes"].split()))
        if len(prefixes) > MAX_PREFIXES:
            raise forms.ValidationError(f"At most {MAX_PREFIXES} prefixes.")
        if not all(is_valid_prefix(prefix) for prefix in prefixes):
            raise forms.ValidationError(f"A prefix has at most {MAX_PREFIX} visible characters.")
        return prefixes

    def clean_expiry(self) -> str:
        expiry: str = self.cleaned_data["expiry"]
        if expiry == "never" and not self._space.allow_non_expiring_tokens:
            raise forms.ValidationError("This space does not allow tokens that never expire.")
        return expiry

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("preset") == CUSTOM and "scopes" in cleaned and not cleaned["scopes"]:
            self.add_error("scopes", "Tick at least one.")
        if cleaned.get("expiry") == "date" and "expires_on" not in self.errors:
            on = cleaned.get("expires_on")
            if on is None:
                self.add_error("expires_on", "Choose a date.")
            elif not self._now.date() <= on < (self._now + MAX_LIFE).date():
                self.add_error("expires_on", "A day from today on, within ten years.")
        return cleaned

    @property
    def scopes_chosen(self) -> tuple[str, ...]:
        """Also of a form that is not valid yet."""
        preset = self.cleaned_data.get("preset")
        return tuple(self.cleaned_data.get("scopes", ())) if preset == CUSTOM else PRESETS.get(preset or "worker", ())

    @property
    def expires_at(self) -> datetime | None:
        match self.cleaned_data.get("expiry"):
            case "never":
                return None
            case "date":
                on = self.cleaned_data.get("expires_on")
                return self._end_of(on) if on else None
            case days:
                return self._now + timedelta(days=int(days or 90))

    @staticmethod
    def _end_of(day: date) -> datetime:
        return datetime.combine(day + timedelta(days=1), time(), tzinfo=UTC)


class RotateTokenForm(forms.Form):
    overlap = forms.TypedChoiceField(choices=OVERLAPS, coerce=int, initial=3_600)
    lasts = forms.TypedChoiceField(choices=LIVES, coerce=int, required=False, empty_value=None)


class RevokeTokenForm(forms.Form):
    leases = forms.ChoiceField(choices=LEASES, initial="expire")
    reason = forms.CharField(max_length=500, required=False)
