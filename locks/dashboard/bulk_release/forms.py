"""The form that confirms a bulk release."""

from typing import Any

from django import forms
from django.utils.html import format_html

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.services.force_release import COOLDOWNS, MAX_REASON


class BulkReleaseForm(forms.Form):
    """`phrase` must be typed if any lock is still used: its holder is heartbeating, or a person has reserved it."""

    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Kept in the history of every lock.",
        error_messages={"required": "Enter a reason: it is kept in the history of every lock."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
    lock_delay_seconds = forms.TypedChoiceField(
        label="Cooldown", coerce=int, choices=COOLDOWNS, initial=0, help_text="Time for the old holders to stop."
    )
    typed = forms.CharField(widget=forms.TextInput(IDENTIFIER))

    def __init__(self, *args: Any, phrase: str, must_type: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phrase = phrase
        if must_type:
            required = f"Type “{phrase}” to continue: some of the locks are still used."
            self.fields["typed"].error_messages["required"] = required
            self.fields["typed"].label = format_html(
                'Some of the locks are still used. Type <span class="name">{}</span> to continue', phrase
            )
        else:
            del self.fields["typed"]

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed.casefold() != self._phrase:
            raise forms.ValidationError(self.fields["typed"].error_messages["required"])
        return typed
