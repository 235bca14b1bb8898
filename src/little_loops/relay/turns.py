"""What a relay does around its agent: `prepare` before a turn, `settle` after it.

Both are built-in actions of ordinary states, and can be run again after a crash at any point: each
step is either atomic or can be repeated without harm.

`prepare` prints one JSON object, whose fields the turn's state passes to the agent. `settle` prints
how the turn went and, as its last line, the verdict. If either fails, it prints a `FATAL_ERROR:`
line with the reason, which the engine reports.

Not here: the decision (`rules`), the record of earlier turns (`record`), git (`commits`), cleaning
up when the run has ended (`run_end`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence

from little_loops.errors import FAILED, LittleLoopsError, StorageError, UsageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.relay import record, rules
from little_loops.relay.call import BuiltinResult, Call
from little_loops.relay.commits import (
    CommitBounds,
    NotCommitted,
    check_can_commit,
    commit,
    drop_snapshot,
    find_repository,
    has_snapshot,
    take_snapshot,
)
from little_loops.relay.contract import one_line
from little_loops.relay.metadata import move_away, printed_instead_of, read_metadata, was_printed
from little_loops.relay.record import Pending, Relay, Task, kept_metadata
from little_loops.relay.report import report, turn_line
from little_loops.relay.rules import Cut, Decision, Metadata, RelayTurn, TurnEnd, UnusableMetadata
from little_loops.relay.tasks import check_task, write_status
from little_loops.system.plain_files import reading

READY = "ready"
NO_REPOSITORY = "this is not a git repository, so nothing is committed"
CHECK_LINES = 40
CHECK_BYTES = 4096


class Inputs(NamedTuple):
    """The values that the states of a relay pass to their actions, as `compile` writes them."""

    metadata: str
    plan: str = ""
    session: str = ""
    cwd: str = ""
    commit: bool = True
    task_id: str = ""
    task_state: str = ""
    task_todo: str = ""
    checked: bool = False
    check_log: str = ""
    started_ns: int | None = None
    after: str = "turn"
    exit: str = ""
    output: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Inputs:
        """Build the inputs from a state's values, ignoring unknown names."""
        fields = {name: given[name] for name in cls._fields if name in given}
        fields["started_ns"] = _number(str(fields.get("started_ns", "")))
        return cls(**fields)

    @property
    def task(self) -> Task:
        return Task(self.task_id, self.task_state, self.task_todo)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


# ── before a turn ──────────────────────────────────────────────────────────────────────────────


def prepare(call: Call) -> BuiltinResult:
    """Set up a turn: move the old metadata away, take a snapshot, mark the turn and the task.

    Prints the values for the agent. Raises `UsageError` if the plan or the task is missing, and
    `NotCommitted` if the turn's work could not be committed.
    """
    given = Inputs.of(call.inputs)
    relay = record.load(call.run_dir)
    # Another turn follows, so the check that the last one was waiting for has failed.
    before = rules.with_check_result(relay.before(call.iteration), "failed")
    _require_plan(call, given.plan)
    if call.iteration == 1:  # later, an agent may have moved it, which must not stop the plan
        check_task(given.task, call.project)
    warnings = [
        *_warn_of_earlier_relay(call, given.metadata),
        *_move_old_metadata(call, given.metadata),
    ]
    if not given.commit or not _snapshot_before_turn(call):
        drop_snapshot(call)
    session = _session(call, given, relay)
    relay = Relay(session, before, given.metadata, given.task, call.iteration)
    record.save(call.run_dir, relay)
    turn = Pending(call.run, session, call.iteration)
    started_ns = record.mark_pending(given.metadata, turn, call.project)
    warnings += _write_task_status(call, given.task, "implementing", ())
    values = _values_for_agent(call, given, relay) | {"started_ns": started_ns}
    call.say(json.dumps(values, ensure_ascii=False))
    return BuiltinResult(structured=values, warnings=tuple(warnings))


def _require_plan(call: Call, plan: str) -> None:
    """Raise `UsageError` if the plan does not exist."""
    if plan and not os.path.exists(call.path(plan)):
        raise UsageError(
            f"the plan `{one_line(plan)}` does not exist",
            "create it, or correct `plan` in the loop",
        )


