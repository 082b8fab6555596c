"""The forms that finish a run and end an actor, with a reason."""

from django import forms

from locks.dashboard.form_rendering import NO_AUTOCOMPLETE
from locks.services.force_release import MAX_REASON


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Recorded in the history with every lease that ends.",
        error_messages={"required": "Enter a reason: it is recorded in the history."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
