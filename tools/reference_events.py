"""The page `events.md`: every event of a run's log, its fields, and the plain line printed for it."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.fsm.events import (
    FINAL_EVENTS,
    KINDS,
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    AgentWait,
    BranchLeftOut,
    BranchMerged,
    ChildEnd,
    ChildrenPlanned,
    ConditionEval,
    Cost,
    Cycle,
    Event,
    Forked,
    GateAnswered,
    Handoff,
    HandoffDetected,
    HookRun,
    HostChosen,
    HostWait,
    Iteration,
    JudgeComplete,
    JudgeStart,
    KeepBest,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
    MergeChecked,
    NoteDelivered,
    NoteReceived,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Report,
    ResolveStart,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Tampered,
    TrainLanded,
    TrainStart,
    TransitionTaken,
    Tree,
    WorkCommitted,
    WorktreeReady,
    WorktreesCleared,
    event_types,
)
from little_loops.fsm.state import Answer, Changed, ChildResult, Result
from little_loops.reporting.lines import PlainLines
from tools.markdown import code, sentence, table

EVENTS = event_types()

INTRO = """\
A run records its events in `.loops/.running/NAME.events.jsonl`, one JSON object per line; when it has ended, the file is moved to `.loops/.history/NAME/`. Programs should read the
events with `ll-loop run NAME --json`, which prints each line as it is written, or with `ll-loop logs NAME --json`.

