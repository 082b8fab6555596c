"""The form to save the filters of a page."""

from django import forms
from django.http import QueryDict

from locks.models.saved_filter import MAX_NAME, MAX_QUERY

# Pages with saved filters.
PAGES = ("now", "owners", "activity")
# Parameters that say which part of the list is shown, not what is in it.
_POSITION = ("page", "open", "cursor", "around")


class SavedFilterForm(forms.Form):
    page = forms.ChoiceField(choices=[(page, page) for page in PAGES])
    name = forms.CharField(max_length=MAX_NAME, error_messages={"required": "Enter a name."})
    query = forms.CharField(max_length=MAX_QUERY, required=False)

    def clean_query(self) -> str:
        query = QueryDict(self.cleaned_data["query"].removeprefix("?"), mutable=True)
        for name in [name for name in query if name in _POSITION or not any(query.getlist(name))]:
            del query[name]
        if not query:
            raise forms.ValidationError("Filter the list first.")
        encoded = query.urlencode()
        if len(encoded) > MAX_QUERY:
            raise forms.ValidationError(f"The filters are longer than {MAX_QUERY} characters.")
        return encoded
