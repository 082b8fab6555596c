"""The form that asks for the password, or for a code from users who have none."""

from django import forms

from locks.dashboard.form_rendering import ONE_TIME_CODE, password_widget

MAX_CODE = 40


class ConfirmPasswordForm(forms.Form):
    confirm_password = forms.CharField(
        label="Password", strip=False, widget=password_widget("current-password", autofocus=True)
    )


class ConfirmCodeForm(forms.Form):
    confirm_code = forms.CharField(
        label="Code from your authenticator app",
        max_length=MAX_CODE,
        widget=forms.TextInput(attrs={**ONE_TIME_CODE, "autofocus": True}),
    )
