"""Each way a turn of each host can end × each type of condition × a short and a long answer.

A program plays a recorded stream in which the agent's last words say one thing, and what its tools
printed says the opposite.  The verdict is that on the agent's words, never on the stream around
them; where the turn did not end well, the words change nothing.  The engine is the real one and
runs in this process; the agents are real processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, get_args

import pytest

from little_loops.engine.persistent_executor import PersistentExecutor
from little_loops.fsm.schema import CONDITION_TYPES, FSMLoop
from little_loops.hosts.base import Kind
from tests.hosts.played import Part, play_claude, play_codex, play_command
from tests.project import DEADLINE_S, Project, until

pytestmark = pytest.mark.untraced  # the pure modules have rows of their own

LONG = "All of this was looked at.\n" * 2_600  # more than an event holds
TRANSITIONS = (
    "on_pass",
    "on_fail",
    "on_error",
    "on_timeout",
    "on_target",
    "on_progress",
    "on_stall",
)


class Row(NamedTuple):
    """A condition, the words that satisfy it, and those that do not."""

    condition: dict[str, Any]
    good: str
    bad: str
    verdicts: tuple[str, str] = ("pass", "fail")


def contains(**fields: Any) -> dict[str, Any]:
    return {"type": "output_contains", "pattern": "RESULT: 0 errors", **fields}


OLD = "The build is broken.\nRESULT: 7 errors"
NEW = "The build is fixed.\nRESULT: 0 errors"
ROWS = {
    "output_contains": Row(contains(), NEW, OLD),
    "a pattern": Row(contains(pattern="^RESULT: 0 errors$", regex=True), NEW, OLD),
    "a loose pattern": Row(contains(pattern="RESULT: 0 +errors", regex=True), NEW, OLD),
    "negated": Row(contains(negate=True), OLD, NEW),
    "output_json": Row(
        {"type": "output_json", "path": ".errors", "target": 0}, '{"errors": 0}', '{"errors": 7}'
    ),
    "output_numeric": Row({"type": "output_numeric", "target": 0}, "Left:\n0", "Left:\n7"),
    "convergence": Row(
        {"type": "convergence", "target": 0}, "Left:\n0", "Left:\n7", ("target", "progress")
    ),
    "verdict": Row({"type": "verdict"}, "Good.\nVERDICT: pass", "Bad.\nVERDICT: fail"),
    "all": Row({"type": "all", "of": [{"type": "exit_code"}, contains()]}, NEW, OLD),
    "any": Row({"type": "any", "of": [contains(pattern="no such"), contains()]}, NEW, OLD),
    "not": Row({"type": "not", "of": contains(negate=True)}, NEW, OLD),
    "exit_code": Row({"type": "exit_code"}, NEW, OLD, ("pass", "pass")),
}


def test_every_type_of_condition_has_a_row():
    assert {row.condition["type"] for row in ROWS.values()} == set(CONDITION_TYPES)


class Case(NamedTuple):
    """One turn: a condition, what the agent says, what a tool printed, and the verdict on it."""

    name: str
    row: Row
    said: str
    printed: str
    verdict: str


def cases() -> list[Case]:
    return [
        Case(f"{name}, {wanted}, {length}", row, said, printed, verdict)
        for name, row in ROWS.items()
        for wanted, verdict, said, printed in (
            ("good", row.verdicts[0], row.good, row.bad),
            ("bad", row.verdicts[1], row.bad, row.good),
        )
        for length, said in (("short", said), ("long", lengthened(said)))
    ]


def lengthened(text: str) -> str:
    if text.startswith("{"):
        return json.dumps({"log": LONG, **json.loads(text)})
    return LONG + text


CASES = cases()
GOOD = [case for case in CASES if ", good, " in case.name]


# ── playing ────────────────────────────────────────────────────────────────────────────────────

PROGRAM = """\
#!/bin/sh
asked="$* $(cat)"
part=${asked##*LL_CASE_}
part=%s/${part%%%%[!0-9]*}
cat "$part.out"
cat "$part.err" >&2
. "$part.sh"
"""


class Stage:
    """A project whose agent plays a part for each state."""

    def __init__(self, root: Path, host: str) -> None:
        self.root = root / "project"  # a program inside of it would not be trusted
        self.root.mkdir()
        self.host = host
        self.parts = root / "parts"
        self.parts.mkdir()
        program = root / "bin" / ("agent" if host == "command" else host)
        program.parent.mkdir()
        program.write_text(PROGRAM % self.parts)
        program.chmod(0o755)
        self.program = program

    def state(self, number: int, case: Case, part: Part, **transitions: Any) -> dict[str, Any]:
        (self.parts / f"{number}.out").write_bytes(part.stdout)
        (self.parts / f"{number}.err").write_text(part.stderr)
        hang = f": > {self.parts}/{number}.said; exec sleep 60\n"
        end = f"kill -{part.signal} $$" if part.signal else f"exit {part.exit_code}"
        (self.parts / f"{number}.sh").write_text(hang if part.hangs else f"{end}\n")
        action = {"action": f"/LL_CASE_{number}", "action_type": part.action_type}
        return {**action, "condition": case.row.condition, **transitions}

    def run(self, states: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a run of these states, the first of which is where it begins."""
        events: list[dict[str, Any]] = []
        self._executor(states, events).run()
        return events

    def run_until_said(self, number: int, states: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a run that is stopped when its agent has said everything, and hangs."""
        events: list[dict[str, Any]] = []
        executor = self._executor(states, events)
        thread = Thread(target=executor.run)
        thread.start()
        until((self.parts / f"{number}.said").exists, "word of the agent")
        executor.request_stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        return events

    def put_away(self, number: int) -> None:
        """Make room for a run of its own."""
        for file in (self.root / ".loops" / ".running").glob("l*"):
            file.rename(self.root / f"{number}-{file.name}")

    def _executor(self, states: dict[str, Any], events: list[dict[str, Any]]) -> PersistentExecutor:
        options: dict[str, Any] = {"name": self.host, "max_wait": 1}
        if self.host == "command":
            options["command"] = [str(self.program), "{prompt}"]
        elif self.host == "claude":
            options["permission_mode"] = "plan"
        fields = {"name": "l", "initial": next(iter(states)), "host": options, "max_iterations": 9}
        loop = FSMLoop.from_dict({**fields, "states": {**states, "end": {"terminal": True}}})
        return PersistentExecutor(loop, self.root / ".loops", events.append)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Stage]:
    def made(host: str) -> Stage:
        staged = Stage(tmp_path, host)
        monkeypatch.setenv("PATH", f"{staged.program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("HOME", str(tmp_path))
        return staged

    return made


def chained(stage: Stage, chosen: list[Case], play: Callable[[Case], Part], **more: Any) -> Any:
    """A run through all cases, whatever the verdicts are."""
    states: dict[str, Any] = {}
    for number, case in enumerate(chosen):
        to = f"c{number + 1}" if number + 1 < len(chosen) else "end"
        transitions = dict.fromkeys(TRANSITIONS, to)
        states[f"c{number}"] = stage.state(number, case, play(case), **transitions, **more)
    return states


def verdicts(events: list[dict[str, Any]], chosen: list[Case]) -> dict[str, str]:
    """By the transitions that were taken, which is what counts in the end."""
    taken = {each["from"]: each["reason"] for each in events if each["event"] == "transition"}
    named = {case.name: taken.get(f"c{number}", "") for number, case in enumerate(chosen)}
    return {name: reason.removeprefix("on_") for name, reason in named.items()}


def kinds(events: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in events if each["event"] == "action_complete"}


# ── turns that ended well ──────────────────────────────────────────────────────────────────────

PLAYS: Mapping[str, Callable[[str, str, str], Part]] = {
    "claude": play_claude,
    "codex": play_codex,
    "command": play_command,
}
WELL = {"claude": "success", "codex": "success", "command": "exits 0"}
KEEP = """\
cp "${captured.c%d.file}" kept/%d.text
cp "${captured.c%d.stream_file}" kept/%d.stream
printf %%s "${captured.c%d.output}" > kept/%d.output
"""


@pytest.mark.parametrize("host", PLAYS)
def test_the_verdict_is_that_on_the_agents_own_words(host, stage):
    staged = stage(host)

    def play(case: Case) -> Part:
        return PLAYS[host](WELL[host], case.said, case.printed)

    events = staged.run(chained(staged, CASES, play))
    assert verdicts(events, CASES) == {case.name: case.verdict for case in CASES}
    assert kinds(events) == {"success"}


@pytest.mark.parametrize("host", PLAYS)
def test_what_an_agent_left_is_its_own_words_and_beside_them_its_stream(host, stage):
    staged = stage(host)
    chosen = [case for case in CASES if case.name.startswith(("output_json, good", "a pattern, "))]

    def play(case: Case) -> Part:
        return PLAYS[host](WELL[host], case.said, case.printed)

    states = chained(staged, chosen, play)
    states["keep"] = {
        "action": "mkdir kept\n" + "".join(KEEP % ((n,) * 6) for n in range(len(chosen))),
        "next": "end",
    }
    for name in TRANSITIONS:
        states[f"c{len(chosen) - 1}"][name] = "keep"
    events = staged.run(states)
    assert events[-1]["status"] == "completed", events[-1]
    for number, case in enumerate(chosen):
        kept = staged.root / "kept" / str(number)
        assert kept.with_suffix(".text").read_text().rstrip("\n") == case.said
        assert kept.with_suffix(".output").read_text() == case.said
        played = (staged.parts / f"{number}.out").read_bytes()
        assert kept.with_suffix(".stream").read_bytes() == played


# ── turns that did not ────────────────────────────────────────────────────────────────────────

CLAUDE: dict[Kind, tuple[str, str]] = {
    "not_started": ("bad_flag", "error"),
    "rate_limited": ("429", "error"),  # longer than `max_wait`
    "overloaded": ("529", "error"),
    "limit_reached": ("max_turns", "fail"),
    "cost_limit_reached": ("max_budget", "fail"),
    "refused": ("refusal", "fail"),
    "bad_output": ("schema_never_met", "fail"),
    "permission_denied": ("permission_denied", "fail"),
    "truncated": ("kill", "error"),
    "failed": ("hook_stops", "fail"),
    "unknown_command": ("unknown_command", "error"),
    "command_failed": ("command_failed", "error"),
}
CODEX: dict[Kind, tuple[str, str]] = {
    "not_started": ("404_model", "error"),
    "rate_limited": ("429", "error"),
    "overloaded": ("overloaded_in_the_stream", "error"),
    "refused": ("refusal", "fail"),
    "permission_denied": ("declined", "fail"),
    "truncated": ("term", "error"),
    "failed": ("400", "fail"),
}
COMMAND: dict[Kind, tuple[str, str]] = {
    "not_started": ("is silent", "error"),
    "command_failed": ("exits 3", "error"),
    "truncated": ("is killed", "error"),
    "failed": ("exits 1", "fail"),
}
ENDS: dict[str, dict[Kind, tuple[str, str]]] = {
    "claude": {
        "auth": ("403", "auth"),
        "billing": ("credit_too_low", "billing"),
        "context_exhausted": ("context_full", "handoff"),
    },
    "codex": {
        "auth": ("401", "auth"),
        "billing": ("quota", "billing"),
        "context_exhausted": ("context_full", "handoff"),
    },
    "command": {},
}
NOT_WELL = {"claude": CLAUDE, "codex": CODEX, "command": COMMAND}
JUDGED: tuple[Kind, ...] = ("success", "no_verdict", "cancelled", "timed_out")
"""What has tests of its own, for every host: the words decide, or the turn was cut."""
NEVER: dict[str, set[Kind]] = {
    "claude": set(),
    # To Codex a slash command is text, and it has no limits of its own.
    "codex": {
        *("unknown_command", "command_failed", "limit_reached", "cost_limit_reached"),
        "bad_output",
    },
    # A program that has no protocol has only an exit code.
    "command": {
        *("unknown_command", "auth", "billing", "rate_limited", "overloaded", "refused"),
        *("context_exhausted", "limit_reached", "cost_limit_reached", "bad_output"),
        "permission_denied",
    },
}


@pytest.mark.parametrize("host", PLAYS)
def test_every_kind_of_ending_has_a_row(host):
    assert {*NOT_WELL[host], *ENDS[host], *JUDGED} == set(get_args(Kind)) - NEVER[host]


@pytest.mark.parametrize(
    ("host", "kind", "scene", "verdict"),
    [
        pytest.param(host, kind, *row, id=f"{host}, {kind}")
        for host, rows in NOT_WELL.items()
        for kind, row in rows.items()
    ],
)
def test_after_a_turn_that_did_not_end_well_no_words_help(host, kind, scene, verdict, stage):
    staged = stage(host)

    def play(case: Case) -> Part:
        return PLAYS[host](scene, case.said, case.said)

    # A program of one's own may name its verdict and exit as it likes.
    chosen = [each for each in GOOD if not (host == "command" and each.name.startswith("verdict"))]
    events = staged.run(chained(staged, chosen, play))
    assert kinds(events) == {kind}
    assert verdicts(events, chosen) == {case.name: verdict for case in chosen}


@pytest.mark.parametrize(
    ("host", "kind", "scene", "reason"),
    [
        pytest.param(host, kind, *row, id=f"{host}, {kind}")
        for host, rows in ENDS.items()
        for kind, row in rows.items()
    ],
)
@pytest.mark.parametrize("name", ROWS)
def test_what_ends_the_run_ends_it_whatever_was_said(host, kind, scene, reason, name, stage):
    staged = stage(host)
    row = ROWS[name]
    for number, said in enumerate((row.good, lengthened(row.good))):
        case = Case(name, row, said, said, "")
        state = staged.state(number, case, PLAYS[host](scene, said, said), next="end")
        events = staged.run({"ask": state})
        assert (kinds(events), events[-1]["reason"]) == ({kind}, reason)
        staged.put_away(number)


@pytest.mark.parametrize("host", PLAYS)
def test_a_turn_that_is_cut_is_a_timeout_whatever_was_said(host, stage):
    staged = stage(host)

    def play(case: Case) -> Part:
        return PLAYS[host](WELL[host], case.said, case.said)._replace(hangs=True)

    events = staged.run(chained(staged, GOOD, play, timeout=0.1, kill_grace=0.1))
    assert verdicts(events, GOOD) == {case.name: "timeout" for case in GOOD}
    assert kinds(events) == {"timed_out"}


@pytest.mark.parametrize("host", PLAYS)
@pytest.mark.parametrize("name", ROWS)
def test_a_turn_that_is_stopped_is_not_judged(host, name, stage):
    staged = stage(host)
    row = ROWS[name]
    for number, said in enumerate((row.good, lengthened(row.good))):
        case = Case(name, row, said, said, "")
        part = PLAYS[host](WELL[host], said, said)._replace(hangs=True)
        events = staged.run_until_said(
            number, {"ask": staged.state(number, case, part, next="end")}
        )
        told = [each["event"] for each in events if each["event"] not in ("cost", "warning")]
        after = told[told.index("action_start") + 1 :]
        assert after == ["action_interrupted", "loop_interrupted"]
        staged.put_away(number)


@pytest.mark.parametrize("host", PLAYS)
def test_an_agent_that_names_no_verdict_has_none(host, stage):
    staged = stage(host)
    chosen = [
        Case(f"verdict, {length}", ROWS["verdict"], said, "VERDICT: pass", "error")
        for length, said in (
            ("short", "Good.\nVERDICT: maybe"),
            ("long", LONG + "Good.\nVERDICT: maybe"),
        )
    ]
    events = staged.run(
        chained(staged, chosen, lambda c: PLAYS[host](WELL[host], c.said, c.printed))
    )
    assert kinds(events) == {"no_verdict"}
    assert verdicts(events, chosen) == {case.name: "error" for case in chosen}


# ── by the command line ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", ["short", "long"])
@pytest.mark.parametrize("name", ROWS)
def test_by_the_command_line(name, length, project: Project):
    """What a loop file says, with an old log that says the opposite in the agent's stream."""
    row = ROWS[name]
    said = row.bad if length == "short" else lengthened(row.bad)
    (project.home / "stream").write_bytes(play_claude("success", said, row.good).stdout)
    program = project.home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {project.home}/stream\n")
    program.chmod(0o755)
    good, bad = row.verdicts
    transitions = {f"on_{good}": "good", f"on_{bad}": "bad"}
    states = {
        "ask": {
            "action": "look",
            "action_type": "prompt",
            "condition": row.condition,
            **transitions,
        },
        "good": {"terminal": True},
        "bad": {
            "terminal": True,
            "outcome": "failure",
            "action": 'cp "${captured.ask.file}" text; cp "${captured.ask.stream_file}" stream',
        },
    }
    loop = {"name": "l", "initial": "ask", "host": {"permission_mode": "plan"}, "states": states}
    project.loop("l", json.dumps(loop))
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    ran = project.ll("run", "l", env={"PATH": path})
    assert ran.returncode == 1, ran.stderr
    assert (project.root / "text").read_text().rstrip("\n") == said
    assert (project.root / "stream").read_bytes() == (project.home / "stream").read_bytes()
