"""Colour codes are left out where text is read, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.colour_codes import ColourFilter, Uncoloured, without_colours

RED, BOLD, RESET = "\x1b[31m", "\x1b[1;38:5:9m", "\x1b[0m"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("12", "12", id="none"),
        pytest.param(f"{RED}12{RESET}\n", "12\n", id="around a number"),
        pytest.param(f"1{BOLD}2\x1b[m", "12", id="inside it, and without numbers"),
        pytest.param("\x1b[2K\x1b[1A12", "\x1b[2K\x1b[1A12", id="what moves the cursor stays"),
        pytest.param("12\x1b[3", "12\x1b[3", id="half a code stays"),
    ],
)
def test_colour_codes_are_left_out(text: str, plain: str):
    assert without_colours(text) == plain
    assert without_colours(text.encode()) == plain.encode()


@pytest.mark.parametrize(
    ("pieces", "plain"),
    [
        pytest.param([b"a", b"b"], [b"a", b"b", b""], id="none"),
        pytest.param([b"a\x1b[3", b"1mb"], [b"a", b"b", b""], id="a code in two pieces"),
        pytest.param([b"a\x1b", b"b"], [b"a", b"\x1bb", b""], id="an escape that begins no code"),
        pytest.param([b"a\x1b[1"], [b"a", b"\x1b[1"], id="half a code at the end"),
    ],
)
def test_a_stream(pieces: list[bytes], plain: list[bytes]):
    filtering = ColourFilter()
    assert [*map(filtering.feed, pieces), filtering.finish()] == plain


@pytest.mark.parametrize(
    ("part", "place"),
    [((0, 1), (5, 6)), ((1, 2), (6, 7)), ((2, 3), (15, 16)), ((0, 3), (5, 16))],
)
def test_where_a_part_was(part: tuple[int, int], place: tuple[int, int]):
    coloured = f"{RED}ab{RESET}{RESET}c"
    assert Uncoloured(coloured).span(*part) == place
    assert Uncoloured(coloured.encode()).span(*part) == place
    assert Uncoloured("abc").span(*part) == part


@given(
    st.lists(st.sampled_from([RED, BOLD, RESET, "a", "\n", "\x1b", "[", "m", "1"])),
    st.integers(1, 4),
)
def test_a_stream_in_pieces_is_filtered_as_if_it_came_whole(parts: list[str], size: int):
    data = "".join(parts).encode()
    filtering = ColourFilter()
    pieces = [filtering.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join([*pieces, filtering.finish()]) == without_colours(data)


@given(st.lists(st.sampled_from([RED, BOLD, "a", "b", "c"])), st.data())
def test_a_part_of_the_plain_text_is_found_in_the_coloured_one(
    parts: list[str], data: st.DataObject
):
    coloured = "".join(parts)
    uncoloured = Uncoloured(coloured)
    assert uncoloured.text == without_colours(coloured)
    start = data.draw(st.integers(0, len(uncoloured.text)))
    end = data.draw(st.integers(start, len(uncoloured.text)))
    first, last = uncoloured.span(start, end)
    if start < end:
        assert without_colours(coloured[first:last]) == uncoloured.text[start:end]
        assert coloured[first] != "\x1b"
