"""The forms of the Team page."""

from typing import TYPE_CHECKING

from django import forms

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.models import Role, Team

# Django's form classes are generic for the type checker only.
if TYPE_CHECKING:
    TeamForm = forms.ModelForm[Team]
else:
    TeamForm = forms.ModelForm

SLUG_HELP = "Lowercase letters, digits and hyphens. It cannot be changed later."


class TeamNameForm(forms.Form):
    name = forms.CharField(max_length=100, error_messages={"required": "A team needs a name."})


class NewTeamForm(TeamForm):
    class Meta:
        model = Team
        fields = ("name", "slug")
        labels = {"slug": "Address"}
        help_texts = {"slug": SLUG_HELP}
        widgets = {
            "name": forms.TextInput(attrs={**NO_AUTOCOMPLETE, "placeholder": "Harbor", "autofocus": True}),
            "slug": forms.TextInput(attrs={**IDENTIFIER, "placeholder": "harbor"}),
        }


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role.choices, coerce=Role)
