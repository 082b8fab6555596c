"""The form to force-release a lock."""

from typing import Any

from django import forms
from django.utils.html import format_html

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.force_release import COOLDOWNS, MAX_REASON


class ForceReleaseForm(forms.Form):
    """`fencing_token` is the one that was shown: a later holder is not affected."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Kept in the history.",
        error_messages={"required": "Enter a reason: it is kept in the history."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
    lock_delay_seconds = forms.TypedChoiceField(
        label="Cooldown", coerce=int, choices=COOLDOWNS, initial=0, help_text="Time for the old holder to stop."
    )
    typed_name = forms.CharField(widget=forms.TextInput(IDENTIFIER))

    def __init__(self, *args: Any, name: str, must_type_name: bool, is_reserved: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        if must_type_name:
            why = "A person has reserved it." if is_reserved else "The holder is still heartbeating."
            self.fields["typed_name"].label = format_html('{} Type <span class="name">{}</span> to continue', why, name)
        else:
            del self.fields["typed_name"]

    def clean_typed_name(self) -> str:
        typed: str = self.cleaned_data["typed_name"]
        if typed != self._name:
            raise forms.ValidationError("Type the name exactly as shown: the lock is in use.")
        return typed
