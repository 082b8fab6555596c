"""Names, owners and metadata of any direction, and with characters that hide."""

import pytest

from locks.dashboard.untrusted_text import isolate, visible

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runner-7", "runner-7"),
        ("a\x00b\x1b[31m", "a\u2400b\u241b[31m"),
        ("del\x7f", "del\u2421"),
        ("evil\u202efdp.exe", "evil[U+202E]fdp.exe"),
        ("zero\u200bwidth", "zero[U+200B]width"),
        ("two\nlines\tand tab", "two\nlines\tand tab"),
        (None, ""),
    ],
)
def test_hidden_characters_are_shown(text, shown):
    assert visible(text) == shown


def test_only_text_of_another_direction_is_isolated_in_sentences():
    assert isolate("runner-7") == "runner-7"
    assert isolate("\u05e8\u05e5") == "\u2068\u05e8\u05e5\u2069"


@pytest.mark.parametrize("path", ["", "owners", "locks/job", "activity"])
def test_pages_isolate_owners_and_show_what_hides(worker, visit, victor, now_url, path):
    worker.takes("job", owner="evil\u202erennur", metadata="step=\u05e8\u05e5")
    text = visit(victor).get(now_url + path).content.decode()
    assert "\u202e" not in text
    assert "evil[U+202E]rennur" in text
    if path in ("", "locks/job"):
        assert "<bdi>\u05e8\u05e5</bdi>" in text
