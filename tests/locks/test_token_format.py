import pytest

from locks import token_format


def test_a_generated_token_is_recognised():
    text = token_format.generate()
    presented = token_format.parse(text)
    assert presented is not None
    assert presented.public_id == text.split("_")[1]
    assert len(presented.digest) == 32


def test_tokens_differ():
    assert len({token_format.generate() for _ in range(100)}) == 100


def test_the_checksum_detects_a_single_wrong_letter():
    text = token_format.generate()
    for position in range(5, len(text)):
        if text[position] == "_":
            continue
        letter = "a" if text[position] != "a" else "b"
        assert token_format.parse(text[:position] + letter + text[position + 1 :]) is None


@pytest.mark.parametrize("text", ["", "octo_", "Bearer x", "octo_abc_def", "octo_" + "é" * 12 + "_" + "a" * 42])
def test_what_does_not_look_like_a_token_is_none(text):
    assert token_format.parse(text) is None


def test_the_representation_hides_the_digest():
    assert "digest" not in repr(token_format.parse(token_format.generate()))
