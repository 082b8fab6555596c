"""The forms that set up a second factor."""

from django import forms

from locks.dashboard.form_rendering import NO_AUTOCOMPLETE, ONE_TIME_CODE
from locks.services.mfa import MAX_NAME


class TotpForm(forms.Form):
    code = forms.CharField(
        label="Enter the six digits it shows",
        max_length=20,
        widget=forms.TextInput(attrs={**ONE_TIME_CODE, "autofocus": True}),
    )

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        return code.replace(" ", "")


class PasskeyForm(forms.Form):
    name = forms.CharField(
        label="Name of this device",
        max_length=MAX_NAME,
        required=False,
        empty_value="Passkey",
        widget=forms.TextInput(attrs={**NO_AUTOCOMPLETE, "placeholder": "Laptop", "autofocus": True}),
    )
