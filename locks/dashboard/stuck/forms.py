"""The form to snooze a stuck lock."""

from django import forms

from locks.dashboard.form_rendering import NO_AUTOCOMPLETE
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.force_release import MAX_REASON

SNOOZE_HOURS = ((1, "1 hour"), (4, "4 hours"), (24, "1 day"), (72, "3 days"), (168, "1 week"))


class SnoozeForm(forms.Form):
    """`fencing_token` is that of the holder that was shown; the next holder is not snoozed."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    hours = forms.TypedChoiceField(label="For how long", coerce=int, choices=SNOOZE_HOURS, initial=4)
    note = forms.CharField(
        max_length=MAX_REASON,
        help_text="Shown to the team beside the lock.",
        error_messages={"required": "Add a note: the team will see it."},
        widget=forms.TextInput({**NO_AUTOCOMPLETE, "autofocus": True}),
    )
