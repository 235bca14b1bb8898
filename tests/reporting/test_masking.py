"""No secret is shown, however it is cut, nested or written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.reporting.masking import LONG_PIECE, MaskedStream, Masker, looks_secret

TOKEN = "ghp_0123456789abcdef"


def masker(*secrets):
    return Masker({f"S{number}_TOKEN": secret for number, secret in enumerate(secrets)})


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("API_KEY", True),
        ("anthropic_api_key", True),
        ("KEY", True),
        ("GITHUB_TOKEN", True),
        ("AwsSecret", True),
        ("PASSWORD_FILE", True),
        ("DB_PASSWORD", True),
        ("GOOGLE_CREDENTIALS_JSON", True),
        ("TOKEN_COUNT", False),
        ("KEYBOARD", False),
        ("SECRETARY", False),
        ("PATH", False),
        ("", False),
    ],
)
def test_names_that_look_secret(name, secret):
    assert looks_secret(name) is secret


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        pytest.param([TOKEN], f"a {TOKEN} b {TOKEN}", "a *** b ***", id="twice"),
        pytest.param([TOKEN], TOKEN * 2, "******", id="side by side"),
        pytest.param([TOKEN], TOKEN[:-1], TOKEN[:-1], id="not all of it"),
        pytest.param([TOKEN], "no secret", "no secret", id="none there"),
        pytest.param(["1234567"], "1234567", "1234567", id="too short to be one"),
        pytest.param(["12345678"], "012345678", "0***", id="just long enough"),
        pytest.param([f" {TOKEN}\n"], TOKEN, "***", id="blanks around it in the environment"),
        pytest.param(
            ["abcdefgh", "xabcdefghx"], "xabcdefghx abcdefgh", "*** ***", id="one in the other"
        ),
        pytest.param(["abcdefgh", "efghijkl"], "abcdefghijkl", "***", id="overlapping"),
        pytest.param(["aaaaaaaa"], "a" * 20 + "b", "***b", id="overlapping itself"),
        pytest.param(["line one\nline two"], "line one\nline two", "***", id="several lines"),
        pytest.param(["line one\nline two"], "line one\r\nline two", "***", id="CR LF"),
        pytest.param(["line one\nline two"], r"line one\nline two", "***", id="as JSON"),
        pytest.param(
            ['quo"te\\back'], json.dumps('x quo"te\\back'), '"x ***"', id="quotes in JSON"
        ),
        pytest.param(["pässwörter"], json.dumps("pässwörter"), '"***"', id="as ASCII in JSON"),
        pytest.param(["it's secret"], repr("\"it's secret"), "'\"***'", id="as Python writes it"),
        pytest.param(["caf\udce9 secret"], "caf\ufffd secret", "***", id="not UTF-8, as read"),
        pytest.param(["\ud800 lone one"], "\ud800 lone one", "***", id="a lone surrogate"),
        pytest.param([], "", "", id="nothing at all"),
    ],
)
def test_masking(secrets, text, shown):
    assert masker(*secrets).mask(text) == shown


def test_only_values_of_names_that_look_secret():
    mask = Masker({"HOME": "/home/somebody", "API_KEY": TOKEN}).mask
    assert mask(f"/home/somebody {TOKEN}") == "/home/somebody ***"


@pytest.mark.parametrize(
    ("secret", "data", "shown"),
    [
        pytest.param("pässwörter", "x pässwörter".encode(), b"x ***", id="UTF-8"),
        pytest.param("caf\udce9 secret", b"caf\xe9 secret", b"***", id="not UTF-8"),
        pytest.param(TOKEN, b"nothing \xff", b"nothing \xff", id="none there"),
    ],
)
def test_bytes(secret, data, shown):
    assert masker(secret).mask_bytes(data) == shown


def test_a_text_without_secrets_is_not_copied():
    text = "x" * 100
    assert masker().mask(text) is text
    assert MaskedStream(masker()).feed(text) is text


@pytest.mark.parametrize(
    ("secrets", "fed", "given"),
    [
        pytest.param([TOKEN], [f"a {TOKEN} b"], ["a *** b", ""], id="in one piece"),
        pytest.param([TOKEN], ["a ghp_01", "23456789abcdef b"], ["a ", "*** b", ""], id="in two"),
        pytest.param([TOKEN], ["a ghp_01", "x"], ["a ", "ghp_01x", ""], id="it was none"),
        pytest.param([TOKEN], ["ghp_0123"], ["", "ghp_0123"], id="it never became one"),
        pytest.param([TOKEN], ["a line\n"], ["a line\n", ""], id="nothing is held for nothing"),
        pytest.param(
            ["abcdefgh", "efghijkl"], ["abcdefgh", "ijkl."], ["***", ".", ""], id="overlapping"
        ),
        pytest.param(
            ["abcdefgh", "efghijkl"], ["abcdefgh", "x"], ["***", "x", ""], id="it did not go on"
        ),
        pytest.param(
            ["aaaaaaaa"], ["aaaaaaaa", "aaaa", "b"], ["***", "", "b", ""], id="overlapping itself"
        ),
        pytest.param(
            ["abcdefgh", "abcdefghijkl"],
            ["abcdefghij"],
            ["", "***ij"],
            id="the shorter one after all",
        ),
    ],
)
def test_a_stream(secrets, fed, given):
    stream = MaskedStream(masker(*secrets))
    assert [*(stream.feed(text) for text in fed), stream.finish()] == given


def test_never_is_more_held_back_than_a_secret_is_long():
    stream = MaskedStream(masker(TOKEN))
    fed = 0
    for char in TOKEN[:-1] * 3:
        fed += 1
        fed -= len(stream.feed(char))
        assert fed < len(TOKEN)


# Few letters, so that secrets repeat, nest and overlap.
letters = st.text("ab", min_size=8, max_size=12)


@st.composite
def cut_texts(draw, secrets):
    text = draw(
        st.lists(st.sampled_from(secrets) | st.text("ab.", max_size=5), max_size=8).map("".join)
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, [text[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]


@given(st.data(), st.lists(letters, min_size=1, max_size=3))
def test_a_stream_is_masked_as_the_whole_text_whatever_the_pieces(data, secrets):
    text, pieces = data.draw(cut_texts(secrets))
    stream = MaskedStream(masker(*secrets))
    given_out = "".join([*map(stream.feed, pieces), stream.finish()])
    assert given_out == masker(*secrets).mask(text)


@given(st.data(), st.lists(letters, min_size=1, max_size=3))
def test_no_secret_and_no_part_of_an_occurrence_is_left(data, secrets):
    text, _ = data.draw(cut_texts(secrets))
    hidden = {
        place
        for secret in secrets
        for start in range(len(text))
        if text.startswith(secret, start)
        for place in range(start, start + len(secret))
    }
    left = masker(*secrets).mask(text)
    assert left.replace("***", "") == "".join(
        char for place, char in enumerate(text) if place not in hidden
    )
    assert not any(secret in left for secret in secrets)


@given(st.data(), st.lists(st.text(min_size=8, max_size=12), min_size=1, max_size=2))
def test_bytes_are_masked_as_texts_are(data, secrets):
    text = data.draw(st.lists(st.sampled_from(secrets) | st.text(max_size=3)).map("".join))
    both = masker(*secrets)
    assert both.mask_bytes(text.encode()) == both.mask(text).encode()


LONG = "sk-0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(f"got '{LONG[:-1]}", "got '***", id="its last character cut off"),
        pytest.param(LONG[1:] + " and more", "*** and more", id="its first character cut off"),
        pytest.param(f"got '{LONG[:15]}' then", "got '***' then", id="a piece in the middle"),
        pytest.param(f"ends with {LONG[:5]}", "ends with ***", id="a short piece at the end"),
        pytest.param(f"{LONG[-5:]} begins", "*** begins", id="a short piece at the beginning"),
        pytest.param(f"got '{LONG[:6]}' then", f"got '{LONG[:6]}' then", id="too short to tell"),
        pytest.param(f"all of {LONG} here", "all of *** here", id="the whole"),
        pytest.param("nothing", "nothing", id="none"),
    ],
)
def test_a_piece_of_a_secret_is_hidden_where_a_text_was_cut(text, shown):
    assert Masker({"API_KEY": LONG}).mask_excerpt(text) == shown


@given(st.integers(0, len(LONG)), st.integers(0, len(LONG)), st.text("xyz ", max_size=10))
def test_whatever_was_cut_off_no_more_than_a_short_piece_is_left(start, end, surrounding):
    left = Masker({"API_KEY": LONG}).mask_excerpt(f"{surrounding}{LONG[start:end]}{surrounding}")
    pieces = (LONG[at : at + LONG_PIECE] for at in range(len(LONG) - LONG_PIECE + 1))
    beginning, ending = LONG[:LONG_PIECE], LONG[-LONG_PIECE:]
    is_cut_at_both_ends = start > 0 and end < len(LONG)
    assert is_cut_at_both_ends or not any(piece in left for piece in (beginning, ending, *pieces))


def test_a_secret_learned_later_is_masked_from_then_on():
    masker = Masker({})
    assert masker.mask(LONG) == LONG
    masker.learn({"API_KEY": LONG, "OTHER": "not a secret"})
    assert masker.mask(f"{LONG} not a secret") == "*** not a secret"
    assert (masker.longest, len(masker.mask_bytes(LONG.encode()))) == (len(LONG), 3)