def _warn_of_earlier_relay(call: Call, metadata: str) -> list[str]:
    """Return a warning if another run left an unfinished turn here."""
    left = record.pending_at(metadata, call.project)
    if left is None or left.run == call.run:
        return []
    return [f"an earlier relay (run {one_line(left.run, 60)}) stopped at turn {left.number}"]


def _move_old_metadata(call: Call, metadata: str) -> list[str]:
    """Move the previous turn's metadata away; return a warning if it is from an earlier relay."""
    moved = move_away(metadata, kept_metadata(call.run_dir, call.iteration - 1), call.project)
    if not moved or call.iteration > 1:
        return []
    return ["an older metadata file was moved to the run's directory"]


def _session(call: Call, given: Inputs, relay: Relay) -> str:
    """Return the session id that was given, or else one that is always the same for this run."""
    return one_line(given.session, 100) or relay.session or f"sess_{call.run}"


def _snapshot_before_turn(call: Call) -> bool:
    """Take a snapshot for the commit after the turn; return False if there is no repository.

    Raises `NotCommitted` now if that commit would fail.
    """
    repository = find_repository(call)
    if repository is None:
        return False
    check_can_commit(repository)
    take_snapshot(repository)
    return True


def _values_for_agent(call: Call, given: Inputs, relay: Relay) -> dict[str, Any]:
    """Return the values that the turn's state passes to the agent."""
    started = rules.hand_over(relay.turns)
    of = "" if started.phases_total is None else f" of {started.phases_total}"
    return {
        "verdict": READY,
        "reason": f"turn {call.iteration} starts at phase {started.resume_phase}{of}",
        "resume_phase": started.resume_phase,
        "phases_total": "" if started.phases_total is None else started.phases_total,
        "handoff_path": started.handoff_path,
        "iteration": call.iteration,
        "session_id": rules.session_of(relay.session, call.iteration),
        "plan_path": _relative_to(given.cwd, given.plan),
        "metadata_path": _relative_to(given.cwd, given.metadata),
        **_failed_check(given, relay),
    }


def _failed_check(given: Inputs, relay: Relay) -> dict[str, str]:
    """Return the output of the check that the last turn failed: its end, and the file with all.

    Both are empty if no check failed.
    """
    if not relay.turns or not relay.turns[-1].refuted:
        return {"check_output": "", "check_log": ""}
    return {"check_output": _tail(given.check_log), "check_log": given.check_log}


