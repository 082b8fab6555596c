"""The form of a note on a lock or a prefix."""

from typing import Any

from django import forms

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.dashboard.metadata import is_web_url
from locks.engine.names import canonical_filter
from locks.models import Space
from locks.models.note import MAX_NOTE, MAX_RUNBOOK_URL


class NoteForm(forms.Form):
    text = forms.CharField(
        label="Handover note",
        max_length=MAX_NOTE,
        required=False,
        widget=forms.Textarea({**NO_AUTOCOMPLETE, "rows": 4, "autofocus": True}),
    )
    runbook_url = forms.CharField(
        label="Runbook",
        max_length=MAX_RUNBOOK_URL,
        required=False,
        widget=forms.TextInput({**IDENTIFIER, "inputmode": "url", "placeholder": "https://"}),
    )
    name = forms.CharField(
        label="For",
        max_length=256,
        strip=False,
        help_text="The name of this lock, or its beginning.",
        widget=forms.TextInput(IDENTIFIER),
    )
    is_prefix = forms.BooleanField(label="And all names that begin with it", required=False)

    def __init__(self, *args: Any, lock_name: str, space: Space, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock_name = lock_name
        self._space = space

    def clean_runbook_url(self) -> str:
        url: str = self.cleaned_data["runbook_url"]
        if url and not is_web_url(url):
            raise forms.ValidationError("Enter a URL that begins with https:// or http://.")
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        name, is_prefix = cleaned.get("name", ""), cleaned.get("is_prefix", False)
        name = canonical_filter(name, lambda: self._space.namespaces, is_prefix=is_prefix)
        if is_prefix and not self._lock_name.startswith(name):
            self.add_error("name", f"Enter a prefix of {self._lock_name}.")
        elif not is_prefix and name != self._lock_name:
            self.add_error(
                "name", f"Enter {self._lock_name}, or select that the note is for all names with the prefix."
            )
        return {**cleaned, "name": name}
