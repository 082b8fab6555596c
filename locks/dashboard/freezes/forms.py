"""The form to freeze a prefix or the whole space."""

from datetime import timedelta
from typing import Any

from django import forms

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.engine.names import MAX_NAME_BYTES, InvalidPath, canonical_prefix
from locks.models import Space
from locks.services.force_release import MAX_REASON

DURATIONS = (
    (15, "15 minutes"), (30, "30 minutes"), (60, "1 hour"), (120, "2 hours"), (240, "4 hours"), (480, "8 hours"),
    (1440, "1 day"), (4320, "3 days"), (10_080, "1 week"), (43_200, "30 days"),
)  # fmt: skip


class FreezeForm(forms.Form):
    prefix = forms.CharField(  # type: ignore[assignment]  # the metaclass takes it; the form keeps its own `prefix`
        required=False,
        max_length=MAX_NAME_BYTES,
        help_text="Names that start with it are frozen. Empty: every name of the space.",
        widget=forms.TextInput({**IDENTIFIER, "placeholder": "deploy/"}),
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Refused requests return it. It is recorded in the history.",
        error_messages={"required": "Enter a reason: workers that are refused are told it."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
    minutes = forms.TypedChoiceField(
        label="For how long", coerce=int, choices=DURATIONS, initial=120, help_text="You can lift it earlier."
    )

    def __init__(self, *args: Any, space: Space, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._space = space

    def clean_prefix(self) -> str:
        try:
            return canonical_prefix(self.cleaned_data["prefix"], lambda: self._space.namespaces)
        except InvalidPath as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def duration(self) -> timedelta:
        return timedelta(minutes=self.cleaned_data["minutes"])
