"""The forms that create an invitation and accept one."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.password_validation import validate_password

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE, described_choice, password_widget
from locks.dashboard.team.roles import ROLE_DESCRIPTIONS
from locks.models import Role, User

# Django's form classes are generic for the type checker only.
if TYPE_CHECKING:
    UserForm = forms.ModelForm[User]
else:
    UserForm = forms.ModelForm

VALIDITY_DAYS = ((1, "1 day"), (7, "7 days"), (30, "30 days"))


class InviteForm(forms.Form):
    role = forms.TypedChoiceField(
        choices=[(role.value, described_choice(role.label, text)) for role, text in ROLE_DESCRIPTIONS.items()],
        coerce=Role,
        initial=Role.VIEWER,
        widget=forms.RadioSelect,
    )
    note = forms.CharField(
        max_length=100,
        required=False,
        help_text="Shown in the list of invitations and in the audit log.",
        widget=forms.TextInput(attrs={**NO_AUTOCOMPLETE, "placeholder": "Erin from QA"}),
    )
    days = forms.TypedChoiceField(label="The link is valid for", choices=VALIDITY_DAYS, coerce=int, initial=7)

    @property
    def validity(self) -> timedelta:
        return timedelta(days=self.cleaned_data["days"])


class JoinForm(forms.Form):
    code = forms.CharField(
        label="Invitation",
        widget=forms.PasswordInput(attrs={**IDENTIFIER, "placeholder": "octo_invite_…", "autofocus": True}),
    )

    def clean_code(self) -> str:
        """The code alone, also when the whole link was pasted."""
        code: str = self.cleaned_data["code"]
        return code.rpartition("#")[2]


class NewAccountForm(UserForm):
    """For an invited person without an account."""

    password = forms.CharField(
        strip=False,
        max_length=4096,
        help_text="At least ten characters, and not a common password.",
        widget=password_widget("new-password"),
    )

    class Meta:
        model = User
        fields = ("username", "email")
        labels = {"username": "User name", "email": "E-mail"}
        help_texts = {"username": ""}
        widgets = {
            "username": forms.TextInput(
                attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
            ),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        if User.with_login(username).exists():
            raise forms.ValidationError("This name is taken. If it is yours, sign in instead.")
        return username

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email and User.with_login(email).exists():
            raise forms.ValidationError("This address is taken. If it is yours, sign in instead.")
        return email

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "password" in cleaned:
            user = User(username=cleaned.get("username", ""), email=cleaned.get("email", ""))
            try:
                validate_password(cleaned["password"], user)
            except forms.ValidationError as error:
                self.add_error("password", error)
        return cleaned
