"""The page `events.md`: every event of a run's log, its fields, and the plain line that tells it."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.fsm.events import (
    FINAL_EVENTS,
    KINDS,
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    ConditionEval,
    Cost,
    Cycle,
    Event,
    Handoff,
    HandoffDetected,
    HostWait,
    Iteration,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Report,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Tampered,
    TransitionTaken,
    Tree,
    event_types,
)
from little_loops.fsm.state import Result
from little_loops.reporting.lines import PlainLines
from tools.markdown import code, sentence, table

EVENTS = event_types()

INTRO = """\
A run writes down what happens in it, one JSON object a line, in `.loops/.running/NAME.events.jsonl`; when it has ended the file goes to `.loops/.history/NAME/`. `ll-loop run NAME --json`
prints the same lines as they are written, `ll-loop logs NAME --json` afterwards. A program reads them best from there.

Every line has `event`, `ts` (UTC, with milliseconds), `run` (the run's id), `seq` (counts from 1) and `ran_ms` (the run's own time so far, without pauses). A line
is whole, or it is the last one. Up to 4 KiB of an output is in the event; a longer one is in a file of the run that the event names. Values that look like
[secrets](environment.md#secrets) are `***`.

Fields in parentheses are there only where they say something. Programs should ignore fields they do not know: more may be added.
"""

LINES_INTRO = """\
Where stdout is no terminal, `ll-loop run` prints these lines, and the log has them too. They are an interface: `grep '^\\['` finds every action.
What follows an action's own line is indented by seven blanks, and an empty line stands before the last one. Where an event is not here, nothing is printed for it;
nor for a `condition_eval` of type `exit_code` or `verdict` with another result than `error`. A `warning` goes to stderr. `✓` and `✗` say what the verdict on an
action was; `·` stands for a word of your own, a handoff or a stop. Where evidence is kept, a check's line ends with ` · tree` and the start of the id of the tree it ran on,
or ` · clean copy · tree` and that. A terminal shows the same lines in colour, with a header, the time each action took, and a live line.
"""

FAILURE = ("fix", 3, 154_000)
SAMPLES: tuple[Event, ...] = (
    ActionStart("mypy src/", "check", 1, "shell"),
    ActionStart("/ll:check_code fix", "fix", 1, "slash"),
    ActionComplete("check", Result(0, 2300, "Success: no issues\n")),
    ActionComplete("check", Result(1, 2300, "Found 4 errors\n")),
    ActionComplete("check", Result(None, 60_000, cut_by="action")),
    ActionComplete("check", Result(None, 800, signal=9)),
    ActionInterrupted("check", 1, "stop"),
    Cost("fix", 41_234, 0.18, 7),
    ConditionEval("output_numeric", "fail", "7 is more than 5", "choose"),
    ConditionEval("output_numeric", "error", "expected a number, got `n/a`", "choose"),
    TransitionTaken("check", "fix", "on_fail"),
    TransitionTaken("fix", "check", "next"),
    Iteration(2, 2000),
    Cycle(2, 60_000),
    RetryWait("check", 2, 4000),
    HostWait("fix", "usage limit reached", 1_768_474_800_000, 1_800_000),
    HandoffDetected("fix", 3, "src/api/models.py is left"),
    Report("relay implement: 5 turns, session sess_123\nnot implemented after 5 turns"),
    RunWarning("ended what the actions had left running: vite (pid 4242)"),
    Tampered("fix", 1, ("tests/test_api.py",), "fail", "agent"),
    Tampered("check", 2, ("setup.cfg", "tests/test_api.py"), "fail", "check"),
    OutOfScope("fix", 1, ("docs/api.md",), "warn"),
    Restored("fix", 1, ("tests/test_api.py",), "protected"),
    Restored("fix", 0, (), "protected", ("tests/test_api.py: permission denied",)),
    ReferenceMoved(1, ("tests/test_api.py",), "`generate`"),
    Recheck("check", "here", "the tree has changed since it passed"),
    Recheck("check", "clean", "to confirm its pass in a clean copy"),
    Resume("fix", 3, "awaiting_continuation", continuation="src/api/models.py is left"),
    LoopComplete("completed", "terminal", "done", 3, 154_000),
    LoopComplete("completed", "terminal", "done", 3, 154_000, cost_usd=0.36),
    LoopComplete("completed", "terminal", "done", 3, 154_000, evidence="verified"),
    LoopComplete("completed", "terminal", "done", 3, 154_000, evidence="stale"),
    LoopComplete("completed", "terminal", "done", 3, 154_000, evidence="off"),
    LoopComplete("completed", "terminal", "done", 3, 154_000, nothing_done=True),
    LoopComplete("stopped", "stop_signal", "done", 3, 154_000, "nothing left to do"),
    LoopError("failed", "error", *FAILURE, "fix", "exit 127: npm: not found"),
    LoopError("failed", "terminal", *FAILURE, "fix", "terminal"),
    LoopError("failed", "max_iterations", *FAILURE, "fix", "20 iterations, still in `fix`"),
    LoopTimeout("failed", "loop_timeout", *FAILURE, "fix", 154_000),
    LoopPaused("needs_review", "review", "done", 3, 154_000, "look"),
    LoopInterrupted("interrupted", "signal", *FAILURE, 2),
    Handoff("awaiting_continuation", "handoff", *FAILURE),
)
"""Events that have a line; one that `PlainLines` shows and that is missing here fails a test."""
TREE = "3f9c2ab1d04e"
BEFORE: dict[type[Event], Event] = {
    Restored: Tampered("fix", 1, ("tests/test_api.py",), "restore", "agent"),
    LoopComplete: Tree("done", 3, 1, "end", TREE, TREE, TREE),
}
"""What a run writes down before such an event; the line tells it too."""

MEANINGS = {
    "action": "the action, secrets masked; data from outside is shown as its reference",
    "action_type": "`shell`, `slash` or `prompt`; `builtin` for a step of a relay's own",
    "after": "the tree after the check",
    "again": "the state that failed is run once more",
    "agent": "what the host made of the agent's end: success, fail, error, handoff, wait, auth or billing",
    "at_limit": "a check that runs once more after the last iteration",
    "attempt": "counts the attempts of this step from 1",
    "before": "the tree the check ran on",
    "behavior": "`on_handoff`",
    "best": "the best number so far",
    "by": "who changed them: `agent` or `check`; of `reference_moved`, the state, or when",
    "capture": "the other name the result is stored under",
    "cause": "`stop` or `crash`",
    "changed": "what differs from the tree recorded before: `files`, the first `paths`, and lines `added` and `removed`",
    "committed": "protected paths that were changed by a commit since the run started",
    "compared": "as `changed`: since the start of the run, then since an agent's check passed",
    "context": "values given with `--context`",
    "continuation": "what the next session is told",
    "cost_usd": "US dollars",
    "cut_by": "`action` or `loop`: whose time had run out",
    "cycle": "counts the cycles of a `maintain` loop",
    "duration_ms": "how long it took",
    "elapsed_ms": "running time",
    "ends_run": "the loop's `on_handoff: terminate` ends the run here",
    "error": "why",
    "estimated": "nobody reported the cost: the turn was cut or lost, or it is a spawned session's",
    "evidence": "`on`, `off` or why no evidence is kept; of `loop_complete`: `verified`, `unchecked`, `stale` (changed since the last check passed), `off` or why none is kept",
    "exit_code": "the exit code; null if there was none",
    "failed": "paths that could not be put back, each with the reason",
    "failure": "why the action could not be started",
    "files": "how many files",
    "filled": "the action as it was run, with its data, where that differs from `action`; cut after 4 KiB",
    "final_state": "the state the run was in",
    "format": "version of this format",
    "from": "the state that is left",
    "guard": "the id of the protected paths' content",
    "id": "the id of the content within the scope",
    "initial": "the first state",
    "is_check": "the action is a check, and its tree is recorded",
    "iteration": "times around",
    "iterations": "times around",
    "kind": "the kind of end, in the host's own word",
    "label": "the state's `label`",
    "late": "recorded after a resume, and not right after the action ended",
    "least_ms": "how long it waits at least, whatever the wall clock says",
    "limits": "limits given on the command line",
    "loop": "the loop's name",
    "loop_timeout": "where the run was headed when its time was up",
    "message": "a text for people",
    "next_state": "where it was about to go",
    "nothing_done": "the goal was already true: nothing but checks has run",
    "of": "`protected` paths, or paths `outside` the scope",
    "open_ended": "true if `output` is all of it, with no newline dropped from its end",
    "order": "bytes of stdout, of stderr, of stdout and so on, in the order in which they arrived; only where both were printed to",
    "order_file": "the file that has the order, where it is long",
    "orphans": "what was left of an action of the crashed run, and was ended",
    "output": "what the action printed; of an agent, its last text",
    "output_file": "`path` in the run's directory, `size`, `sha256`, `truncated`, `has_secrets`",
    "passed": "a check passed after the last iteration: what it leads to may be checked too",
    "passes": "passes in a row on the same tree",
    "paths": "the first of the paths",
    "payload": "the text behind the marker",
    "place": "where a check runs: `here`, or in a `clean` copy of the tree",
    "project": "the id of the content of the whole project",
    "reason": "why, in a word or a sentence",
    "result": "the verdict",
    "retry": "the state runs again by `$current`",
    "retry_at_ms": "when the host says it can be tried again",
    "scope": "paths the run works on",
    "scope_writes": "the loop's `scope_writes`",
    "session_id": "the agent's session",
    "signal": "the number of a signal",
    "signal_line": "a marker that was found: its `type` and `payload`",
    "spawn": "a session will be started that resumes the run",
    "stalled": "measurements without progress",
    "started": "false if the action was never begun",
    "state": "the state",
    "status": "`completed`, `failed`, `stopped`, `interrupted`, `awaiting_continuation` or `needs_review`; of `resume`: what the run was before",
    "stderr": "what the action printed to stderr",
    "stderr_file": "as `output_file`",
    "stderr_open_ended": "as `open_ended`, of `stderr`",
    "step": "counts the states that were entered; with the run's id it is `LL_STEP_ID`",
    "stream_file": "as `output_file`: the raw events of an agent's program",
    "structured": "an agent's structured answer",
    "tail": "the end of an output that lies in a file",
    "tampering": "`report`, `restore` or `fail`, as the loop's `tampering` says; `fail` too where the paths are changed again as fast as they are restored",
    "terminal": "the action of a terminal state",
    "text": "what the run has done, in lines",
    "to": "the state that is entered; of `resume`: the state asked for, or the one after a review",
    "tokens": "tokens used",
    "turns": "turns of the agent",
    "type": "the type of condition, or `handoff`, `error`, `stop`",
    "until_wall_ms": "when the wait ends, in milliseconds since 1970",
    "value": "the number that was measured",
    "verdict": "the verdict an agent gave; of `check_result`, the check's",
    "wait": "what a resumed run waits for: `backoff`, `retry`, `maintain`, `host` or `handoff`",
    "wait_ms": "how long it waits; of an action, how long it wants the next iteration to wait",
    "when": "`before` or `after` the action, or at the `end`",
    "why": "why it runs again",
}


def events_page() -> Iterator[str]:
    yield from ("# Events", "", *INTRO.splitlines(), "")
    yield from table(("event", "when", "fields"), _event_rows())
    final = ", ".join(map(code, FINAL_EVENTS))
    yield from (f"A run ends with exactly one of {final}.", "")
    yield from ("## Plain lines", "", *LINES_INTRO.splitlines(), "")
    yield from table(("event", "line"), _line_rows())
    yield from ("## Fields", "")
    yield from table(("field", "meaning"), [(code(k), sentence(v)) for k, v in _meanings()])


def _event_rows() -> Iterator[tuple[str, str, str]]:
    for name, event in EVENTS.items():
        fields = [code(field) for field in event.fields]
        fields += [f"({code(field)})" for field in event.optional]
        yield code(name), sentence(event.meaning), ", ".join(fields)


def _line_rows() -> Iterator[tuple[str, str]]:
    for name, kind in KINDS.items():
        lines = [line for event in SAMPLES if type(event) is kind for line in plain_lines(event)]
        yield from ((code(name), code(line.strip())) for line in dict.fromkeys(lines))


def _meanings() -> Iterator[tuple[str, str]]:
    used = {field for event in EVENTS.values() for field in (*event.fields, *event.optional)}
    for field in sorted(used):
        yield field, MEANINGS[field]


def plain_lines(event: Event) -> list[str]:
    teller = PlainLines("fix-types", 20)
    if type(event) in BEFORE:
        teller.lines(BEFORE[type(event)])
    return [line for line in teller.lines(event) if line]
