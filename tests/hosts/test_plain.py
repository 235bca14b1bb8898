from __future__ import annotations

import pytest

from little_loops.hosts.base import AgentText, Outcome, ProcessEnd, Request, TurnEnding
from little_loops.hosts.plain import KEPT_CHARACTERS, PlainReader, died

ASKED = Request("go", "prompt", "/project", "ours", words=("pass", "fail"))
NOT_ASKED = ASKED._replace(words=None)
OWN_WORDS = ASKED._replace(words=("done", "blocked"))


def read(request: Request, printed: str, exit_code: int | None, **ended) -> Outcome:
    reader = PlainReader(request, "x")
    for line in printed.splitlines(keepends=True):
        reader.feed(line)
    return reader.finish(exit_code, **ended)


@pytest.mark.parametrize(
    ("request_", "printed", "exit_code", "kind", "verdict", "reason"),
    [
        pytest.param(ASKED, "hi", 0, "success", "pass", "`x` exited with code 0", id="0"),
        pytest.param(ASKED, "hi", 1, "failed", "fail", "`x` exited with code 1", id="1"),
        pytest.param(ASKED, "hi", 2, "command_failed", None, "`x` exited with code 2", id="2"),
        pytest.param(
            NOT_ASKED, "hi", 0, "success", None, "`x` exited with code 0", id="0, not asked"
        ),
        pytest.param(
            NOT_ASKED, "hi", 1, "failed", None, "`x` exited with code 1", id="1, not asked"
        ),
        pytest.param(
            NOT_ASKED, "VERDICT: fail", 0, "success", None, "`x` exited with code 0", id="not asked"
        ),
        pytest.param(
            ASKED,
            "a\nVERDICT: fail\n",
            0,
            "success",
            "fail",
            "the agent printed `VERDICT: fail`",
            id="line",
        ),
        pytest.param(
            ASKED,
            "VERDICT: fail\nVERDICT: Pass\n\n120 tokens\n",
            3,
            "success",
            "pass",
            "the agent printed `VERDICT: pass`",
            id="the last line of them, before a footer",
        ),
        pytest.param(
            ASKED,
            "VERDICT: perhaps",
            0,
            "no_verdict",
            None,
            "the agent gave the verdict `perhaps`; expected one of `pass`, `fail`",
            id="another word",
        ),
        pytest.param(
            OWN_WORDS, "hi", 0, "no_verdict", None, "the agent gave no verdict", id="own words"
        ),
        pytest.param(
            OWN_WORDS,
            "VERDICT: done",
            0,
            "success",
            "done",
            "the agent printed `VERDICT: done`",
            id="done",
        ),
        pytest.param(ASKED, "", 0, "truncated", None, "`x` printed nothing", id="nothing"),
        pytest.param(ASKED, "\n \n", 0, "truncated", None, "`x` printed nothing", id="blanks"),
        pytest.param(
            ASKED,
            "",
            3,
            "not_started",
            None,
            "`x` exited with code 3 and printed nothing",
            id="nothing, 3",
        ),
    ],
)
def test_endings(request_, printed, exit_code, kind, verdict, reason):
    outcome = read(request_, printed, exit_code)
    assert (outcome.kind, outcome.verdict, outcome.reason) == (kind, verdict, reason)
    assert outcome.text == printed.rstrip()
    assert outcome.exit_code == exit_code


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("x: not found\n", "`x` exited with code 127: x: not found"),
        ("warning: a\nerror: b\nusage: c\n", "`x` exited with code 127: error: b"),
        ("\n\n", "`x` exited with code 127 and printed nothing"),
    ],
)
def test_stderr_says_why_it_did_not_start(stderr, reason):
    assert read(ASKED, "", 127, stderr_tail=stderr).reason == reason


def test_killed():
    outcome = read(ASKED, "VERDICT: pass\n", None, signal=9)
    assert (outcome.kind, outcome.reason) == ("truncated", "`x` was killed by signal 9")
    assert died(ProcessEnd(None), "x") == TurnEnding("truncated", "`x` was killed")


@pytest.mark.parametrize(
    ("cut_by", "kind"), [("stop", "cancelled"), ("action", "timed_out"), ("loop", "timed_out")]
)
def test_cut_by_us(cut_by, kind):
    assert read(ASKED, "VERDICT: pass\n", 0, cut_by=cut_by).kind == kind


def test_lines_are_handed_on_as_they_come():
    reader = PlainReader(ASKED, "x")
    assert reader.feed(b"\n") == ()
    assert reader.feed(b"LOOP_STOP: done\r\n") == (AgentText("LOOP_STOP: done"),)
    assert reader.feed(b"\xff\n") == (AgentText("\ufffd"),)


def test_only_the_end_is_kept():
    reader = PlainReader(ASKED, "x")
    for _ in range(40):
        reader.feed(b"a" * (KEPT_CHARACTERS // 10))
    reader.feed("b" * (2 * KEPT_CHARACTERS))
    reader.feed("VERDICT: fail")
    outcome = reader.finish(0)
    assert len(outcome.text) <= 2 * KEPT_CHARACTERS
    assert outcome.verdict == "fail"
