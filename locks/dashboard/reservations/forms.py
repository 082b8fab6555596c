"""The forms to reserve a lock, to extend that and to hand it over."""

from typing import Any

from django import forms
from django.core.validators import MaxLengthValidator
from django.db.models import QuerySet

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
        # The reason is the metadata of the lease.
        max_length = min(MAX_REASON, space.max_metadata_length)
        self.fields["reason"].validators.append(MaxLengthValidator(max_length))
        self.fields["reason"].widget.attrs["maxlength"] = max_length
        _offer_durations(self.fields["seconds"], space)

    def clean_name(self) -> str:
        try:
            name = canonical_name(self.cleaned_data["name"], lambda: self._space.namespaces)
        except InvalidPath as error:
            raise forms.ValidationError(str(error)) from None
        if problem := validate(name):
            raise forms.ValidationError(problem)
        if is_run_name(name):
            raise forms.ValidationError(
                "Names that start with 'layer:' or 'run:' belong to runs, and are for their actors."
            )
        return name


class ExtendForm(forms.Form):
    """`fencing_token` is that of the lease that was shown."""

    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    seconds = forms.TypedChoiceField(label="Extend by", coerce=int)

    def __init__(self, *args: Any, space: Space, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_durations(self.fields["seconds"], space)


class HandOverForm(forms.Form):
    fencing_token = forms.IntegerField(min_value=1, max_value=MAX_FENCING_TOKEN, widget=forms.HiddenInput)
    to = forms.ModelChoiceField(
        queryset=User.objects.none(),
        label="To",
        empty_label=None,
        help_text="Operators and admins in this space.",
        error_messages={
            "required": "Choose a colleague.",
            "invalid_choice": "Choose an operator or admin in this space.",
        },
    )

    def __init__(self, *args: Any, colleagues: QuerySet[User], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["to"].queryset = colleagues  # type: ignore[attr-defined]  # of a model choice


def _offer_durations(field: forms.Field, space: Space) -> None:
    assert isinstance(field, forms.TypedChoiceField)
    field.choices = durations(space)
    offered = [seconds for seconds, _label in durations(space)]
    field.initial = DEFAULT_SECONDS if DEFAULT_SECONDS in offered else offered[-1]
    limit = f"at most {_label(longest(space))} from now"
    if space.max_hold_seconds:
        limit += f", and {_label(space.max_hold_seconds)} in all"
    field.help_text = f"This space allows {limit}."


def _label(seconds: int) -> str:
    return dict(DURATIONS).get(seconds) or humanize(seconds)