def _tail(path: str) -> str:
    """Return the last lines of a file, indented, so that none of them looks like a line of ours.

    Empty if the file cannot be read.
    """
    try:
        with reading(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - CHECK_BYTES))
            text = stream.read(CHECK_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [one_line(line) for line in text.splitlines()[-CHECK_LINES:]]
    return "".join(f"\n  {line}" for line in lines if line)


def _relative_to(cwd: str, path: str) -> str:
    """Return a project path relative to `cwd`, where the agent works."""
    if not cwd or not path or os.path.isabs(path):
        return path
    return os.path.relpath(path, cwd)


# ── after a turn ───────────────────────────────────────────────────────────────────────────────


def settle(call: Call) -> BuiltinResult:
    """Evaluate a turn by its metadata: decide, update the task, commit, and print the verdict.

    Raises `NotCommitted` if the work could not be committed and another turn would follow.
    """
    given = Inputs.of(call.inputs)
    relay = record.load(call.run_dir)
    end, before = _read_end(call, given), relay.before(call.iteration)
    decision = rules.decide(end, before)
    turn = rules.remember(call.iteration, end, decision, before)
    turn = turn._replace(notes=(*_notes(call, given, end, before),))
    if given.checked and turn.word == "implemented":
        turn = turn._replace(check="pending")
    session = _session(call, given, relay)
    turn = _update_task(call, given.task, turn, before)
    turn, refused = _commit(call, given, session, turn, before)
    relay = Relay(session, (*before, turn), given.metadata, given.task, call.iteration)
    _save(call, relay)
    call.say(turn_line(turn, limit=call.iteration_limit))
    if refused is not None and turn.word not in ("blocked", "failed"):
        raise refused
    wait_ms = _wait_ms(call, turn, decision)
    call.say(f"VERDICT: {turn.word}")
    return BuiltinResult(wait_ms=wait_ms, warnings=turn.notes)


def _save(call: Call, relay: Relay) -> str:
    """Save the relay and its report. Return the report."""
    record.save(call.run_dir, relay)
    text = report(call.loop, relay.session, relay.turns)
    record.write_atomically(os.path.join(call.run_dir, record.REPORT), text)
    return text


def _read_end(call: Call, given: Inputs) -> TurnEnd:
    """Return how the turn ended, by the file that it left: an exit code proves nothing."""
    metadata = _metadata_path(call, given.metadata)
    end = read_metadata(metadata, _started_ns(call, given))
    if isinstance(end, Metadata):
        return end
    if given.after == "prepare":  # the turn's action never ended
        return Cut()
    if given.after == "turn" and not os.path.lexists(metadata):
        ended = f" (exit {given.exit})" if given.exit not in ("", "0") else ""
        printed = bool(given.output) and was_printed(given.output)
        return UnusableMetadata(
            f"{end.error}{ended}", printed_instead_of(given.metadata) if printed else ""
        )
    return end


def _metadata_path(call: Call, metadata: str) -> str:
    """Return where the turn's metadata is: in place, or in the run's directory if the run had
    ended."""
    path, kept = call.path(metadata), kept_metadata(call.run_dir, call.iteration)
    return kept if not os.path.lexists(path) and os.path.lexists(kept) else path


def _started_ns(call: Call, given: Inputs) -> int:
    """Return when the turn started; for a turn that version one prepared, by its guard.

    Raises `StorageError` if no turn was prepared.
    """
    started_ns = given.started_ns or record.marked_at(given.metadata, call.project)
    if started_ns is None:
        raise StorageError("no turn was prepared, so there is no turn to evaluate")
    return started_ns


def _notes(call: Call, given: Inputs, end: TurnEnd, before: tuple[RelayTurn, ...]) -> list[str]:
    """Return warnings about the turn: odd metadata, a missing handoff file, no repository."""
    notes = rules.remarks(end, before)
    handoff = end.progress.handoff_path if isinstance(end, Metadata) else ""
    places = (handoff, os.path.join(given.cwd, handoff))
    if handoff and not any(os.path.exists(call.path(place)) for place in places):
        notes.append(f"the handoff file `{one_line(handoff)}` does not exist")
    if given.commit and not has_snapshot(call) and not before:
        notes.append(NO_REPOSITORY)
    return notes


def _update_task(
    call: Call, task: Task, turn: RelayTurn, before: tuple[RelayTurn, ...]
) -> RelayTurn:
    """Write the task's status after the turn; add a note to the turn if that fails."""
    artifacts = rules.artifacts_of((*before, turn))
    problems = _write_task_status(call, task, rules.task_status(turn), artifacts)
    return turn._replace(notes=(*turn.notes, *problems))


def _write_task_status(
    call: Call, task: Task, status: rules.TaskStatus, artifacts: Sequence[str]
) -> list[str]:
    """Write the task's status; return the failure as a warning.

    An agent may have changed the files, and the plan's progress does not depend on them.
    """
    try:
        write_status(task, status, artifacts, call.project)
    except LittleLoopsError as problem:
        return [f"could not write the status of task {one_line(task.id, 60)}: {problem.message}"]
    return []


def _commit(
    call: Call, given: Inputs, session: str, turn: RelayTurn, before: tuple[RelayTurn, ...]
) -> tuple[RelayTurn, NotCommitted | None]:
    """Commit the turn's work. Return the turn, and the error if it could not be committed."""
    if not given.commit or not has_snapshot(call):
        return turn, None
    message = rules.commit_message(call.loop, session, turn, rules.hand_over(before))
    try:
        repository = find_repository(call)
        if repository is None:
            raise NotCommitted("the git repository is gone")
        done = commit(repository, message, _bounds(call, given))
    except LittleLoopsError as problem:
        why = f"the work of turn {turn.number} is kept, but not committed: {problem.message}"
        return turn._replace(notes=(*turn.notes, why)), NotCommitted(why, problem.help)
    left = [
        f"`{one_line(path)}` is a separate git repository and was not committed"
        for path in done.left
    ]
    return turn._replace(commit=done.id, notes=(*turn.notes, *left)), None


def _bounds(call: Call, given: Inputs) -> CommitBounds:
    """Return what to commit: the scope, the directories of plan and metadata, and the task's files.

    The relay's own files are excluded.
    """
    folders = [os.path.dirname(path) for path in (given.metadata, given.plan)]
    more = (given.plan, *folders, given.task_state, given.task_todo)
    inside = [*call.scope, *(path for path in more if path)]
    metadata = _in_project(call, given.metadata)
    postflight = os.path.join(os.path.dirname(metadata), ".postflight-*")
    return CommitBounds(tuple(_in_project(call, path) for path in inside), (metadata, postflight))


def _in_project(call: Call, path: str) -> str:
    """Return a path as git names it: relative to the project, with linked directories resolved."""
    home = os.path.realpath(call.project)
    folder, name = os.path.split(os.path.normpath(os.path.join(home, path)))
    return os.path.relpath(os.path.join(os.path.realpath(folder), name), home)


def _wait_ms(call: Call, turn: RelayTurn, decision: Decision) -> int:
    """Return how long the next turn has to wait because an error has repeated, and print a warning.

    0 if no wait is needed, or at the turn limit.
    """
    limit = call.iteration_limit
    if not decision.wait_s or (limit is not None and turn.number >= limit):
        return 0
    call.warn(f"the same error twice in a row: waiting {decision.wait_s:.0f} s")
    return round(decision.wait_s * 1000)


# ── at the end ─────────────────────────────────────────────────────────────────────────────────


def show_report(call: Call) -> BuiltinResult:
    """Print and save the report of a relay that has ended.

    If the check has passed, the task is completed. Raises `StorageError` if no turn has finished.
    """
    relay = record.load(call.run_dir)
    if not relay.turns:
        raise StorageError("no turn has finished, so there is nothing to report")
    # A relay that reaches its report with an implemented plan has passed its check.
    relay = relay._replace(turns=rules.with_check_result(relay.turns, "passed"))
    warnings = _complete_task(call, relay)
    call.say(_save(call, relay).rstrip("\n"))
    return BuiltinResult(warnings=tuple(warnings))


def _complete_task(call: Call, relay: Relay) -> list[str]:
    """Mark the task as completed, in a commit of its own. Return warnings.

    The turn's own commit was made before its check had passed.
    """
    turn, task = relay.turns[-1], relay.task
    if turn.check != "passed" or not task.id:
        return []
    artifacts = rules.artifacts_of(relay.turns)
    problems = _write_task_status(call, task, rules.task_status(turn), artifacts)
    places = tuple(_in_project(call, path) for path in (task.state, task.todo) if path)
    try:
        repository = find_repository(call) if has_snapshot(call) else None
        if repository is not None and places:
            message = rules.completion_message(call.loop, relay.session, task.id, turn)
            commit(repository, message, CommitBounds(places), before={})
    except LittleLoopsError as problem:
        problems.append(f"could not commit the status of task {task.id}: {problem.message}")
    return problems


# ── by name ────────────────────────────────────────────────────────────────────────────────────

ACTIONS: Mapping[str, Callable[[Call], BuiltinResult]] = {
    "relay.prepare": prepare,
    "relay.settle": settle,
    "relay.report": show_report,
}


def perform(name: str, call: Call) -> BuiltinResult:
    """Run the built-in action `name`; raise `Interrupted` if it has to stop.

    A failure is printed as `FATAL_ERROR:` and returned as the result.
    """
    try:
        return ACTIONS[name](call)
    except LittleLoopsError as problem:
        remedy = f"; {problem.help}" if problem.help else ""
        return _failed(call, problem.message + remedy, problem.exit_code)
    except OSError as problem:
        return _failed(call, str(problem), FAILED)


def _failed(call: Call, why: str, exit_code: int) -> BuiltinResult:
    message = one_line(why, 1000)
    call.say(f"FATAL_ERROR: {message}")
    return BuiltinResult(exit_code, error=message)
