"""What a turn's metadata leads to, as a table; what counts as the same error; where to go on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.errors import UsageError
from little_loops.relay.rules import (
    LONGEST_WAIT_S,
    STATUSES,
    Cut,
    Decision,
    HandOver,
    Metadata,
    PlanProgress,
    RelayTurn,
    Status,
    TurnEnd,
    UnusableMetadata,
    artifacts_of,
    commit_message,
    completion_message,
    decide,
    fingerprint,
    hand_over,
    phases_missing,
    remarks,
    remember,
    session_of,
    task_status,
    turn_limit,
    with_check_result,
)

MISSING = UnusableMetadata("the agent wrote no metadata file")


def metadata(status: Status = "partial", **more: Any) -> Metadata:
    return Metadata(status)._replace(**more)


def phases(completed: int | None, total: int | None = None, **more: Any) -> Metadata:
    return metadata(progress=PlanProgress(completed, total), **more)


def settled(*ends: TurnEnd) -> list[RelayTurn]:
    """The turns a relay remembers after these ends."""
    turns: list[RelayTurn] = []
    for number, end in enumerate(ends, 1):
        turns.append(remember(number, end, decide(end, turns), turns))
    return turns


LEAN = metadata(errors=("lean timed out",))
WIP = metadata(reason="half of phase 2 is done")

# status × review × how often the same error came before → word, reason, wait
TABLE = [
    ("implemented", metadata("implemented"), [], Decision("implemented", "")),
    ("implemented, review asked", metadata("implemented", review=True), [], Decision("implemented", "")),
    ("implemented after errors", metadata("implemented", reason="all proved"), [MISSING, MISSING], Decision("implemented", "all proved")),
    ("implemented, all phases", phases(4, 4, status="implemented"), [], Decision("implemented", "")),
    ("implemented, a phase missing", phases(1, 4, status="implemented", reason="done"), [], Decision("partial", "done")),
    ("implemented, a phase missing by the last total", phases(1, status="implemented"), [phases(1, 4)], Decision("partial", "")),
    ("implemented, a phase missing, review asked", phases(1, 4, status="implemented", review=True), [], Decision("review", "the agent asked for a review")),
    ("implemented, a phase missing, an error thrice", phases(0, 4, status="implemented", errors=("lean timed out",)), [LEAN, LEAN], Decision("failed", "the same error 3 times in a row: lean timed out")),
    ("implemented, total unknown", phases(1, status="implemented"), [], Decision("implemented", "")),
    ("partial", WIP, [], Decision("partial", "half of phase 2 is done")),
    ("partial, nothing said", metadata(), [], Decision("partial", "")),
    ("partial, only a stage", metadata(progress=PlanProgress(stage="phase_incomplete")), [], Decision("partial", "phase_incomplete")),
    ("partial, many times", WIP, [WIP] * 9, Decision("partial", "half of phase 2 is done")),
    ("partial, an error once", LEAN, [], Decision("partial", "lean timed out")),
    ("partial, an error twice", LEAN, [LEAN], Decision("partial", "lean timed out", 1.0)),
    ("partial, an error thrice", LEAN, [LEAN, LEAN], Decision("failed", "the same error 3 times in a row: lean timed out")),
    ("partial, review", metadata(review=True, reason="lemma 4 is false"), [], Decision("review", "lemma 4 is false")),
    ("partial, review without a word", metadata(review=True), [], Decision("review", "the agent asked for a review")),
    ("partial, review, an error thrice", LEAN._replace(review=True), [LEAN, LEAN], Decision("review", "lean timed out")),
    ("blocked", metadata("blocked", reason="no licence"), [], Decision("blocked", "no licence")),
    ("blocked, review asked", metadata("blocked", review=True), [], Decision("blocked", "no reason given")),
    ("blocked, errors only", metadata("blocked", errors=("first", "no disk")), [], Decision("blocked", "no disk")),
    ("failed", metadata("failed", reason="wrong plan"), [], Decision("failed", "wrong plan")),
    ("failed, review asked", metadata("failed", review=True), [], Decision("failed", "no reason given")),
    ("invalid", MISSING, [], Decision("invalid", "the agent wrote no metadata file")),
    ("invalid twice", MISSING, [MISSING], Decision("invalid", "the agent wrote no metadata file", 1.0)),
    ("invalid thrice", MISSING, [MISSING, MISSING], Decision("failed", "the same error 3 times in a row: the agent wrote no metadata file")),
    ("invalid, other errors before", MISSING, [LEAN, UnusableMetadata("not JSON")], Decision("invalid", "the agent wrote no metadata file")),
    ("oscillating", MISSING, [MISSING, LEAN], Decision("invalid", "the agent wrote no metadata file")),
    ("oscillating, the third time", MISSING, [MISSING, LEAN] * 2, Decision("failed", "the same error 3 times in 6 turns: the agent wrote no metadata file")),
    ("the third time in the sixth turn", MISSING, [MISSING, MISSING, WIP, WIP, WIP], Decision("failed", "the same error 3 times in 6 turns: the agent wrote no metadata file")),
    ("the third time in the seventh turn", MISSING, [MISSING, MISSING, WIP, WIP, WIP, WIP], Decision("invalid", "the agent wrote no metadata file")),
    ("three errors that take turns", MISSING, [MISSING, LEAN, UnusableMetadata("not JSON")] * 2, Decision("invalid", "the agent wrote no metadata file")),
    ("invalid, a good turn between", MISSING, [MISSING, WIP], Decision("invalid", "the agent wrote no metadata file")),
    ("cut", Cut(), [], Decision("invalid", "the turn was interrupted before it wrote its metadata")),
    ("cut again and again", Cut(), [Cut()] * 5, Decision("invalid", "the turn was interrupted before it wrote its metadata")),
    ("a cut between", MISSING, [MISSING, MISSING, Cut()], Decision("failed", "the same error 3 times in 6 turns: the agent wrote no metadata file")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "before", "decision"), [pytest.param(*row[1:], id=row[0]) for row in TABLE]
)
def test_the_decision(end, before, decision):
    assert decide(end, settled(*before)) == decision


def test_the_table_has_every_status_and_word():
    ends = [row[1] for row in TABLE]
    assert {end.status for end in ends if isinstance(end, Metadata)} == set(STATUSES)
    words = {row[3].word for row in TABLE}
    assert words == {"implemented", "partial", "review", "blocked", "failed", "invalid"}


def test_waits_grow_each_time_an_error_comes_back_at_once():
    other = UnusableMetadata("the metadata file is not UTF-8")
    third = UnusableMetadata("the metadata file is not JSON")
    ends = [MISSING, MISSING, other, other, third, third]
    waits = [decide(end, settled(*ends[:at])).wait_s for at, end in enumerate(ends)]
    assert waits == [0, 1, 0, 2, 0, 4]


def test_waits_have_a_longest():
    pairs = [UnusableMetadata(f"{letter}{letter}") for letter in "abcdefghij" for _ in range(2)]
    assert decide(pairs[-1], settled(*pairs[:-1])).wait_s == LONGEST_WAIT_S


def test_an_error_is_not_the_same_while_the_plan_moves_on():
    moving = [phases(number, 9, errors=("flaky network",)) for number in range(1, 6)]
    assert [turn.word for turn in settled(*moving)] == ["partial"] * 5
    standing = [phases(2, 9, errors=("flaky network",))] * 4
    assert [turn.word for turn in settled(*standing)] == ["partial", "partial", "partial", "failed"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("no such file", "no such file", True),
        ("Line 10, column 3", "line 7,  column 12\n", True),
        ("at 0x7ffe12", "at 0xdeadbeef", True),
        ("commit 1a2b3c4d", "commit 99ffaa01", True),
        ("commit 1a2b3c4d", "commit cafe", False),
        ("facade", "decade", False),
        ("\ud800", "\ud800", True),
        ("tests fail", "types fail", False),
    ],
)
def test_fingerprints(one, other, same):
    assert (fingerprint(one) == fingerprint(other)) is same


# ── phases ─────────────────────────────────────────────────────────────────────────────────────

HANDOFF = metadata(progress=PlanProgress(2, 4, "", "specs/handoffs/phase-2.md"))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param([], HandOver(1, None, ""), id="the first turn"),
        pytest.param([phases(2, 4)], HandOver(3, 4, ""), id="after two phases"),
        pytest.param([HANDOFF], HandOver(3, 4, "specs/handoffs/phase-2.md"), id="with a handoff"),
        pytest.param([HANDOFF, phases(3)], HandOver(4, 4, ""), id="a handoff is for one turn"),
        pytest.param(
            [HANDOFF, MISSING, Cut()],
            HandOver(3, 4, "specs/handoffs/phase-2.md"),
            id="what said nothing takes nothing back",
        ),
        pytest.param([phases(2, 4), metadata()], HandOver(3, 4, ""), id="silence about phases"),
        pytest.param(
            [phases(3, 4), phases(1, 5)], HandOver(2, 5, ""), id="the last account counts"
        ),
    ],
)
def test_where_the_next_turn_takes_up_the_plan(ends, expected):
    assert hand_over(settled(*ends)) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(phases(4, 4, status="implemented"), HandOver(4, 4, ""), id="all complete"),
        pytest.param(phases(0, 0, status="implemented"), HandOver(1, 0, ""), id="no phases"),
        pytest.param(metadata("implemented"), HandOver(1, None, ""), id="nothing said"),
    ],
)
def test_a_plan_that_the_check_refutes_has_no_phase_behind_the_last(end, expected):
    (turn,) = settled(end)
    assert hand_over(with_check_result((turn._replace(check="pending"),), "failed")) == expected


def test_only_a_turn_that_waits_for_the_check_is_decided_by_it():
    turns = tuple(settled(WIP, metadata("implemented")))
    assert with_check_result((), "passed") == ()
    assert with_check_result(turns, "passed") == turns
    waiting = (turns[0], turns[1]._replace(check="pending"))
    assert [turn.check for turn in with_check_result(waiting, "passed")] == ["", "passed"]


@pytest.mark.parametrize(
    ("turn", "status"),
    [
        pytest.param(RelayTurn(1, "implemented"), "completed", id="implemented"),
        pytest.param(RelayTurn(1, "implemented", check="passed"), "completed", id="confirmed"),
        pytest.param(RelayTurn(1, "implemented", check="pending"), "partial", id="not checked yet"),
        pytest.param(RelayTurn(1, "implemented", check="failed"), "partial", id="refuted"),
        pytest.param(RelayTurn(1, "partial"), "partial", id="partial"),
        pytest.param(RelayTurn(1, "review"), "partial", id="review"),
        pytest.param(RelayTurn(1, "invalid"), "partial", id="invalid"),
        pytest.param(RelayTurn(1, "blocked"), "blocked", id="blocked"),
        pytest.param(RelayTurn(1, "failed"), "failed", id="failed"),
    ],
)
def test_the_status_of_the_task(turn, status):
    assert task_status(turn) == status


def test_artifacts_are_listed_once():
    turns = [
        RelayTurn(1, "partial", artifacts=("a", "b")),
        RelayTurn(2, "partial", artifacts=("b", "c")),
    ]
    assert artifacts_of(turns) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("before", "end", "expected"),
    [
        pytest.param([], phases(0, 4), [], id="a first turn may be short"),
        pytest.param([phases(0)], phases(0, 4), ["no phase was completed for two turns, still 0"], id="not begun"),
        pytest.param([phases(2)], phases(2), [], id="one turn without a phase"),
        pytest.param([phases(2), phases(2)], phases(2), ["no phase was completed for two turns, still 2"], id="two turns without a phase"),
        pytest.param([phases(2), phases(2)], phases(3), [], id="and on it goes"),
        pytest.param([phases(2), phases(2)], phases(2)._replace(status="blocked"), [], id="blocked says more"),
        pytest.param([phases(3)], phases(1), ["the phases went back from 3 to 1"], id="back"),
        pytest.param([phases(3)], metadata(), [], id="nothing said"),
        pytest.param([], phases(2, 4)._replace(status="implemented"), ["reported implemented with 2 of 4 phases complete: treated as partial"], id="implemented early"),
        pytest.param([phases(3, 4)], phases(1)._replace(status="implemented"), ["the phases went back from 3 to 1", "reported implemented with 1 of 4 phases complete: treated as partial"], id="implemented early and back"),
        pytest.param([], phases(4, 4)._replace(status="implemented"), [], id="implemented"),
        pytest.param([], phases(4)._replace(status="implemented"), [], id="implemented, total unknown"),
        pytest.param([], MISSING, [], id="no file"),
        pytest.param([], MISSING._replace(warning="printed"), ["printed"], id="printed instead"),
        pytest.param([], Cut(), [], id="cut"),
    ],
)  # fmt: skip
def test_what_is_said_about_odd_accounts(before, end, expected):
    assert remarks(end, settled(*before)) == expected


def test_what_is_remembered_of_a_turn():
    end = Metadata(
        "blocked",
        progress=PlanProgress(1, 3, "proving", "h.md"),
        errors=("e",),
        artifacts=("a",),
        summary_path="s.md",
    )
    assert remember(4, end, Decision("blocked", "why"), []) == RelayTurn(
        number=4,
        word="blocked",
        reason="why",
        mark=None,
        completed=1,
        total=3,
        handoff_path="h.md",
        reported=True,
        errors=("e",),
        artifacts=("a",),
        summary_path="s.md",
    )
    assert remember(5, Cut(), Decision("invalid", "cut"), []) == RelayTurn(5, "invalid", "cut")


# ── names ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("turn", "started", "subject"),
    [
        pytest.param(RelayTurn(1, "partial", completed=2, total=4), HandOver(1, None, ""), "phase 2 of 4", id="two phases at once"),
        pytest.param(RelayTurn(2, "partial", completed=2, total=4), HandOver(3, 4, ""), "phase 3 of 4", id="half a phase"),
        pytest.param(RelayTurn(2, "invalid"), HandOver(3, 4, ""), "phase 3 of 4", id="no metadata"),
        pytest.param(RelayTurn(1, "invalid"), HandOver(1, None, ""), "phase 1", id="nothing known"),
        pytest.param(RelayTurn(2, "implemented", completed=4, total=4), HandOver(3, 4, ""), "phase 4 of 4", id="the end"),
        pytest.param(RelayTurn(2, "implemented"), HandOver(3, 4, ""), "phase 4 of 4", id="the end, phases not said"),
        pytest.param(RelayTurn(2, "implemented"), HandOver(1, None, ""), "phase 1", id="the end, nothing known"),
        pytest.param(RelayTurn(3, "partial", completed=4, total=4), HandOver(5, 4, ""), "phase 4 of 4", id="beyond the last"),
        pytest.param(RelayTurn(1, "partial", completed=0, total=0), HandOver(1, None, ""), "phase 1 of 0", id="no phases at all"),
    ],
)  # fmt: skip
def test_commit_messages(turn, started, subject):
    assert commit_message("implement-886", "sess_123_abc", turn, started) == (
        f"implement-886: {subject} (turn {turn.number})\n\n"
        f"Session: {session_of('sess_123_abc', turn.number)}\n"
    )


def test_the_message_of_a_completed_task():
    assert completion_message("implement", "sess_1", "886", RelayTurn(3, "implemented")) == (
        "implement: task 886 completed (turn 3)\n\nSession: sess_1_iter3\n"
    )


def test_the_session_of_a_turn():
    assert session_of("sess_123_abc", 2) == "sess_123_abc_iter2"


@pytest.mark.parametrize(
    ("given", "no_loop", "variable", "expected"),
    [
        pytest.param(None, False, None, None, id="as the file says"),
        pytest.param(None, False, "", None, id="an empty variable is none"),
        pytest.param(None, False, " 7 ", 7, id="by variable"),
        pytest.param(None, True, "7", 1, id="no loop beats the variable"),
        pytest.param(3, True, "7", 3, id="the flag beats all"),
    ],
)
def test_how_many_turns(given, no_loop, variable, expected):
    environ = {} if variable is None else {"MAX_ITERATIONS": variable}
    assert turn_limit(given, no_loop, environ) == expected


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "٣", "9" * 5000])
def test_a_limit_that_is_none(text):
    with pytest.raises(UsageError) as caught:
        turn_limit(None, False, {"MAX_ITERATIONS": text})
    assert (
        caught.value.message == f"`MAX_ITERATIONS` is {text[:40]!r}, which is not a number of turns"
    )
    assert caught.value.help == "set it to a whole number of at least 1, or unset it"


# ── laws ───────────────────────────────────────────────────────────────────────────────────────

counts = st.one_of(st.none(), st.integers(0, 6))
texts = st.sampled_from(["", "lean timed out", "no disk"])
metadatas = st.builds(
    Metadata,
    status=st.sampled_from(STATUSES),
    review=st.booleans(),
    progress=st.builds(PlanProgress, completed=counts, total=counts, handoff_path=texts),
    reason=texts,
    errors=st.lists(texts, max_size=2).map(tuple),
)
ends = st.one_of(
    metadatas, st.builds(UnusableMetadata, st.sampled_from(["a", "b"])), st.just(Cut())
)


@given(st.lists(ends, max_size=8), ends)
def test_only_the_status_implemented_is_ever_done(before, end):
    turns = settled(*before)
    done = decide(end, turns).word == "implemented"
    claimed = isinstance(end, Metadata) and end.status == "implemented"
    assert done == (claimed and not phases_missing(end, turns))


@given(st.lists(ends, max_size=8), ends)
def test_a_person_is_asked_whenever_a_partial_turn_wants_it(before, end):
    turns = settled(*before)
    unfinished = isinstance(end, Metadata) and (
        end.status == "partial" or phases_missing(end, turns)
    )
    assert (decide(end, turns).word == "review") == bool(unfinished and end.review)


@given(st.lists(ends, max_size=12), ends)
def test_no_error_comes_a_third_time_in_six_turns_and_another_turn_follows(before, end):
    *earlier, last = settled(*before, end)
    times = 1 + sum(turn.mark == last.mark for turn in earlier[-5:])
    if last.mark is not None and times >= 3:
        assert last.word in ("implemented", "blocked", "failed", "review")


@given(st.lists(ends, max_size=8), ends)
def test_a_turn_is_never_sent_to_a_phase_before_the_last_account(before, end):
    known = hand_over(settled(*before))
    after = hand_over(settled(*before, end))
    said = end.progress.completed if isinstance(end, Metadata) else None
    assert after.resume_phase == (known.resume_phase if said is None else said + 1)
