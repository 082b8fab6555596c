"""The forms of the Team page."""

from typing import TYPE_CHECKING, Any

from django import forms

from locks.dashboard.form_rendering import IDENTIFIER, NO_AUTOCOMPLETE
from locks.models import Membership, Role, Space, Team
from locks.models.space_role import SPACE_ROLES
from locks.services.members import AS_IN_TEAM

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


class SpaceRolesForm(forms.Form):
    """A field for each active space of the team."""

    def __init__(self, *args: Any, membership: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._spaces = {f"space_{space.pk}": space for space in membership.team.spaces.filter(archived_at=None)}
        present = {role.space_id: role.role for role in membership.space_roles.all()}
        choices = [("", f"{AS_IN_TEAM} ({membership.role})"), *((role.value, role.value) for role in SPACE_ROLES)]
        for field, space in self._spaces.items():
            self.fields[field] = forms.ChoiceField(
                label=space.name, choices=choices, required=False, initial=present.get(space.pk, "")
            )

    @property
    def roles(self) -> dict[Space, Role | None]:
        chosen = {space: self.cleaned_data[field] for field, space in self._spaces.items()}
        return {space: Role(role) if role else None for space, role in chosen.items()}


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role.choices, coerce=Role)
