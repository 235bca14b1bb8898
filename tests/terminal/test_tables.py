"""Tables fit, whatever is in them."""

from __future__ import annotations

import io
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.terminal.tables import (
    ASCII,
    Column,
    Style,
    TableSymbols,
    cells,
    cut,
    style_for,
    table,
    width_of,
)

COLUMNS = (
    Column("NAME", least=6),
    Column("STATUS"),
    Column("COST", leaves=2),
    Column("ABOUT", least=5, leaves=1),
)
ROWS = (
    ("fix-types", "✓ completed", "$0.36", "Fix all type errors"),
    ("lint", "! limit", "–", "日本語の説明"),
)


def shown(width: int | None) -> str:
    return "\n".join(table(COLUMNS, ROWS, Style(width=width))) + "\n"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        pytest.param(
            None,
            """\
            NAME       STATUS       COST   ABOUT
            fix-types  ✓ completed  $0.36  Fix all type errors
            lint       ! limit      –      日本語の説明
            """,
            id="no terminal",
        ),
        pytest.param(
            40,
            """\
            NAME       STATUS       COST   ABOUT
            fix-types  ✓ completed  $0.36  Fix all…
            lint       ! limit      –      日本語の…
            """,
            id="the last is cut",
        ),
        pytest.param(
            28,
            """\
            NAME      STATUS       ABOUT
            fix-typ…  ✓ completed  Fix…
            lint      ! limit      日本…
            """,
            id="one leaves, two are cut",
        ),
        pytest.param(
            20,
            """\
            NAME     STATUS
            fix-ty…  ✓ completed
            lint     ! limit
            """,
            id="what may leave has left",
        ),
        pytest.param(
            12,
            """\
            NAME    STA…
            fix-t…  ✓ c…
            lint    ! l…
            """,
            id="what may not be cut is cut at last",
        ),
    ],
)
def test_a_table_gives_up_what_it_can_do_without(width, text):
    assert shown(width) == dedent(text)


CELL = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=40)


@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL, CELL), max_size=5),
    width=st.integers(min_value=16, max_value=120),
)
def test_no_line_is_longer_than_the_terminal_is_wide(rows, width):
    assert max(map(cells, table(COLUMNS, rows, Style(width=width)))) <= width


@given(CELL, st.integers(min_value=0, max_value=50))
def test_what_is_cut_has_room_and_says_so(text, width):
    found = cut(text, width)
    assert cells(found) <= width
    assert found == text or found.endswith("…") or width == 0


def test_a_sign_has_a_colour_only_where_colours_are_wanted():
    style = Style(colour=True)
    assert style.tinted("✗ failed") == "\x1b[31m✗\x1b[0m failed"
    assert style.tinted("plain ✗") == "plain ✗"
    assert Style().tinted("✗ failed") == "✗ failed"
    assert table(COLUMNS[:2], [("a", "✓ b")], style) == [
        "\x1b[2mNAME  STATUS\x1b[0m",
        "a     \x1b[32m✓\x1b[0m b",
    ]


def test_a_terminal_without_our_signs_gets_words(monkeypatch):
    for name in ("LL_ASCII", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    ascii_one = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert style_for(ascii_one, None) == Style(ASCII)
    assert style_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), None) == Style(
        TableSymbols()
    )
    assert all(sign.isascii() for sign in ASCII)


@pytest.mark.parametrize(
    ("columns", "width"),
    [
        pytest.param("80", 80, id="told"),
        pytest.param("3", 20, id="too narrow for anything"),
        pytest.param("0", None, id="nothing"),
        pytest.param("wide", None, id="nonsense"),
    ],
)
def test_the_width_is_what_columns_says(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert width_of(io.StringIO()) == width
