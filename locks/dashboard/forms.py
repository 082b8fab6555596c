"""What people fill in."""

from typing import Any

from django import forms

from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.force_release import LOCK_DELAYS, MAX_REASON

SNOOZE_HOURS = ((1, "1 hour"), (4, "4 hours"), (24, "1 day"), (72, "3 days"), (168, "1 week"))


class BulkReleaseForm(forms.Form):
    """`phrase` is typed where any holder is still at work."""

    reason = forms.CharField(
        max_length=MAX_REASON,
        error_messages={"required": "Say why: the reason stays in the history of every lock."},
    )
    lock_delay_seconds = forms.TypedChoiceField(coerce=int, choices=LOCK_DELAYS, initial=0)
    typed = forms.CharField(required=False, strip=True)

    def __init__(self, *args: Any, phrase: str, must_type: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phrase = phrase
        self._must_type = must_type

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if self._must_type and typed.casefold() != self._phrase:
            raise forms.ValidationError(f"Type “{self._phrase}” to go on: some of the holders are still at work.")
        return typed


class SnoozeForm(forms.Form):
    """`fencing_token` is that of the holder who is left in peace; the next one is not."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    hours = forms.TypedChoiceField(coerce=int, choices=SNOOZE_HOURS, initial=4)
    note = forms.CharField(
        max_length=MAX_REASON, error_messages={"required": "Say what is known: others will read it."}
    )


class ForceReleaseForm(forms.Form):
    """`fencing_token` is the one that was shown: whoever holds the lock under another is not meant."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=MAX_REASON,
        error_messages={"required": "Say why: the reason stays in the history."},
    )
    lock_delay_seconds = forms.TypedChoiceField(coerce=int, choices=LOCK_DELAYS, initial=0)
    typed_name = forms.CharField(required=False, strip=True)

    def __init__(self, *args: Any, name: str, must_type_name: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self._must_type_name = must_type_name

    def clean_typed_name(self) -> str:
        typed: str = self.cleaned_data["typed_name"]
        if self._must_type_name and typed != self._name:
            raise forms.ValidationError("Type the name exactly as it is shown: the holder is still at work.")
        return typed
