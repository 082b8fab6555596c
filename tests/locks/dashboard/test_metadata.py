"""What workers say about themselves, made readable and harmless."""

import pytest

from locks.dashboard.metadata import chips


def seen(metadata: str | None) -> list[tuple[str, str]]:
    return [(chip.key, chip.value) for chip in chips(metadata)]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, []),
        ("  ", []),
        ("host=runner-7 build=1842", [("host", "runner-7"), ("build", "1842")]),
        ("reason='two words' a=\"b c\"", [("reason", "two words"), ("a", "b c")]),
        ("just words, and n=1", [("", "just words, and"), ("n", "1")]),
        ('{"run": 7, "plan": "x", "tags": ["é"]}', [("run", "7"), ("plan", "x"), ("tags", '["é"]')]),
        ('{"a\\udc00": "\\ud800 x", "b": ["\\ud83d"]}', [("a?", "? x"), ("b", '["?"]')]),
        ("{not json", [("", "{not json")]),
        ("[1, 2]", [("", "[1, 2]")]),
        ("see https://ci.example/1 now", [("", "see"), ("", "https://ci.example/1"), ("", "now")]),
        ("a=1; b=2,", [("a", "1"), ("b", "2")]),
        ("описание=сборка 担当=田中", [("описание", "сборка"), ("担当", "田中")]),
        ("see https://wiki.example/x?a=1&b=2 too", [("", "see"), ("", "https://wiki.example/x?a=1&b=2"), ("", "too")]),
        ("run=7 https://ci.example/?job=3", [("run", "7"), ("", "https://ci.example/?job=3")]),
    ],
)
def test_pairs_objects_and_words_become_chips(metadata, expected):
    assert seen(metadata) == expected


@pytest.mark.parametrize(
    ("value", "is_link"),
    [
        ("https://ci.example/builds/1?a=b#c", True),
        ("http://10.0.0.1:8080/x", True),
        ("javascript:alert(1)", False),
        ("data:text/html,<script>", False),
        ("HTTPS://example", False),
        ("https://", False),
        ("https://bank.example@evil.example/", False),
        ("https://[::1", False),
        ("//evil.example", False),
    ],
)
def test_only_plain_web_urls_become_links(value, is_link):
    (chip,) = chips(f"url={value}")
    assert (chip.link == value) is is_link


def test_a_long_url_is_shown_by_its_host_and_its_end():
    (chip,) = chips("https://git.example/a/long/way/to/issues/1842")
    assert chip.label == "git.example/…/1842"
    assert chip.link == "https://git.example/a/long/way/to/issues/1842"
