"""The forms of the account page."""

from functools import cache
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django import forms
from django.contrib.auth.password_validation import validate_password

from locks.dashboard.form_rendering import password_widget
from locks.models import User

# Django's form classes are generic for the type checker only.
if TYPE_CHECKING:
    UserForm = forms.ModelForm[User]
else:
    UserForm = forms.ModelForm


@cache
def _time_zones() -> list[tuple[str, str]]:
    """Read once: that opens the file of every zone."""
    zones = sorted(available_timezones() - {"UTC", "Factory", "localtime"})
    return [("UTC", "UTC"), *((zone, zone.replace("_", " ")) for zone in zones)]


class ProfileForm(UserForm):
    timezone = forms.ChoiceField(
        label="Time zone", choices=_time_zones, required=False, help_text="Pages show times in it, and UTC on hover."
    )

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "timezone")
        labels = {"email": "E-mail"}
        widgets = {
            "first_name": forms.TextInput(attrs={"autocomplete": "given-name"}),
            "last_name": forms.TextInput(attrs={"autocomplete": "family-name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }

    def clean_timezone(self) -> str:
        return self.cleaned_data["timezone"] or self.instance.timezone

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"].strip()
        if email and User.with_login(email).exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("Another account has this address.")
        return email


class PasswordForm(forms.Form):
    """`current` is asked for if the account has a password."""

    current = forms.CharField(
        label="Current password", strip=False, max_length=200, widget=password_widget("current-password")
    )
    password = forms.CharField(
        label="New password",
        strip=False,
        max_length=200,
        widget=password_widget("new-password", minlength="10"),
        error_messages={"required": "Choose a password."},
    )
    again = forms.CharField(
        label="Confirm password",
        strip=False,
        max_length=200,
        widget=password_widget("new-password"),
        error_messages={"required": "Enter it a second time."},
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user
        if not user.has_usable_password():
            del self.fields["current"]

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self._user)
        return password

    def clean(self) -> None:
        password, again = self.cleaned_data.get("password"), self.cleaned_data.get("again")
        if password is not None and again is not None and password != again:
            self.add_error("again", "The passwords differ.")
