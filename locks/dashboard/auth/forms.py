"""The forms of sign-in."""

from django import forms

from locks.dashboard.form_rendering import ONE_TIME_CODE, password_widget

MAX_CODE = 40


class SignInForm(forms.Form):
    name = forms.CharField(
        label="User name or e-mail",
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        ),
    )
    password = forms.CharField(strip=False, widget=password_widget("current-password"))


class SecondStepForm(forms.Form):
    code = forms.CharField(
        label="Code from your authenticator app, or a recovery code",
        max_length=MAX_CODE,
        widget=forms.TextInput(attrs=ONE_TIME_CODE),
    )
