"""What people fill in."""

from typing import Any

from django import forms

from locks.models.lock import HIGHEST_FENCING_TOKEN

LONGEST_REASON = 500
DELAYS = ((0, "No delay: the next claim takes it"), (10, "10 seconds"), (30, "30 seconds"), (60, "1 minute"))


class ForceReleaseForm(forms.Form):
    """`fencing_token` is the one that was shown: whoever holds the lock under another is not meant."""

    fencing_token = forms.IntegerField(min_value=1, max_value=HIGHEST_FENCING_TOKEN, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        error_messages={"required": "Say why: the reason stays in the history."},
    )
    lock_delay_seconds = forms.TypedChoiceField(coerce=int, choices=DELAYS, initial=0)
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
