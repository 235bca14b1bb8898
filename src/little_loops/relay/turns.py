"""What a relay does around its agent: `prepare` before a turn, `settle` after it.

Both are built-in actions of ordinary states and may be run again after a crash at any point: each
step is either done whole or repeated without harm.

`prepare` prints one JSON object, whose fields the turn's state hands to the agent.  `settle` prints
how the turn went and, as its last line, the verdict.  What makes either impossible is printed as a
`FATAL_ERROR:` line, and is the reason the engine gives.

Not here: the decision (`rules`), what is kept of earlier turns (`record`), git (`commits`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from little_loops.errors import FAILED, LittleLoopsError, StorageError
from little_loops.records import NamedTuple
from little_loops.relay import record, rules
from little_loops.relay.call import Call, Done
from little_loops.relay.commits import (
    Bounds,
    NotCommitted,
    commit,
    drop_snapshot,
    find_repository,
    has_snapshot,
    ready,
    take_snapshot,
)
from little_loops.relay.contract import one_line
from little_loops.relay.metadata import instead_of, move_away, printed_instead, read_metadata
from little_loops.relay.record import Pending, Relay
from little_loops.relay.report import report, turn_line
from little_loops.relay.rules import Cut, Decision, Metadata, Turn, TurnEnd, Unusable

READY = "ready"
NO_REPOSITORY = "there is no git repository here, so nothing is committed"


class Inputs(NamedTuple):
    """What the states of a relay hand to their actions, as `compile` writes it."""

    metadata: str
    plan: str = ""
    session: str = ""
    cwd: str = ""
    commit: bool = True
    started_ns: int | None = None
    after: str = "turn"
    exit: str = ""
    output: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Inputs:
        fields = {name: given[name] for name in cls._fields if name in given}
        fields["started_ns"] = _number(str(fields.get("started_ns", "")))
        return cls(**fields)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


# ── before a turn ──────────────────────────────────────────────────────────────────────────────


def prepare(call: Call) -> Done:
    given = Inputs.of(call.inputs)
    relay = record.load(call.run_dir)
    if relay.ended:  # a `maintain` loop begins again after its end
        record.forget(call.run_dir)
        relay = Relay()
    _warn_of_another_run(call, given.metadata)
    kept = os.path.join(call.run_dir, f"metadata-before-turn-{call.iteration}.json")
    if move_away(given.metadata, kept, call.project) and call.iteration == 1:
        call.warn("an older metadata file was there; it was moved to the run's directory")
    if not given.commit or not _begin_from_commit(call):
        drop_snapshot(call)
    session = _session(call, given, relay)
    turn = Pending(call.run, session, call.iteration)
    started_ns = record.mark_pending(given.metadata, turn, call.project)
    told = _hand_over(call, given, session, relay) | {"started_ns": started_ns}
    call.say(json.dumps(told, ensure_ascii=False))
    return Done(structured=told)


def _warn_of_another_run(call: Call, metadata: str) -> None:
    left = record.pending_at(metadata, call.project)
    if left is not None and left.run != call.run:
        call.warn(f"an earlier relay (run {one_line(left.run, 60)}) was left at turn {left.number}")


def _session(call: Call, given: Inputs, relay: Relay) -> str:
    """As given; else one that is the run's own, however often it is asked for."""
    return one_line(given.session, 100) or relay.session or f"sess_{call.run}"


def _begin_from_commit(call: Call) -> bool:
    """Whether this turn's work can be committed; why it could not be is found out now."""
    repository = find_repository(call)
    if repository is None:
        return False
    ready(repository)
    take_snapshot(repository)
    return True


def _hand_over(call: Call, given: Inputs, session: str, relay: Relay) -> dict[str, Any]:
    started = rules.hand_over(relay.before(call.iteration))
    of = "" if started.phases_total is None else f" of {started.phases_total}"
    return {
        "verdict": READY,
        "reason": f"turn {call.iteration} takes up phase {started.resume_phase}{of}",
        "resume_phase": started.resume_phase,
        "phases_total": "" if started.phases_total is None else started.phases_total,
        "handoff_path": started.handoff_path,
        "iteration": call.iteration,
        "session_id": rules.session_of(session, call.iteration),
        "plan_path": _seen_from(given.cwd, given.plan),
        "metadata_path": _seen_from(given.cwd, given.metadata),
    }


def _seen_from(cwd: str, path: str) -> str:
    """A path of the project for an agent that works in another directory of it."""
    if not cwd or not path or os.path.isabs(path):
        return path
    return os.path.relpath(path, cwd)


# ── after a turn ───────────────────────────────────────────────────────────────────────────────


def settle(call: Call) -> Done:
    given = Inputs.of(call.inputs)
    relay = record.load(call.run_dir)
    end, before = _end(call, given), relay.before(call.iteration)
    decision = rules.decide(end, before)
    turn = rules.remember(call.iteration, end, decision, before)
    turn = turn._replace(notes=(*_notes(call, given, end, before),))
    session = _session(call, given, relay)
    turn, refused = _commit(call, given, session, turn, before)
    held = refused is not None and turn.word not in ("blocked", "failed")
    ended = turn.word in rules.FINAL_WORDS and not held
    relay = Relay(session, (*before, turn), ended)
    record.save(call.run_dir, relay)
    goes_on = _tell(call, given, relay, held=held)
    if refused is not None and held:
        raise refused
    wait_ms = _wait_ms(call, decision) if goes_on else 0
    call.say(f"VERDICT: {turn.word}")
    return Done(wait_ms=wait_ms)


