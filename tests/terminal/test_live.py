"""What a terminal shows of a run: the lines that stay, the part that moves, and what is left."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from little_loops.fsm.endings import ENDINGS
from little_loops.fsm.events import KINDS
from little_loops.fsm.schema import FSMLoop, HostOptions
from little_loops.reporting.lines import PlainLines
from little_loops.reporting.masking import Masker
from little_loops.reporting.reporter import Reporter
from little_loops.terminal.last_line import WINDOW, LastOutput
from little_loops.terminal.live import Hints, LiveScreen, Terminal
from little_loops.terminal.screen import Screen
from little_loops.terminal.tables import cut
from little_loops.terminal.terminal_lines import TerminalLines
from tests.cli.paper import ExcerptWidth
from tests.entries import entry
from tests.fsm.records import records

LOOP = FSMLoop.from_dict(
    {
        "name": "fix-types",
        "paradigm": "convergence",
        "initial": "measure",
        "max_iterations": 20,
        "scope": ["src/"],
        "states": {
            "measure": {"action": "mypy src/", "on_target": "done", "on_progress": "apply"},
            "apply": {"action": "/ll:manage_issue bug fix", "next": "measure"},
            "done": {"terminal": True},
        },
    }
)
LOG = ".loops/.running/fix-types.log"
SECRET = "QXZJWVKYGUPB"
SPINNER = re.compile(r"^[⠀-⣿|/\\-](?=      \d)", re.MULTILINE)


class Stage:
    """A screen on a terminal of paper, with a clock that moves when it is told to."""

    def __init__(
        self,
        width: int = 70,
        height: int = 24,
        *,
        colour: bool = False,
        encoding: str = "utf-8",
        verbose: bool = False,
        loop: FSMLoop = LOOP,
    ) -> None:
        self.width, self.height = width, height
        self.is_ours = True
        self.is_stopping = False
        self.at_s = 100.0
        self.paper = ExcerptWidth(width)
        self._raw = io.BytesIO()
        self._stream = io.TextIOWrapper(self._raw, encoding=encoding, newline="")
        self._encoding = encoding
        self.screen = LiveScreen(
            Terminal(
                Screen(self._stream, colour=colour),
                lambda: (self.width, self.height),
                lambda: self.is_ours,
            ),
            TerminalLines(loop, 20, ascii_only=encoding == "ascii"),
            Masker({"API_TOKEN": SECRET}),
            Hints(LOG, lambda: self.is_stopping),
            verbose=verbose,
            now=lambda: self.at_s,
        )

    def tell(self, event: str, **fields: Any) -> None:
        self.screen.record(entry(event, **fields))

    def begin(self, state: str = "measure", action_type: str = "shell", at_s: float = 0.3) -> None:
        """An action that has run for a while."""
        action = LOOP.states[state].action
        self.tell("action_start", state=state, action=action, action_type=action_type, attempt=1)
        self.pass_by(at_s)

    def pass_by(self, seconds: float) -> float | None:
        self.at_s += seconds
        return self.screen.tick()

    def end(self, state: str = "measure", exit_code: int = 0, **more: Any) -> None:
        self.tell("action_complete", state=state, exit_code=exit_code, **more)
        self.settle()

    def settle(self) -> None:
        """Whatever comes next: the end of an action waits for its verdict."""
        self.tell("loop_start")

    def look(self) -> str:
        """The screen as it is now, whatever the spinner shows."""
        self._stream.flush()
        self.paper.write(self._raw.getvalue().decode(self._encoding))
        self._raw.seek(0)
        self._raw.truncate()
        return SPINNER.sub("@", self.paper.text)


def text(story: str) -> str:
    return dedent(story).rstrip("\n")


def test_the_whole_of_a_run():
    stage = Stage()
    stage.tell("loop_start", loop="fix-types", initial="measure", scope=["src/"])
    stage.tell("state_enter", state="measure", iteration=1)
    stage.begin()
    stage.screen.printed("stdout", b"12\n")
    stage.end(output="12")
    stage.tell("condition_eval", type="convergence", result="progress", reason="12, target 0")
    stage.tell("transition", **{"from": "measure", "to": "apply"}, reason="on_progress")
    stage.tell("state_enter", state="apply", iteration=1)
    stage.begin("apply", "slash")
    stage.screen.doing("Editing src/api/models.py")
    stage.end("apply", output="fixed 8 errors", agent="success", duration_ms=45_000)
    stage.tell("cost", state="apply", tokens=41_234, cost_usd=0.18, turns=7)
    stage.tell("transition", **{"from": "apply", "to": "measure"}, reason="next")
    stage.tell("iteration", iteration=2)
    stage.tell("state_enter", state="measure", iteration=2)
    stage.begin()
    stage.end(output="0")
    stage.tell("transition", **{"from": "measure", "to": "done"}, reason="on_target")
    stage.tell("state_enter", state="done", iteration=2)
    ended = {"final_state": "done", "iterations": 2, "duration_ms": 154_000, "cost_usd": 0.18}
    stage.tell("loop_complete", status="completed", reason="terminal", **ended)
    assert stage.look() == text("""\
        fix-types · convergence · up to 20 iterations · scope src/
        [1/20] measure → running mypy src/...
               ✓ 12 (exit 0)                                              2.3s
               12, target 0
               → apply (on_progress)
        [1/20] apply → running /ll:manage_issue...
               ✓ fixed 8 errors                                            45s
               agent: 7 turns, 41k tokens, $0.18
               → measure
        [2/20] measure → running mypy src/...
               ✓ 0 (exit 0)                                               2.3s
               → done (on_target)

        Loop completed: done (2 iterations, 2m 34s, $0.18)
    """)


def test_a_wide_terminal_has_its_times_in_one_column():
    stage = Stage(width=120)
    stage.begin()
    stage.end(exit_code=1, output="short")
    stage.begin()
    stage.end(exit_code=1, output="a line that is " + "much " * 15 + "longer")
    assert stage.look().splitlines()[1:] == [
        "[1/20] measure → running mypy src/...",
        "       ✗ short (exit 1)" + " " * 73 + "2.3s",
        "[1/20] measure → running mypy src/...",
        "       ✗ a line that is " + "much " * 13 + "much",
        "         much longer (exit 1)" + " " * 67 + "2.3s",
    ]


def test_a_resumed_run_counts_on_and_ends_with_the_cost_of_all_of_it():
    stage = Stage(width=100)
    stage.tell("resume", state="apply", iteration=3, status="interrupted")
    stage.begin("apply", "slash")
    stage.end("apply", exit_code=1, output="stuck", agent="fail")
    stage.tell("cost", state="apply", tokens=812, cost_usd=0.001, turns=1)
    ended = {"final_state": "apply", "iterations": 3, "duration_ms": 9000, "cost_usd": 0.7}
    stage.tell("loop_error", status="failed", reason="auth", error="sign in", **ended)
    *lines, last = stage.look().splitlines()
    assert last == "Loop failed in state 'apply': sign in (3 iterations, 9.0s, $0.70)"
    assert (
        "\n".join(lines)
        == text("""\
        fix-types · convergence · up to 20 iterations
        Resuming loop 'fix-types' from state 'apply' (iteration 3)
        [3/20] apply → running /ll:manage_issue...
               ✗ stuck                                                                                  2.3s
               agent: 1 turn, 812 tokens, less than $0.01

    """)
        + "\n"
    )


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        pytest.param(
            {"status": "failed", "reason": "error", "error": "exit 127: npm: not found"},
            "Loop failed in state 'build': exit 127: npm: not found (1 iteration, 0.2s)",
            id="error",
        ),
        pytest.param(
            {"status": "failed", "reason": "no_transition", "error": "no_transition"},
            "Loop failed in state 'build': no transition (1 iteration, 0.2s)",
            id="a reason alone, in words",
        ),
        pytest.param(
            {"status": "failed", "reason": "terminal", "error": "terminal"},
            "Loop failed: ended in state 'build' (1 iteration, 0.2s)",
            id="failure state",
        ),
        pytest.param(
            {"status": "failed", "reason": "max_iterations", "error": "20 iterations, still in it"},
            "Loop reached its iteration limit in state 'build' (1 iteration, 0.2s)",
            id="iterations",
        ),
        pytest.param(
            {"status": "failed", "reason": "max_cost", "error": "agents have used $5"},
            "Loop reached its limit: agents have used $5 (1 iteration, 0.2s)",
            id="cost",
        ),
        pytest.param(
            {"status": "failed", "reason": "loop_timeout"},
            "Loop timed out in state 'build' (1 iteration, 0.2s)",
            id="loop timeout",
        ),
        pytest.param(
            {"status": "stopped", "reason": "stop_signal", "message": "enough"},
            "Loop stopped: enough (1 iteration, 0.2s)",
            id="stopped",
        ),
        pytest.param(
            {"status": "interrupted", "reason": "signal", "signal": 2},
            "Loop interrupted: Ctrl-C in state 'build' (1 iteration, 0.2s)",
            id="ctrl-c",
        ),
        pytest.param(
            {"status": "interrupted", "reason": "signal", "signal": 15},
            "Loop interrupted: SIGTERM in state 'build' (1 iteration, 0.2s)",
            id="term",
        ),
        pytest.param(
            {"status": "awaiting_continuation", "reason": "handoff"},
            "Loop paused: context handoff in state 'build' (1 iteration, 0.2s)",
            id="handoff",
        ),
        pytest.param(
            {"status": "needs_review", "reason": "review"},
            "Loop needs review: build (1 iteration, 0.2s)",
            id="review",
        ),
    ],
)
def test_endings(fields, line):
    stage = Stage(width=90)
    kind = ENDINGS[fields["status"], fields["reason"]].event
    stage.tell(kind, final_state="build", iterations=1, duration_ms=200, **fields)
    assert stage.look().splitlines()[2:] == [line]
    piped: list[str] = []
    reporter = Reporter(piped.append, PlainLines("fix-types", 20), Masker({}), output=False)
    reporter.record(entry(kind, final_state="build", iterations=1, duration_ms=200, **fields))
    assert "".join(piped).splitlines() == ["", line], "a pipe gets the same sentence"


def test_the_live_part():
    stage = Stage()
    stage.begin(at_s=0.0)
    assert stage.look().splitlines()[1:] == ["[1/20] measure → running mypy src/..."]
    assert stage.pass_by(31.0) == 0.1
    stage.screen.printed("stdout", b"checking\nsrc/a.py: 3 err")
    stage.pass_by(0.1)
    assert stage.look().splitlines()[2:] == [
        "@      31s · src/a.py: 3 err",
        "       ctrl-c stops and saves · log .loops/.running/fix-types.log",
    ]
    stage.end()
    assert stage.look().splitlines()[2:] == [f"       ✓ (exit 0){'2.3s':>53}"]
    assert stage.screen.tick() is None


RELAY = FSMLoop.from_dict(
    {
        "name": "implement",
        "paradigm": "relay",
        "initial": "settle",
        "states": {
            "settle": {"action": "relay.settle", "action_type": "builtin", "next": "done"},
            "done": {"terminal": True},
        },
    }
)


def test_a_step_around_a_turn_is_named_only_while_it_runs():
    """Commit hooks may take their time; afterwards its result is worth a line, and nothing else."""
    stage = Stage(loop=RELAY)
    start = {"action": "relay.settle", "action_type": "builtin", "label": "the evaluation"}
    stage.tell("action_start", state="settle", attempt=1, **start)
    stage.pass_by(5.0)
    assert stage.look().splitlines()[1:2] == ["@      5s · the evaluation"]
    stage.tell("action_complete", state="settle", exit_code=0, output="turn 1: partial\n")
    stage.tell("transition", **{"from": "settle", "to": "done", "reason": "next"})
    assert stage.look().splitlines()[1:] == [f"       ✓ turn 1: partial{'2.3s':>46}"]


def test_a_step_around_a_turn_that_fails_is_named_with_its_end():
    stage = Stage(loop=RELAY)
    start = {"action": "relay.settle", "action_type": "builtin", "label": "the evaluation"}
    stage.tell("action_start", state="settle", attempt=1, **start)
    stage.end("settle", exit_code=1, output="FATAL_ERROR: no commit\n")
    assert stage.look().splitlines()[1:] == [
        "[1/20] settle → running the evaluation...",
        f"       ✗ FATAL_ERROR: no commit (exit 1){'2.3s':>30}",
    ]


def test_a_line_printed_is_shown_at_once_but_no_more_than_the_eye_can_follow():
    stage = Stage()
    stage.begin()
    stage.at_s += 0.06
    stage.screen.printed("stdout", b"first\n")
    stage.at_s += 0.01
    stage.screen.printed("stdout", b"second\n")
    assert "first" in stage.look()
    stage.pass_by(0.1)
    assert "second" in stage.look()


def test_what_an_agent_does_and_never_its_stream():
    stage = Stage()
    stage.begin("apply", "slash")
    stage.screen.printed("stdout", b'{"type":"assistant"}\n')
    stage.at_s += 1
    stage.screen.doing(f"Running curl -H {SECRET}\x1b[2J")
    assert stage.look().splitlines()[2:3] == ["@      1s · Running curl -H ***\\x1b[2J"]


def test_a_program_that_prints_for_people_is_read_like_a_command():
    stage = Stage(loop=LOOP._replace(host=HostOptions(name="command", command=("my-agent",))))
    stage.begin("apply", "slash")
    stage.screen.printed("stdout", b"thinking\n")
    stage.pass_by(0.1)
    assert stage.look().splitlines()[2:3] == ["@      0s · thinking"]


@pytest.mark.parametrize(("width", "height"), [(50, 24), (20, 24), (9, 24), (1, 24), (50, 3)])
def test_nothing_wraps_in_the_live_part_of_a_small_terminal(width, height):
    stage = Stage(width, height)
    stage.begin(at_s=0.0)
    before = stage.look()
    wraps = stage.paper.wraps
    stage.pass_by(1.0)
    for line in ("x" * 300, "表" * 100, "e\u0301" * 100, "👍🏽" * 40, "\t" * 90):
        stage.screen.printed("stdout", f"{line}\n".encode())
        stage.pass_by(0.1)
        stage.look()
    assert stage.paper.wraps == wraps
    stage.screen.close()
    assert stage.look() == before


def test_fifty_columns():
    stage = Stage(50)
    stage.begin()
    stage.screen.printed("stdout", b"src/little_loops/cli/live.py:12: error: Missing return\n")
    stage.pass_by(0.1)
    stage.end(output="Found 12 errors in 3 files (checked 240 source files)", exit_code=1)
    stage.begin()
    stage.screen.printed("stdout", b"src/little_loops/cli/live.py:12: error: Missing return\n")
    stage.pass_by(0.1)
    assert stage.look().splitlines()[1:] == [
        "[1/20] measure → running mypy src/...",
        "       ✗ Found 12 errors in 3 files (checked",
        "         240 source files) (exit 1)           2.3s",
        "[1/20] measure → running mypy src/...",
        "@      0s · src/little_loops/cli/live.py:12: e…",
        "       ctrl-c stops and saves",
    ]


def test_a_terminal_that_becomes_narrow_keeps_no_trace_of_the_live_part():
    stage = Stage(70)
    stage.begin()
    stage.screen.printed("stdout", b"y" * 200)
    stage.pass_by(0.1)
    stage.look()
    stage.width = 30
    stage.paper.resize(30)
    stage.pass_by(0.1)
    assert stage.look() == text("""\
        fix-types · convergence · up t
        o 20 iterations
        [1/20] measure → running mypy
        src/...
        @      0s · yyyyyyyyyyyyyy…
               ctrl-c stops and sa…
    """)


def test_a_terminal_that_becomes_narrow_between_two_frames_at_the_end():
    stage = Stage(70)
    stage.begin()
    stage.screen.printed("stdout", b"y" * 200)
    stage.pass_by(0.1)
    stage.look()
    stage.width = 30
    stage.paper.resize(30)
    stage.screen.close()
    assert stage.look() == text("""\
        fix-types · convergence · up t
        o 20 iterations
        [1/20] measure → running mypy
        src/...
    """)


def test_however_a_run_ends_the_terminal_is_in_order():
    stage = Stage()
    stage.begin()
    assert "ctrl-c" in stage.look()
    stage.screen.close()
    stage.screen.close()
    assert stage.look() == text("""\
        fix-types · convergence · up to 20 iterations
        [1/20] measure → running mypy src/...
    """)
    assert stage.paper.has_cursor
    assert stage.screen.tick() is None


def test_the_cursor_is_there_also_while_an_action_runs():
    stage = Stage()
    stage.begin()
    stage.look()
    assert stage.paper.has_cursor


def test_a_stop_is_told():
    stage = Stage()
    stage.begin()
    stage.is_stopping = True
    stage.screen.tick()
    assert stage.look().splitlines()[-1] == "       stopping; ctrl-c again stops immediately"


def test_ctrl_z_leaves_a_clean_terminal_and_its_time_is_not_counted():
    stage = Stage()
    stage.begin(at_s=5.0)
    stage.screen.hide()
    assert "ctrl-c" not in stage.look()
    stage.at_s += 3600
    stage.screen.suspended(3600.0)
    stage.pass_by(1.0)
    assert stage.look().splitlines()[2].startswith("@      6s")


def test_in_the_background_nothing_moves():
    stage = Stage()
    stage.begin()
    stage.is_ours = False
    stage.pass_by(0.1)
    assert "ctrl-c" not in stage.look()
    stage.is_ours = True
    stage.pass_by(0.1)
    assert "ctrl-c" in stage.look()


def test_colour_is_all_or_nothing():
    plain, colourful = Stage(), Stage(colour=True)
    for stage in (plain, colourful):
        stage.begin()
        stage.end(exit_code=1)
        stage.tell("warning", message="take care")
        stage.look()
    assert plain.paper.text == colourful.paper.text
    assert plain.paper.styles == set()
    assert {"1m", "2m", "31m", "33m", "0m"} <= colourful.paper.styles


def test_a_terminal_that_knows_only_ascii():
    stage = Stage(encoding="ascii")
    stage.tell("loop_start", loop="fix-types", initial="measure", scope=["src/"])
    stage.begin()
    stage.screen.printed("stdout", "größer …\n".encode() + b"x" * 100)
    stage.pass_by(0.1)
    assert stage.look().splitlines() == [
        "fix-types - convergence - up to 20 iterations - scope src/",
        "[1/20] measure -> running mypy src/...",
        f"@      0s - {'x' * 52}...",
        "       ctrl-c stops and saves - log .loops/.running/fix-types.log",
    ]
    stage.end(output="größer", exit_code=1)
    assert stage.look().splitlines()[2:] == [f"       FAIL gr\\xf6\\xdfer (exit 1){'2.3s':>37}"]


def test_verbose_shows_whole_lines_above_the_live_part():
    stage = Stage(verbose=True)
    stage.begin()
    stage.screen.printed("stdout", b"one\ntw")
    stage.screen.printed("stderr", b"oops\x1b[31m\n")
    stage.pass_by(0.1)
    assert stage.look().splitlines()[2:] == [
        "       | one",
        "       | oops",
        "@      0s · oops",
        "       ctrl-c stops and saves · log .loops/.running/fix-types.log",
    ]
    stage.screen.printed("stdout", b"o")
    stage.end()
    assert stage.look().splitlines()[2:] == [
        "       | one",
        "       | oops",
        "       | two",
        f"       ✓ (exit 0){'2.3s':>53}",
    ]


def test_verbose_tells_all_an_agent_does():
    stage = Stage(verbose=True)
    stage.begin("apply", "slash")
    stage.screen.doing("Reading a.py")
    stage.screen.doing("Editing a.py")
    stage.screen.close()
    assert stage.look().splitlines()[2:] == ["       | Reading a.py", "       | Editing a.py"]


every_kind: list[Any] = list(KINDS.values())


@given(
    st.sampled_from(every_kind).flatmap(records), st.sampled_from([None, "good", "bad", "neutral"])
)
def test_every_event_can_be_shown(event, mark):
    stage = Stage(width=200)
    for line in TerminalLines(LOOP, 20, detailed=True).lines(event, mark):
        stage.screen._print(line)
    assert stage.look().startswith("fix-types · convergence · up to 20 iterations")


# The last line that was printed.


def last_line(*chunks: bytes, environ: dict[str, str] | None = None) -> str:
    output = LastOutput(Masker(environ or {}))
    for chunk in chunks:
        output.feed("stdout", chunk)
    return output.line()


@pytest.mark.parametrize(
    ("chunks", "line"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([b"one\ntwo\n\n  \n"], "two", id="blank lines are no line"),
        pytest.param([b"10%\r20%\r"], "20%", id="a progress bar"),
        pytest.param([b"a\tb  c\n"], "a b c", id="blanks"),
        pytest.param(["gr\u00f6".encode()[:3], b"\xb6\xc3\x9fer\n"], "größer", id="split letter"),
        pytest.param(["ende ö".encode()[:-1]], "ende", id="half a letter waits"),
        pytest.param([b"\xff\xfe\n"], "\ufffd\ufffd", id="not UTF-8"),
        pytest.param([b"\x1b[2Jgone\x07\n"], "\\x1b[2Jgone\\x07", id="controls"),
        pytest.param([b"x" * (3 * WINDOW), b"\nend\n"], "end", id="after a long line"),
    ],
)
def test_last_output(chunks, line):
    assert last_line(*chunks) == line


def test_a_line_longer_than_what_is_kept():
    assert last_line(b"x" * (3 * WINDOW)) == "x" * 199 + "…"
    assert last_line("ö".encode() * (3 * WINDOW)).strip("ö") == "…"


def test_the_stream_that_spoke_last():
    output = LastOutput(Masker({}))
    output.feed("stdout", b"out\n")
    output.feed("stderr", b"err\n")
    assert output.line() == "err"


@example(before="", after="", cuts=[5])
@example(before="a" * WINDOW, after="b" * (WINDOW - 6), cuts=[])
@example(before="", after="b" * (WINDOW + 12 * 5), cuts=[])
@given(
    st.text("ab\n", max_size=60),
    st.text("ab\n", max_size=60),
    st.lists(st.integers(0, 130), max_size=6),
)
def test_no_piece_of_a_secret_is_ever_shown(before, after, cuts):
    told = f"{before}{SECRET}{after}".encode()
    output = LastOutput(Masker({"API_TOKEN": SECRET}))
    edges = [0, *sorted(cuts), len(told)]
    for start, end in pairwise(edges):
        output.feed("stdout", told[start:end])
        assert not any(letter in output.line() for letter in SECRET)


@given(st.text(max_size=60), st.integers(1, 40))
def test_what_is_cut_fits(line, room):
    from rich.cells import cell_len

    assert cell_len(cut(line, room, "…")) <= max(room, 1)
