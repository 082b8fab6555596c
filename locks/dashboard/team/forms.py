"""What people fill in about a team: its name, roles, invitations, its spaces and their limits."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.password_validation import validate_password

from locks.models import Role, Space, Team, User

# Django's classes are generic to the type checker only.
if TYPE_CHECKING:
    _TeamForm = forms.ModelForm[Team]
    _SpaceForm = forms.ModelForm[Space]
    _UserForm = forms.ModelForm[User]
else:
    _TeamForm = _SpaceForm = _UserForm = forms.ModelForm

INVITE_LIVES = ((1, "1 day"), (7, "7 days"), (30, "30 days"))
ROLE_NOTES = (
    (Role.VIEWER, "sees locks, owners, history and tokens' names"),
    (Role.OPERATOR, "also takes locks from their holders by force"),
    (Role.ADMIN, "also manages members, tokens, spaces and their limits"),
)
assert {role for role, _ in ROLE_NOTES} == set(Role)

# In the order of the form. Those that the model does not have are left out.
LIMITS = (
    "default_ttl_seconds", "max_ttl_seconds", "max_hold_seconds", "max_live_locks", "max_metadata_length",
    "max_waiters_per_name", "max_waiters", "requests_per_second", "dedupe_by_metadata", "allow_non_expiring_tokens",
)  # fmt: skip
LABELS = {
    "default_ttl_seconds": "Default TTL",
    "max_ttl_seconds": "Longest TTL",
    "max_hold_seconds": "Longest hold",
    "max_live_locks": "Most live locks",
    "max_metadata_length": "Longest metadata",
    "max_waiters_per_name": "Most waiters for one name",
    "max_waiters": "Most waiters in the space",
    "requests_per_second": "Requests a second",
    "dedupe_by_metadata": "Recognise holders as OctoStore does",
    "allow_non_expiring_tokens": "Allow tokens that never expire",
}
UNITS = {
    "default_ttl_seconds": "seconds", "max_ttl_seconds": "seconds", "max_hold_seconds": "seconds",
    "max_metadata_length": "characters", "max_live_locks": "locks", "requests_per_second": "for each token",
    "max_waiters_per_name": "waiters", "max_waiters": "waiters",
}  # fmt: skip
_FIELDS = {field.name for field in Space._meta.get_fields()}
SHOWN_LIMITS = tuple(name for name in LIMITS if name in _FIELDS)


class TeamNameForm(forms.Form):
    name = forms.CharField(max_length=100, error_messages={"required": "A team needs a name."})


class NewTeamForm(_TeamForm):
    class Meta:
        model = Team
        fields = ("name", "slug")


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role.choices, coerce=Role)


class InviteForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role.choices, coerce=Role, initial=Role.VIEWER)
    days = forms.TypedChoiceField(choices=INVITE_LIVES, coerce=int, initial=7)
    note = forms.CharField(max_length=100, required=False)

    @property
    def lasts(self) -> timedelta:
        return timedelta(days=self.cleaned_data["days"])


class LimitsForm(_SpaceForm):
    """Name and limits. What contradicts another is refused by the model, which checks them together."""

    class Meta:
        model = Space
        fields = ("name", *SHOWN_LIMITS)

    @property
    def limits(self) -> list[tuple[forms.BoundField, str, str]]:
        return [(self[name], LABELS[name], UNITS.get(name, "")) for name in SHOWN_LIMITS]

    @property
    def changes(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.changed_data}


class NewSpaceForm(LimitsForm):
    class Meta:
        model = Space
        fields = ("name", "slug", *SHOWN_LIMITS)

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._team = team

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if Space.objects.filter(team=self._team, slug=slug).exists():
            raise forms.ValidationError("The team has, or had, a space with this address. Take another.")
        return slug


class ArchiveForm(forms.Form):
    typed_name = forms.CharField()
    release = forms.BooleanField(required=False)

    def __init__(self, *args: Any, slug: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._slug = slug

    def clean_typed_name(self) -> str:
        typed: str = self.cleaned_data["typed_name"]
        if typed != self._slug:
            raise forms.ValidationError("Type the address exactly as it is shown.")
        return typed


class NewAccountForm(_UserForm):
    """For somebody who was invited and has no account yet. The rules for passwords hold."""

    password = forms.CharField(strip=False, max_length=4096)

    class Meta:
        model = User
        fields = ("username", "email")

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        if User.with_login(username).exists():
            raise forms.ValidationError("Somebody has this name. If it is you, sign in instead.")
        return username

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email and User.with_login(email).exists():
            raise forms.ValidationError("Somebody has this address. If it is you, sign in instead.")
        return email

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "password" in cleaned:
            person = User(username=cleaned.get("username", ""), email=cleaned.get("email", ""))
            try:
                validate_password(cleaned["password"], person)
            except forms.ValidationError as wrong:
                self.add_error("password", wrong)
        return cleaned
