"""What a relay does around its agent: `prepare` before a turn, `settle` after it.

Both run as actions of ordinary states, by a hidden verb of `ll-loop`, and may be run again after a
crash at any point: each step is either done whole or repeated without harm.

`prepare` prints one JSON object, whose fields the turn's state hands to the agent.  `settle` prints
what there is to say and, as its last line, the verdict.  What makes either impossible leaves as a
`FATAL_ERROR:` line, which the engine takes for the reason.

Not here: the decision (`rules`), what is remembered (`record`), git (`commits`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from little_loops.errors import OK, LittleLoopsError, StorageError, UsageError
from little_loops.records import NamedTuple
from little_loops.relay import record, rules
from little_loops.relay.commits import (
    Bounds,
    NotCommitted,
    commit,
    find_repository,
    look,
    ready,
)
from little_loops.relay.contract import one_line
from little_loops.relay.metadata import instead_of, move_away, printed_instead, read_metadata
from little_loops.relay.record import Relay
from little_loops.relay.report import report, turn_line
from little_loops.relay.rules import Cut, Decision, Metadata, Turn, TurnEnd, Unusable

READY = "ready"
NO_REPOSITORY = "there is no git repository here, so nothing is committed"


class Surroundings(NamedTuple):
    """What the engine tells every action about its run."""

    run_dir: str
    run: str
    loop: str
    iteration: int
    limit: int | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Surroundings:
        missing = [name for name in NEEDED if not environ.get(name)]
        if missing:
            raise UsageError(
                f"`{missing[0]}` is not set: this verb is run by a relay's own states",
                "run the loop instead: ll-loop run LOOP",
            )
        return cls(
            environ["LL_RUN_DIR"],
            environ["LL_RUN_ID"],
            environ["LL_LOOP"],
            _number(environ["LL_ITERATION"]) or 1,
            _number(environ.get("LL_ITERATION_LIMIT", "")),
        )


NEEDED = ("LL_RUN_DIR", "LL_RUN_ID", "LL_LOOP", "LL_ITERATION")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# ── before a turn ──────────────────────────────────────────────────────────────────────────────


def prepare(args: argparse.Namespace, around: Surroundings) -> int:
    relay = _relay(args, around)
    _wait(relay)
    kept = os.path.join(around.run_dir, f"metadata-before-turn-{relay.number}.json")
    if move_away(args.metadata, kept) and relay.number == 1:
        _talk("an older metadata file was there; it was moved to the run's directory")
    relay = relay._replace(started=rules.hand_over(relay.before()), commits=args.commit)
    if args.commit:
        relay = relay._replace(commits=_take_stock(around))
    relay = relay._replace(started_ns=record.mark_pending(args.metadata, relay))
    record.save(around.run_dir, relay)
    _print(json.dumps(_hand_over(args, relay), ensure_ascii=False))
    return OK


def _relay(args: argparse.Namespace, around: Surroundings) -> Relay:
    """The relay as it stands at the beginning of this turn."""
    relay = record.load(around.run_dir)
    if relay is None or relay.ended:  # a `maintain` loop begins anew after its end
        relay = Relay(around.run, _session(args, around), number=around.iteration)
    return relay._replace(number=around.iteration)


def _session(args: argparse.Namespace, around: Surroundings) -> str:
    if given := one_line(args.session, 100):
        return given
    left = record.pending_at(args.metadata)
    if left is not None and left.run == around.run and left.session:
        return left.session
    if left is not None and left.run != around.run:
        _talk(f"an earlier relay (run {one_line(left.run, 60)}) was left at turn {left.number}")
    from secrets import token_hex  # once in a run

    return f"sess_{int(time.time())}_{token_hex(3)}"


def _wait(relay: Relay) -> None:
    """Until an error that came back at once may be tried once more; a signal ends it."""
    left_s = min(relay.not_before_ms - time.time() * 1000, relay.wait_ms) / 1000
    if left_s > 0:
        _talk(f"the same error twice in a row: waiting {left_s:.0f} s")
        time.sleep(left_s)


def _take_stock(around: Surroundings) -> bool:
    """Whether this turn's work can be committed; what could not be is found out now."""
    repository = find_repository(os.getcwd())
    if repository is None:
        return False
    ready(repository)
    look(repository, around.run_dir)
    return True


def _hand_over(args: argparse.Namespace, relay: Relay) -> dict[str, object]:
    started = relay.started
    of = "" if started.phases_total is None else f" of {started.phases_total}"
    return {
        "verdict": READY,
        "reason": f"turn {relay.number} takes up phase {started.resume_phase}{of}",
        "resume_phase": started.resume_phase,
        "phases_total": "" if started.phases_total is None else started.phases_total,
        "handoff_path": started.handoff_path,
        "iteration": relay.number,
        "session_id": rules.session_of(relay.session, relay.number),
        "plan_path": _seen_from(args.cwd, args.plan),
        "metadata_path": _seen_from(args.cwd, args.metadata),
    }


def _seen_from(cwd: str, path: str) -> str:
    """A path of the project for an agent that works in another directory of it."""
    if not cwd or not path or os.path.isabs(path):
        return path
    return os.path.relpath(path, cwd)


# ── after a turn ───────────────────────────────────────────────────────────────────────────────


