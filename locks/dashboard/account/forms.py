"""What people fill in about themselves."""

from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password

from locks.models import User


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("first_name", "last_name", "email")

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"].strip()
        if email and User.with_login(email).exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("Somebody else has this address.")
        return email


class PasswordForm(forms.Form):
    """Twice, since what is typed is not seen; with the one they have, for those who have one."""

    current = forms.CharField(strip=False, max_length=200, required=False)
    password = forms.CharField(strip=False, max_length=200, error_messages={"required": "Choose a password."})
    again = forms.CharField(strip=False, max_length=200, error_messages={"required": "Type it a second time."})

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self._user)
        return password

    def clean(self) -> None:
        typed, again = self.cleaned_data.get("password"), self.cleaned_data.get("again")
        if typed is not None and again is not None and typed != again:
            self.add_error("again", "The two are not the same.")
