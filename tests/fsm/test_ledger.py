"""The lines of the ledger, and what they add up to."""

from __future__ import annotations

import json

import pytest

from little_loops.fsm.ledger import (
    Account,
    AgentTurn,
    Line,
    OverBudget,
    Released,
    Reservation,
    Total,
    VerifiedPass,
    account,
    read_lines,
    session_id,
    to_record,
    total_of,
    totals,
    turn_id,
)

FIRST = AgentTurn("r/1/1", 10, "/p", "fix", "r", "claude", "opus", 1200, 0.25)
CUT = AgentTurn("r/2/1", 20, "/p", "fix", "r", "claude", None, 0, 0.1, True)
OTHER = AgentTurn("s/1/1", 30, "/q", "docs", "s", "codex", None, 900)
RESERVED = Reservation("r/1/1", 10, "/p", "fix", "r", 1.0)
PASSED = VerifiedPass(40, "/p", "fix", "r")
LINES: tuple[Line, ...] = (RESERVED, FIRST, CUT, OTHER, PASSED, OverBudget(50, "/p", "fix", "r"))


def written(*lines: Line) -> bytes:
    return b"".join(json.dumps(to_record(line)).encode() + b"\n" for line in lines)


def test_what_is_written_can_be_read() -> None:
    lines = (*LINES, Released("r/9/1", 60))
    assert tuple(read_lines(written(*lines))) == lines


def test_a_ledger_cut_at_any_byte_has_all_whole_lines() -> None:
    text = written(*LINES)
    ends = [at for at, byte in enumerate(text) if byte == ord("\n")]
    for cut in range(len(text) + 1):
        whole = sum(cut >= end for end in ends)
        assert tuple(read_lines(text[:cut])) == LINES[:whole], f"cut at byte {cut}"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"7",
        b"[]",
        b"{}",
        b'{"kind": "turn"}',
        b'{"kind": ["turn"]}',
        b'{"kind": "of a newer version", "at_ms": 1}',
        b'{"kind": "released", "id": 7, "at_ms": 1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_cannot_be_read_is_skipped(line: bytes) -> None:
    text = written(FIRST) + line + b"\n" + written(CUT)
    assert tuple(read_lines(text)) == (FIRST, CUT)


def test_a_turn_replaces_its_reservation_and_a_released_one_is_gone() -> None:
    open_one = RESERVED._replace(id="r/3/1")
    released = RESERVED._replace(id="r/4/1")
    spent = account([*LINES, open_one, released, Released("r/4/1", 60)])
    assert spent == Account((FIRST, CUT, OTHER), (open_one,), (PASSED,))


def test_a_turn_and_a_pass_that_are_recorded_twice_count_once() -> None:
    again = FIRST._replace(cost_usd=9.0, estimated=True)
    assert account([FIRST, again, PASSED, PASSED]) == Account((FIRST,), (), (PASSED,))


def test_totals_have_the_most_expensive_group_first() -> None:
    spent = account(LINES)
    assert totals(spent, lambda turn: turn.loop) == [
        Total("fix", 2, 1200, 0.35, 0.1, 0, 1),
        Total("docs", 1, 900, 0.0, 0.0, 1, 0),
    ]
    assert total_of(spent) == Total("", 3, 2100, 0.35, 0.1, 1, 1)


def test_the_cost_per_pass_needs_a_pass() -> None:
    assert [total.usd_per_pass for total in totals(account(LINES), lambda turn: turn.loop)] == [
        0.35,
        None,
    ]


def test_the_cost_is_shared_by_all_passes() -> None:
    assert Total("fix", cost_usd=3.0, passes=2).usd_per_pass == 1.5


def test_a_turn_without_a_known_number_of_tokens_adds_none() -> None:
    turn = AgentTurn("r/1/1", 10, "/p", "fix", "r", "claude")
    assert total_of(account([turn])) == Total("", 1, 0, 0.0, 0.0, 1, 0)


def test_a_pass_without_a_turn_has_no_group() -> None:
    assert total_of(account([PASSED])) == Total("")


def test_the_id_of_a_turn() -> None:
    assert turn_id("r", 3, 2) == "r/3/2"
    assert session_id("r", 3, 2) == "r/3/2/session"