def settle(args: argparse.Namespace, around: Surroundings) -> int:
    relay = record.load(around.run_dir)
    if relay is None:
        raise StorageError("no turn was prepared, so there is none to settle")
    end, before = _end(args, relay), relay.before()
    decision = rules.decide(end, before)
    turn = rules.remember(relay.number, end, decision, before)
    turn = turn._replace(notes=(*_notes(args, relay, end),))
    turn, refused = _commit(args, around, relay, turn)
    held = refused is not None and turn.word not in ("blocked", "failed")
    relay = _settled(relay, turn, decision, held=held)
    record.save(around.run_dir, relay)
    _tell(args, around, relay, held=held)
    if refused is not None and held:
        raise refused
    _print(f"VERDICT: {turn.word}")
    return OK


def _end(args: argparse.Namespace, relay: Relay) -> TurnEnd:
    """How the turn ended, by the file it left: an exit code proves nothing."""
    end = read_metadata(args.metadata, relay.started_ns)
    if isinstance(end, Metadata):
        return end
    if args.after == "prepare":  # the last action that ended was not the turn
        return Cut()
    if args.after == "turn" and not os.path.lexists(args.metadata):
        ended = f" (exit {args.exit})" if args.exit not in ("", "0") else ""
        printed = bool(args.output) and printed_instead(args.output)
        return Unusable(f"{end.error}{ended}", instead_of(args.metadata) if printed else "")
    return end


def _notes(args: argparse.Namespace, relay: Relay, end: TurnEnd) -> list[str]:
    notes = rules.remarks(end, relay.before())
    handoff = end.progress.handoff_path if isinstance(end, Metadata) else ""
    if handoff and not any(os.path.exists(os.path.join(at, handoff)) for at in ("", args.cwd)):
        notes.append(f"the handoff file `{one_line(handoff)}` is not there")
    if args.commit and not relay.commits and not relay.before():
        notes.append(NO_REPOSITORY)
    return notes


def _commit(
    args: argparse.Namespace, around: Surroundings, relay: Relay, turn: Turn
) -> tuple[Turn, NotCommitted | None]:
    """The turn with its commit, or why its work could not be committed."""
    if not args.commit or not relay.commits:
        return turn, None
    message = rules.commit_message(around.loop, relay.session, turn, relay.started)
    try:
        repository = find_repository(os.getcwd())
        if repository is None:
            raise NotCommitted("the git repository is gone")
        done = commit(repository, around.run_dir, message, _bounds(args))
    except LittleLoopsError as problem:
        why = f"the work of turn {turn.number} is kept, but not committed: {problem.message}"
        return turn._replace(notes=(*turn.notes, why)), NotCommitted(why, problem.help)
    left = [f"`{one_line(path)}` is a repository of its own: not committed" for path in done.left]
    return turn._replace(commit=done.id, notes=(*turn.notes, *left)), None


def _bounds(args: argparse.Namespace) -> Bounds:
    """The scope, and where plan and metadata lie; not the relay's own files."""
    folders = [os.path.dirname(path) for path in (args.metadata, args.plan) if path]
    inside = [*(args.scope or ["."]), *(path for path in (args.plan, *folders) if path)]
    metadata = _in_project(args.metadata)
    postflight = os.path.join(os.path.dirname(metadata), ".postflight-*")
    return Bounds(tuple(_in_project(path) for path in inside), (metadata, postflight))


def _in_project(path: str) -> str:
    """As git names it: links on the way resolved, from the project's directory."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath("."))


def _settled(relay: Relay, turn: Turn, decision: Decision, *, held: bool) -> Relay:
    """The relay after this turn; `held` up, it will be settled once more."""
    wait_ms = round(decision.wait_s * 1000)
    return relay._replace(
        turns=(*relay.before(), turn),
        wait_ms=wait_ms,
        not_before_ms=round(time.time() * 1000) + wait_ms if wait_ms else 0,
        ended=turn.word in rules.FINAL_WORDS and not held,
    )


def _tell(args: argparse.Namespace, around: Surroundings, relay: Relay, *, held: bool) -> None:
    """Say how the turn went, and at the limit, where no state follows, how the relay did."""
    turn = relay.turns[-1]
    text = report(around.loop, relay.session, relay.turns)
    record.write_whole(os.path.join(around.run_dir, record.REPORT), text)
    at_limit = _at_limit(around, turn) and not held
    for note in turn.notes:
        _print(f"note: {note}")
    _print(text.rstrip("\n") if at_limit else turn_line(turn, limit=around.limit))
    if at_limit or relay.ended:
        record.unmark(args.metadata)


def _at_limit(around: Surroundings, turn: Turn) -> bool:
    """No turn will follow, though one should: the engine ends the run for it."""
    goes_on = turn.word in ("partial", "invalid")
    return goes_on and around.limit is not None and around.iteration >= around.limit


# ── the verb ───────────────────────────────────────────────────────────────────────────────────


def main(argv: Sequence[str]) -> int:
    args = _parser().parse_args(argv)
    around = Surroundings.of(os.environ)
    try:
        return prepare(args, around) if args.verb == "prepare" else settle(args, around)
    except LittleLoopsError as problem:
        remedy = f"; {problem.help}" if problem.help else ""
        _print(f"FATAL_ERROR: {one_line(problem.message + remedy, 1000)}")
        return problem.exit_code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "this verb is run by a relay's own states")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ll-loop relay", add_help=False, allow_abbrev=False)
    parser.add_argument("verb", choices=("prepare", "settle"))
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--plan", default="")
    parser.add_argument("--session", default="")
    parser.add_argument("--cwd", default="")
    parser.add_argument("--scope", action="append")
    parser.add_argument("--no-commit", dest="commit", action="store_false")
    parser.add_argument("--after", default="turn")
    parser.add_argument("--exit", default="")
    parser.add_argument("--output", default="")
    return parser


def _print(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def _talk(text: str) -> None:
    sys.stderr.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stderr.flush()
