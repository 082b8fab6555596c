"""The forms that create a space, set its limits and archive it."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.dashboard.team.forms import SLUG_HELP
from locks.models import Space, Team

# Django's form classes are generic for the type checker only.
if TYPE_CHECKING:
    SpaceForm = forms.ModelForm[Space]
else:
    SpaceForm = forms.ModelForm

# In the order of the form. The help texts are the model's.
LIMIT_LABELS = {
    "default_ttl_seconds": "Default TTL (seconds)",
    "max_ttl_seconds": "Max TTL (seconds)",
    "max_hold_seconds": "Max hold (seconds)",
    "max_live_locks": "Max locks",
    "max_names": "Max names",
    "max_events": "Max events",
    "max_metadata_length": "Max metadata (characters)",
    "max_waiters_per_name": "Max waiters per lock",
    "max_waiters": "Max waiters in the space",
    "requests_per_second": "Requests/s per token",
    "octostore_compatibility": "OctoStore compatibility",
    "allow_non_expiring_tokens": "Allow tokens that never expire",
    "viewers_see_peer_values": "Show viewers the values under /peer",
}


def _at_most(value: int, ceiling: int) -> int:
    """The operator of the server sets the ceiling, so that no team can fill the disk of all."""
    if value > ceiling:
        raise forms.ValidationError(f"At most {ceiling:,} on this server.")
    return value


class LimitsForm(SpaceForm):
    """Name and limits. The model validates limits that depend on each other."""

    class Meta:
        model = Space
        fields = ("name", *LIMIT_LABELS)
        labels = LIMIT_LABELS
        widgets = {"name": forms.TextInput(attrs=NO_AUTOCOMPLETE)}

    def clean_max_names(self) -> int:
        return _at_most(self.cleaned_data["max_names"], settings.MAX_NAMES)

    def clean_max_events(self) -> int:
        return _at_most(self.cleaned_data["max_events"], settings.MAX_EVENTS)

    def limits(self) -> list[forms.BoundField]:
        return [self[name] for name in LIMIT_LABELS]

    @property
    def changes(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.changed_data}


class NewSpaceForm(LimitsForm):
    class Meta(LimitsForm.Meta):
        fields = ("name", "slug", *LIMIT_LABELS)
        labels = {"slug": "Address", **LIMIT_LABELS}
        help_texts = {"slug": SLUG_HELP}
        widgets = {
            "name": forms.TextInput(attrs={**NO_AUTOCOMPLETE, "placeholder": "Staging", "autofocus": True}),
            "slug": forms.TextInput(attrs={**IDENTIFIER, "placeholder": "staging"}),
        }

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._team = team

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if Space.objects.filter(team=self._team, slug=slug).exists():
            raise forms.ValidationError("A space of the team has, or had, this address. Choose another.")
        return slug


class ArchiveForm(forms.Form):
    release = forms.BooleanField(
        label="Release the locks that are held", required=False, help_text="Each release is recorded in the history."
    )
    typed_name = forms.CharField(widget=forms.TextInput(attrs={**IDENTIFIER, "autofocus": True}))

    def __init__(self, *args: Any, slug: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._slug = slug
        self.fields["typed_name"].label = f"Type {slug} to confirm"

    def clean_typed_name(self) -> str:
        typed_name: str = self.cleaned_data["typed_name"]
        if typed_name != self._slug:
            raise forms.ValidationError("Type the address exactly as it is shown.")
        return typed_name
