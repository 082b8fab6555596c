"""The form to ask for the release of a lock."""

from django import forms

from locks.dashboard.form_rendering import NO_AUTOCOMPLETE
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.force_release import MAX_REASON


class ReleaseRequestForm(forms.Form):
    """`fencing_token` is that of the holder that was shown: the request does not concern the next one."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Shown to the operators, and kept in the history.",
        error_messages={"required": "Say why you need it: the operators will see it."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
