"""The forms to reserve a lock, to extend that and to hand it over."""

from typing import Any

from django import forms

from locks.dashboard.durations import DAY, HOUR, MINUTE, humanize
from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.engine.names import InvalidPath, canonical_name, validate
from locks.models import Space, User
from locks.models.lock import MAX_FENCING_TOKEN
from locks.runs.names import is_run_name
from locks.services.force_release import MAX_REASON

DURATIONS = (
    (15 * MINUTE, "15 minutes"), (30 * MINUTE, "30 minutes"), (HOUR, "1 hour"), (2 * HOUR, "2 hours"),
    (4 * HOUR, "4 hours"), (8 * HOUR, "8 hours"), (DAY, "1 day"), (3 * DAY, "3 days"), (7 * DAY, "1 week"),
)  # fmt: skip
DEFAULT_SECONDS = HOUR


def longest(space: Space) -> int:
    """For how many seconds a lock of the space can be reserved at once."""
    return min(space.max_ttl_seconds, space.max_hold_seconds or space.max_ttl_seconds)


def durations(space: Space) -> list[tuple[int, str]]:
    """Within the limits of the space, and the longest that they allow if it is none of these."""
    limit = longest(space)
    allowed = [(seconds, label) for seconds, label in DURATIONS if seconds <= limit]
    if limit not in dict(allowed) and limit < DURATIONS[-1][0]:
        allowed.append((limit, f"{humanize(limit)}, the longest here"))
    return allowed


class ReserveForm(forms.Form):
    """Without a name in the URL, the form asks for it."""

    name = forms.CharField(
        label="Name of the lock",
        max_length=256,
        widget=forms.TextInput({**IDENTIFIER, "placeholder": "deploy-main", "autofocus": True}),
    )
    reason = forms.CharField(
        help_text="Workers that ask for the lock see it, with your name.",
        error_messages={"required": "Enter a reason: workers that ask for the lock see it."},
        widget=forms.TextInput(NO_AUTOCOMPLETE),
    )
    seconds = forms.TypedChoiceField(label="For how long", coerce=int)

    def __init__(self, *args: Any, space: Space, name: str | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._space = space
        if name is not None:
            del self.fields["name"]
            self.fields["reason"].widget.attrs["autofocus"] = True
        self.fields["reason"] = _with_length(self.fields["reason"], min(MAX_REASON, space.max_metadata_length))
        _offer(self.fields["seconds"], space, "You can extend or release it earlier.")

    def clean_name(self) -> str:
        try:
            name = canonical_name(self.cleaned_data["name"], lambda: self._space.namespaces)
        except InvalidPath as error:
            raise forms.ValidationError(str(error)) from None
        if error := validate(name):
            raise forms.ValidationError(error)
        if is_run_name(name):
            raise forms.ValidationError("Names that start with 'layer:' or 'run:' belong to runs, and are for their actors.")
        return name
