"""How forms are rendered: one template for every field, and the widgets and attributes that several forms share."""

from django import forms
from django.forms.renderers import TemplatesSetting
from django.utils.html import format_html
from django.utils.safestring import SafeString

NO_AUTOCOMPLETE = {"autocomplete": "off"}
# Names, prefixes and codes: not words that a keyboard should complete or correct.
IDENTIFIER = {"class": "mono", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
ONE_TIME_CODE = {**IDENTIFIER, "autocomplete": "one-time-code", "inputmode": "numeric"}


class FormRenderer(TemplatesSetting):
    form_template_name = "layouts/form.html"
    field_template_name = "layouts/field.html"


def form_status(form: forms.BaseForm) -> int:
    """The status of a page with a form: it is shown for the first time, or again because of its errors."""
    return 422 if form.is_bound else 200


def password_widget(autocomplete: str, **attrs: str | bool) -> forms.PasswordInput:
    return forms.PasswordInput(attrs={"autocomplete": autocomplete, **attrs})


def described_choice(label: str, description: str) -> SafeString:
    """The label of a radio button or checkbox with a second, fainter part."""
    return format_html('<b>{}</b> <span class="field-hint">{}</span>', label, description)