def _end(call: Call, given: Inputs) -> TurnEnd:
    """How the turn ended, by the file it left: an exit code proves nothing."""
    metadata = call.path(given.metadata)
    end = read_metadata(metadata, _started_ns(call, given))
    if isinstance(end, Metadata):
        return end
    if given.after == "prepare":  # the last action that ended was not the turn
        return Cut()
    if given.after == "turn" and not os.path.lexists(metadata):
        ended = f" (exit {given.exit})" if given.exit not in ("", "0") else ""
        printed = bool(given.output) and printed_instead(given.output)
        return Unusable(f"{end.error}{ended}", instead_of(given.metadata) if printed else "")
    return end


def _started_ns(call: Call, given: Inputs) -> int:
    """When the turn began; a turn that version one prepared is known by its guard alone."""
    started_ns = given.started_ns or record.marked_at(given.metadata, call.project)
    if started_ns is None:
        raise StorageError("no turn was prepared, so there is none to settle")
    return started_ns


def _notes(call: Call, given: Inputs, end: TurnEnd, before: tuple[Turn, ...]) -> list[str]:
    notes = rules.remarks(end, before)
    handoff = end.progress.handoff_path if isinstance(end, Metadata) else ""
    places = (handoff, os.path.join(given.cwd, handoff))
    if handoff and not any(os.path.exists(call.path(place)) for place in places):
        notes.append(f"the handoff file `{one_line(handoff)}` is not there")
    if given.commit and not has_snapshot(call) and not before:
        notes.append(NO_REPOSITORY)
    return notes


def _commit(
    call: Call, given: Inputs, session: str, turn: Turn, before: tuple[Turn, ...]
) -> tuple[Turn, NotCommitted | None]:
    """The turn with its commit, or why its work could not be committed."""
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
    left = [f"`{one_line(path)}` is a repository of its own: not committed" for path in done.left]
    return turn._replace(commit=done.id, notes=(*turn.notes, *left)), None


def _bounds(call: Call, given: Inputs) -> Bounds:
    """The scope, and where plan and metadata lie; not the relay's own files."""
    folders = [os.path.dirname(path) for path in (given.metadata, given.plan)]
    inside = [*call.scope, *(path for path in (given.plan, *folders) if path)]
    metadata = _in_project(call, given.metadata)
    postflight = os.path.join(os.path.dirname(metadata), ".postflight-*")
    return Bounds(tuple(_in_project(call, path) for path in inside), (metadata, postflight))


def _in_project(call: Call, path: str) -> str:
    """As git names it: links on the way resolved, from the project's directory."""
    home = os.path.realpath(call.project)
    folder, name = os.path.split(os.path.normpath(os.path.join(home, path)))
    return os.path.relpath(os.path.join(os.path.realpath(folder), name), home)


def _tell(call: Call, given: Inputs, relay: Relay, *, held: bool) -> bool:
    """Say how the turn went, and at the limit, where no state follows, how the relay did.

    Returns whether another turn follows.
    """
    turn = relay.turns[-1]
    text = report(call.loop, relay.session, relay.turns)
    record.write_whole(os.path.join(call.run_dir, record.REPORT), text)
    at_limit = _at_limit(call, turn) and not held
    for note in turn.notes:
        call.say(f"note: {note}")
    call.say(text.rstrip("\n") if at_limit else turn_line(turn, limit=call.iteration_limit))
    if at_limit or relay.ended:
        record.unmark(given.metadata, call.project)
    return not at_limit and not relay.ended


def _at_limit(call: Call, turn: Turn) -> bool:
    """No turn will follow, though one should: the engine ends the run for it."""
    goes_on = turn.word in ("partial", "invalid")
    limit = call.iteration_limit
    return goes_on and limit is not None and call.iteration >= limit


def _wait_ms(call: Call, decision: Decision) -> int:
    """How long the next turn has to wait, because an error came back at once."""
    if decision.wait_s:
        call.warn(f"the same error twice in a row: waiting {decision.wait_s:.0f} s")
    return round(decision.wait_s * 1000)


# ── at the end ─────────────────────────────────────────────────────────────────────────────────


def show_report(call: Call) -> Done:
    text = record.read_small(os.path.join(call.run_dir, record.REPORT), record.LARGEST)
    if text is None:
        raise StorageError("no turn was settled, so there is nothing to report")
    call.say(text.rstrip("\n"))
    return Done()


# ── by name ────────────────────────────────────────────────────────────────────────────────────

ACTIONS: Mapping[str, Callable[[Call], Done]] = {
    "relay.prepare": prepare,
    "relay.settle": settle,
    "relay.report": show_report,
}


def perform(name: str, call: Call) -> Done:
    """Run a built-in action; what made it impossible is said in its output too."""
    try:
        return ACTIONS[name](call)
    except LittleLoopsError as problem:
        remedy = f"; {problem.help}" if problem.help else ""
        return _failed(call, problem.message + remedy, problem.exit_code)
    except OSError as problem:
        return _failed(call, str(problem), FAILED)


def _failed(call: Call, why: str, exit_code: int) -> Done:
    message = one_line(why, 1000)
    call.say(f"FATAL_ERROR: {message}")
    return Done(exit_code, error=message)
