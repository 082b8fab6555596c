"""The form of a space's namespaces and lock policy."""

import re
from typing import Any

from django import forms

from locks.dashboard.form_rendering import IDENTIFIER, described_choice
from locks.engine.names import NAMESPACE
from locks.models import Space
from locks.models.space import LockPolicy, NamespaceRule
from locks.services.namespaces import InvalidNamespace, check_namespaces

RULE_CHOICES = [(rule.value, f"{rule.value}: {rule.label}") for rule in NamespaceRule]
REMOVED = ("", "none: plain names")
POLICY_CHOICES = [
    (policy.value, described_choice(policy.value, policy.label.capitalize() + ".")) for policy in LockPolicy
]


class NamespacesForm(forms.Form):
    """A field for the rule of each namespace, and two for a new one."""

    new_namespace = forms.CharField(
        label="New namespace",
        required=False,
        max_length=32,
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "doc:"}),
    )
    new_rule = forms.ChoiceField(label="Its rule", required=False, choices=RULE_CHOICES, initial=NamespaceRule.TREE)
    lock_policy = forms.ChoiceField(label="Lock policy", choices=POLICY_CHOICES, widget=forms.RadioSelect)
    name = forms.CharField(
        label="Try a name",
        required=False,
        max_length=256,
        widget=forms.TextInput(attrs={**IDENTIFIER, "placeholder": "path:src"}),
    )

    def __init__(self, *args: Any, space: Space, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["lock_policy"].initial = space.lock_policy
        self._namespaces = sorted(space.namespaces)
        for namespace, rule in space.namespaces.items():
            self.fields[self._field(namespace)] = forms.ChoiceField(
                label=namespace, required=False, choices=[*RULE_CHOICES, REMOVED], initial=rule
            )

    @staticmethod
    def _field(namespace: str) -> str:
        return f"rule-{namespace.removesuffix(':')}"

    def rules(self) -> list[forms.BoundField]:
        return [self[self._field(namespace)] for namespace in self._namespaces]

    def clean_new_namespace(self) -> str:
        namespace: str = self.cleaned_data["new_namespace"].strip()
        if namespace and not namespace.endswith(":"):
            namespace += ":"
        if namespace and not re.fullmatch(NAMESPACE, namespace):
            raise forms.ValidationError("Lowercase letters, digits, '-' and '_', at most 31, then a colon.")
        return namespace

    def clean(self) -> None:
        try:
            check_namespaces(self.namespaces)
        except InvalidNamespace as error:
            self.add_error("new_namespace", str(error))

    @property
    def namespaces(self) -> dict[str, str]:
        """The table that the form describes."""
        rules = {namespace: self.cleaned_data.get(self._field(namespace), "") for namespace in self._namespaces}
        new = self.cleaned_data.get("new_namespace")
        if new:
            rules[new] = self.cleaned_data.get("new_rule") or NamespaceRule.TREE
        return {namespace: rule for namespace, rule in rules.items() if rule}
