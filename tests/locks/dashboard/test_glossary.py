"""The terms behind the question marks are those of the documentation."""

import re
from pathlib import Path

import pytest

from locks.dashboard.glossary import GLOSSARY, term_id

ROOT = Path(__file__).parents[3]


def test_the_documentation_has_the_same_texts():
    text = (ROOT / "docs" / "glossary.md").read_text()
    documented = {
        term.lower(): " ".join(definition.split())
        for term, definition in re.findall(r"^\*\*(.+?)\*\*: (.+?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    }
    assert documented.items() >= {term.lower(): definition for term, definition in GLOSSARY.items()}.items()


def test_templates_explain_known_terms_only():
    """An unknown one would fail the page only where it is shown."""
    used = {
        term
        for template in (ROOT / "templates").rglob("*.html")
        for term in re.findall(r'{% help_on "([^"]*)" %}', template.read_text())
    }
    assert used
    assert used <= set(GLOSSARY)


@pytest.mark.django_db
def test_a_question_mark_opens_the_definition_on_the_same_page(space, worker, victor, visit):
    worker.takes("job")
    shown = visit(victor).get("/ui/blue/main/").text
    for term in ("waiting", "overdue"):
        assert f'popovertarget="{term_id(term)}"' in shown
        assert shown.count(f'id="{term_id(term)}"') == 1