Every line has `event`, `ts` (UTC, with milliseconds), `run` (the run's id), `seq` (counting from 1) and `ran_ms` (running time so far, without pauses). Only the last line
can be incomplete. An output of up to 4 KiB is part of the event; a longer one is in a file of the run, which the event names. Values that look like
[secrets](environment.md#secrets) are replaced with `***`.

Fields in parentheses are optional. Programs should ignore unknown fields, because later versions may add more.
"""

LINES_INTRO = """\
If stdout is not a terminal, `ll-loop run` prints these lines, and the log contains them too. They are a stable interface: `grep '^\\['` finds every action.
Lines that belong to an action are indented by seven blanks, and there is an empty line before the last one. Events that are not in this table print nothing;
neither does a `condition_eval` of type `exit_code` or `verdict`, unless its result is `error`. A `warning` goes to stderr. `✓` and `✗` show the verdict on an
action; `·` is shown for one of your own words, a handoff or a stop. In a run with evidence, the line of a check ends with ` · tree` and the start of the id of the tree it ran on,
or with ` · clean copy · tree` and that id. A terminal shows the same lines in colour, with a header, the duration of each action, and a live line.
"""

FAILURE = ("fix", 3, 154_000)
SAMPLES: tuple[Event, ...] = (
    HookRun("before_state", "check", 1, 120, True, "exit 1: no lease"),
    HookRun("after_state", "check", 1, 120, problem="took longer than 30s"),
    ActionStart("mypy src/", "check", 1, "shell"),
    ActionStart("/ll:check_code fix", "fix", 1, "slash"),
    ActionComplete("check", Result(0, 2300, "Success: no issues\n")),
    ActionComplete("check", Result(1, 2300, "Found 4 errors\n")),
    ActionComplete("check", Result(None, 60_000, cut_by="action")),
    ActionComplete("check", Result(None, 800, signal=9)),
    ActionInterrupted("check", 1, "stop"),
    ActionStart("fix-types", "types", 1, "loop"),
    ActionComplete(
        "types",
        Result(
            0,
            9000,
            reason="completed in `done` (2 iterations)",
            verdict="pass",
            child=ChildResult("completed", "terminal", "done", 2, {}),
        ),
    ),
    ChildEnd("types", "types", "interrupted", "crashed", "crash", "check", 1, 900),
    ChildrenPlanned("checks", 3, 1, ("lint", "types"), several=True),
    WorktreeReady("~/.cache/little-loops/worktrees/shop-1f/R-fix", "ll/fix/R/fix", "4ac1", "main"),
    WorkCommitted("ll/fix/R/fix", "9d41e0aa", 2),
    WorkCommitted("ll/fix/R/fix"),
    TrainStart("main", "4ac19d41e0aa", "4ac1", again=True),
    BranchMerged("api.py", "9d41e0aa"),
    MergeChecked("api.py", "9d41e0aa", True),
    ResolveStart("db.py", "db.py.resolve-1", ("src/db.py",), "conflict"),
    BranchLeftOut("db.py", ("src/db.py",), "conflict"),
    TrainLanded("main", "9d41e0aa3f9c", ("api.py",)),
    TrainLanded("main", "9d41e0aa3f9c", ("api.py",), "a.py has edits", "git merge --ff-only X"),
    WorktreesCleared(kept=("~/.cache/little-loops/worktrees/shop-1f/R-db.py",)),
    Cost("fix", 41_234, 0.18, 7),
    ConditionEval("output_numeric", "fail", "7 is more than 5", "choose"),
    KeepBest("measure", "kept", 5, 2, 101, 101, "9d41e0aa", "9d41e0aa", 5, 4),
    KeepBest("measure", "again", 5, 2),
    KeepBest("apply", "moved", 4, 0),
    ConditionEval("output_numeric", "error", "expected a number, got `n/a`", "choose"),
    TransitionTaken("check", "fix", "on_fail"),
    TransitionTaken("fix", "check", "next"),
    Iteration(2, 2000),
    Cycle(2, 60_000),
    RetryWait("check", 2, 4000),
    HostWait("fix", "usage limit reached", 1_768_474_800_000, 1_800_000),
    AgentWait("fix", "slot", "both agent slots are in use, by fix-types in shop and docs in blog"),
    HostChosen("fix", 3, 2, "codex", 1),
    JudgeStart("check", 3, 1, 1, "Is the cause fixed?", "codex", "s"),
    JudgeComplete("check", 1, "fail", "the test was weakened", 9000),
    HandoffDetected("fix", 3, "src/api/models.py is left"),
    Report("relay implement: 5 turns, session sess_123\nnot implemented after 5 turns"),
    RunWarning("ended what the actions had left running: vite (pid 4242)"),
    Tampered("fix", 1, ("tests/test_api.py",), "fail", "agent"),
    Tampered("check", 2, ("setup.cfg", "tests/test_api.py"), "fail", "check"),
    OutOfScope("fix", 1, ("docs/api.md",), "warn"),
    OutOfScope("fix", 1, ("docs/api.md",), "report", "project", "project-changes-1.patch"),
    Restored("fix", 1, ("tests/test_api.py",), "protected"),
    Restored("fix", 0, (), "protected", ("tests/test_api.py: permission denied",)),
    Restored("measure", 1, ("src/parse.py",), "change"),
    ReferenceMoved(1, ("tests/test_api.py",), "`generate`"),
    Recheck("check", "here", "the tree has changed since it passed"),
    Recheck("check", "clean", "to confirm its pass in a clean copy"),
    Recheck("check", "here", "pass 1 of 2", 1, 2),
    Forked("20260115T103000-3f9c2ab1", "fix-types", 4, "3f9c2ab1d04e"),
    GateAnswered("look", Answer(57, "approved", "approve", "ship it")),
    NoteReceived("1768473000000-0a1b2c3d", "leave src/legacy alone"),
    NoteDelivered("1768473000000-0a1b2c3d", "fix", 4),
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
    LoopPaused("needs_review", "budget", *FAILURE, "$19.40 of $20 a day is spent or reserved"),
    LoopInterrupted("interrupted", "signal", *FAILURE, 2),
    Handoff("awaiting_continuation", "handoff", *FAILURE),
)
"""Events that have a line; one that `PlainLines` shows and that is missing here fails a test."""
TREE = "3f9c2ab1d04e"
BEFORE: dict[type[Event], Event] = {
    Restored: Tampered("fix", 1, ("tests/test_api.py",), "restore", "agent"),
    KeepBest: KeepBest("measure", "start", 1, 1, 120, 120, TREE, TREE, 1),
    LoopComplete: Tree("done", 3, 1, "end", TREE, TREE, TREE, Changed(2)),
}
"""An event that precedes another one, and whose content is part of the line."""

MEANINGS = {
    "action": "the action, with secrets masked; data from outside is shown as a reference",
    "action_type": "`shell`, `slash` or `prompt`; `builtin` for a built-in step of a relay",
    "after": "the tree after the check",
    "again": "in `resume`: the state that failed runs again; in `child_start`: the run continues; in `merge_start`: the branch has moved meanwhile",
    "answered": "the runs at a gate that continue, because their gate was answered",
    "child": "a run that the state started: its name; in `action_complete`, how it ended",
    "has_agents": "an agent works in a run that the action starts",
    "names": "the names of the runs that the state starts",
    "several": "they are branches of the state",
    "branches": "for a state with branches: how many there were (`total`), and how many `passed`",
    "run_id": "the id of the run that ended",
    "stage": "what the end of a run means for the state that started it: `pass`, `fail`, `error`, `timeout`, `stopped` if it was no longer needed, or `interrupted`, `paused` or `review` if it continues later",
    "base": "the commit that a worktree begins at",
    "head": "the commit that branches are merged on top of",
    "onto": "the branch that was checked out at the start, and is moved at the end",
    "branch": "a git branch of a run, or the name of the run that it belongs to",
    "commit": "the commit that was made; missing if there is none",
    "merge": "what became of the branches of the state: the merged commit, and those that were left out",
    "merged": "the branches in the merged commit",
    "to_check": "the check of the worktree runs next",
    "command": "the command that moves the branch",
    "removed": "the worktrees that were removed",
    "kept": "the worktrees that are kept; for `restored`, the id of the protected files' content before",
    "resolve": "why the last try to resolve it failed",
    "own": "the run's own worktree",
    "path": "the directory of the worktree",
    "agent": "how the agent's turn ended: success, fail, error, handoff, wait, auth or billing",
    "at_limit": "the check runs once more after the last iteration",
    "attempt": "the number of the attempt at this step, from 1",
    "before": "the tree the check ran on",
    "behavior": "`on_handoff`",
    "best": "the best number so far",
    "apart": "agents work in worktrees of the tree, not in it",
    "beside": "empty for files outside the scope; for files that changed while agents worked in worktrees: `tree` for those where the run works, `project` for those of the project that its own worktree comes from",
    "original": "the snapshot of the project that the run's worktree comes from",
    "patch": "the file of the run that has the difference",
    "by": "who changed them: `agent` or `check`, or `apart`: somebody, while agents worked in worktrees; for `reference_moved`, the state, or when it happened; for `gate_answered`, the command: `approve`, `reject` or `resume`",
    "capture": "the second name under which the result is stored",
    "cause": "`stop` or `crash`",
    "changed": "the difference from the previously recorded tree: `files`, the first `paths`, and the number of lines `added` and `removed`",
    "committed": "protected paths that were changed by a commit since the run started",
    "compared": "like `changed`: since the start of the run, then since an agent's check passed",
    "context": "values given with `--context`",
    "continuation": "the notes for the next session",
    "cost_usd": "cost in US dollars",
    "cut_by": "whose timeout ended the action: `action` or `loop`",
    "cycle": "the number of the cycle of a `maintain` loop",
    "decision": "what becomes of the files: `kept`, `put_back`, `unchanged` (they are the best tree), or measured once more: at the `start`, `again` because they changed meanwhile, or because somebody else has `moved` them",
    "duration_ms": "duration in milliseconds",
    "elapsed_ms": "running time in milliseconds",
    "ends_run": "the loop's `on_handoff: terminate` ends the run here",
    "error": "the error message",
    "estimated": "the cost is an estimate, because the turn was interrupted or lost, or belongs to a spawned session",
    "evidence": "`on`, `off`, or why no evidence is recorded; for `loop_complete`: `verified`, `unchecked`, `stale` (files changed since the last check passed), `merged` (with later commits, and not checked since), `failed` (no check passed), `off`, or why none is recorded",
    "exit_code": "the exit code; null if there was none",
    "failed": "paths that could not be restored, each with the reason",
    "failure": "why the action could not be started",
    "fallback": "the place of the agent in the list: 0 for `host`, 1 for the first of `fallback`",
    "files": "the number of files; for a branch that cannot be merged, the files in conflict",
    "filled": "the action as it was run, with its data, if that differs from `action`; at most 4 KiB",
    "final_state": "the state the run was in",
    "format": "the version of this format",
    "from": "the state that the run leaves",
    "guard": "the id of the protected files' content; missing if a stop kept them from being read",
    "gives_way": "the agent could not take its turn, so that the next one gets it",
    "host": "the agent: its program, and its model if one is set",
    "hook": "the hook: `before_run`, `before_state`, `before`, `after`, `after_state` or `after_run`",
    "id": "the id of the content within the scope; for a note, its own",
    "initial": "the first state",
    "is_check": "the action is a check, and its tree is recorded",
    "gate": "the `seq` of the event that opened the gate",
    "iteration": "the number of the iteration",
    "iterations": "the number of iterations",
    "kept_step": "the step that measured the tree that is kept",
    "kind": "how the agent's turn ended, in the host's own term",
    "label": "the state's `label`",
    "late": "recorded after a resume, not right after the action ended",
    "least_ms": "the minimum wait, whatever the wall clock shows",
    "limits": "limits given on the command line",
    "loop": "the loop's name",
    "loop_timeout": "the state the run was about to enter when its time was up",
    "message": "a message for people",
    "metered": "agents ask for a slot or a budget before they start",
    "next_state": "the state the run was about to enter",
    "min_gain": "by more than this, a change must be better",
    "nothing_done": "the goal was already met: only checks have run",
    "to_review": "files that the checks depend on, which agents or other steps changed for good",
    "of": "`protected` paths, paths `outside` the scope, or a `change` that was not better",
    "open_ended": "true if `output` is complete and no trailing newline was removed",
    "order": "the number of bytes from stdout, then stderr, then stdout and so on, in order of arrival; only if the action wrote to both",
    "order_file": "the file with the order, if it is long",
    "needed": "how many consecutive passes count as one",
    "number": "how often the judge was asked about this attempt",
    "question": "what the judge is asked",
    "quotes": "the lines that the judge's answer rests on",
    "restored": "paths that changed while the judge was working, and were restored",
    "orphans": "processes of the crashed run's action that were still running and have been ended",
    "output": "the action's output; for an agent, its last text",
    "output_file": "`path` in the run's directory, `size`, `sha256`, `truncated`, `has_secrets`",
    "over_budget": "this resume disregards the budget",
    "passed": "a check passed after the last iteration, so the check it leads to may run too",
    "passes": "the number of consecutive passes on the same tree",
    "parent": "the id of the run that it was forked from",
    "parent_name": "the name of that run",
    "paths": "the first of the paths",
    "payload": "the text after the marker",
    "place": "where a check runs: `here`, or in a `clean` copy",
    "project": "the id of the content of the whole project; for `keep_best`, of the tree that is kept; for `forked`, before the fork",
    "problem": "why it failed",
    "reason": "the reason, as a word or a sentence",
    "redefined": "true if the fork has another definition",
    "repeat": "the number of measurements of which the median counts",
    "required": "its failure prevents what follows, or becomes the verdict",
    "result": "the verdict; in the last event of a run, the values of the loop's `result`",
    "retry": "the state runs again because of `$current`",
    "retry_at_ms": "when the host can be tried again, as it reports",
    "scope": "the paths the run works on",
    "scope_writes": "the loop's `scope_writes`",
    "session_id": "the id of the agent's session",
    "signal": "the number of the signal",
    "signal_line": "the signal line that was found: its `type` and `payload`",
    "spawn": "a session will be started to resume the run",
    "stalled": "the number of measurements without progress",
    "started": "false if the action was never started",
    "state": "the state",
    "status": "`completed`, `failed`, `stopped`, `interrupted`, `awaiting_continuation` or `needs_review`; for `resume`, the run's previous status",
    "stderr": "the action's stderr",
    "stderr_file": "like `output_file`",
    "stderr_open_ended": "like `open_ended`, for `stderr`",
    "step": "the number of the step, from 1; together with the run's id it is `LL_STEP_ID`",
    "stream_file": "like `output_file`: the raw events of an agent's program",
    "structured": "an agent's structured answer, up to 4 KiB",
    "structured_file": "like `output_file`: a longer structured answer, as JSON",
    "tail": "the end of an output that is stored in a file",
    "tampering": "the loop's `tampering`: `report`, `restore` or `fail`; also `fail` if restored paths keep being changed",
    "terminal": "the action belongs to a terminal state",
    "text": "a report, one or more lines; or the text of an answer or a note",
    "to": "the state that the run enters; for `resume` and `gate_answered`, the requested state, or the one after a gate",
    "tokens": "the number of tokens",
    "tree": "the id of the tree that was measured; for `keep_best`, of the one that is kept",
    "turns": "the number of the agent's turns",
    "type": "the type of the condition, or `handoff`, `error`, `stop`",
    "until_wall_ms": "when the wait or the limit ends, in milliseconds since 1970",
    "value": "the measured number",
    "verdict": "for `judge_complete`, `pass`, `fail`, `error`, `unanswered` if its answer is gone, or, if it is asked again, `lost`, `not_started` or `stopped`; the agent's verdict; for `check_result`, the check's; for `gate_answered`, `approved` or `rejected`",
    "wait": "what a resumed run waits for: `backoff`, `retry`, `maintain`, `host` or `handoff`",
    "wait_for": "`slot`, `budget` or `launches`",
    "wait_ms": "the duration of the wait; for an action, the wait it requests before the next iteration",
    "when": "`before` or `after` the action, or at the `end`",
    "why": "why the check runs again",
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
