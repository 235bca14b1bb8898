"""Everything about one run, as text and as JSON."""

from __future__ import annotations

import os

from little_loops.fsm.actions import action_of_event, prompt_sign
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    HostChosen,
    KeepBest,
    StateEnter,
)
from little_loops.fsm.extract import plain
from little_loops.fsm.schema import DEFAULT_HOST
from little_loops.fsm.state import RunSummary, WaitFor
from little_loops.fsm.timestamps import Moment, timestamp
from little_loops.fsm.train import why_not_merged
from little_loops.fsm.values import duration_text
from little_loops.fsm.waits import left_ms
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.action_line import shown_action
from little_loops.reporting.amounts import count_text
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import one_line
from little_loops.runs.merges import MergeSummary, merges_of
from little_loops.runs.path_taken import BAD, GOOD, Visit, visits
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, RunView, Session, as_json
from little_loops.terminal.durations import ago, moment, rough
from little_loops.terminal.summaries import ending_of, money, shown_name, signed, word_of
from little_loops.terminal.tables import Style, cells, cut

VISITS = 6
LEFT_OUT = 10
CONTINUATION = 200
LABEL = 11
SECOND = 22


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def document(runs: Runs, detail: RunDetail, now: int) -> dict[str, Any]:
    """Return the run as JSON data."""
    view, action, session = detail.view, _action(detail), detail.session
    last_output_ms = detail.last_output_ms
    return as_json(view, runs.texts(view, detail.entries), now) | {
        "max_iterations": _limit(detail),
        "action": action.event.action if action else None,
        "action_type": action.event.action_type if action else None,
        "last_output_at": None if last_output_ms is None else timestamp(last_output_ms),
        "path": [visit._asdict() for visit in visits(detail.entries)[-VISITS:]],
        "wait": _wait(runs, detail),
        "worktree": detail.worktree,
        "merges": [_merge_json(each) for each in merges_of(detail.entries)],
        "forks": [each.name for each in runs.forks(view)],
        "best": None if (kept := _kept(detail)) is None else _kept_json(kept),
        "spawn": None if session is None else {"pid": session.pid, "alive": session.is_alive},
    }


def _kept_json(kept: KeepBest) -> dict[str, Any]:
    return {"value": kept.best, "tree": kept.tree, "step": kept.kept_step}


def _merge_json(merge: MergeSummary) -> dict[str, Any]:
    return {**merge._asdict(), "left_out": [each._asdict() for each in merge.left_out]}


def _wait(runs: Runs, detail: RunDetail) -> dict[str, Any] | None:
    """Return what the run is waiting for as JSON data; None if it is not waiting."""
    run = detail.view.summary
    if run is None or run.wait is None:
        return None
    return {**run.wait._asdict(), "why": runs.texts(detail.view, detail.entries).waits_for}


def _limit(detail: RunDetail) -> int | None:
    """Return the maximum number of iterations; None if it is no longer known."""
    run, machine = detail.view.summary, detail.machine
    if run is None or machine is None:
        return None
    return run.limits.max_iterations or machine.max_iterations


class Action(NamedTuple):
    event: ActionStart
    started_ms: int


def _action(detail: RunDetail) -> Action | None:
    """Return the action that is running; None if there is none."""
    if detail.view.status != "running":
        return None
    for entry in reversed(detail.entries):
        match entry.event:
            case ActionComplete() | ActionInterrupted():
                return None
            case ActionStart() as start:
                return Action(start, entry.wall_ms)
            case _:
                continue
    return None


# ── for people ─────────────────────────────────────────────────────────────────────────────────


def page(runs: Runs, detail: RunDetail, style: Style, now: int, verbose: int = 0) -> list[str]:
    """Return the lines about a run; with `verbose`, dates and times instead of ages."""
    view = detail.view
    lines = [_headline(view, style, now, verbose)]
    if view.damage:
        label = "format" if view.status == "newer" else "damage"
        lines += _row(label, [visible(view.damage, newlines=False)], style)
    if view.summary is not None:
        lines += _body(runs, detail, view.summary, style, now)
    elif view.status != "queued":
        lines += _row("log", [_from_here(view.files.log)], style)
    return lines


def _headline(view: RunView, style: Style, now: int, verbose: int) -> str:
    """Return the first line: name, status, pid and times."""
    parts = [style.bold(shown_name(view))]
    if view.is_alive or view.summary is None:
        parts.append(style.tinted(signed(view, word_of(view), style)))
    else:
        ending = visible(ending_of(view), newlines=False)
        parts.append(style.tinted(signed(view, ending, style)))
    if view.holder is not None and view.holder.pid:
        parts.append(f"pid {view.holder.pid}")
    if view.summary is not None:
        parts.append(duration_text(view.ran_ms(now)))
        if not view.is_alive:
            parts.append(moment(view.updated_ms) if verbose else ago(view.updated_ms, now))
        elif verbose:
            parts.append(f"since {moment(view.started_ms)}")
    return "  ".join(parts)


def _body(runs: Runs, detail: RunDetail, run: RunSummary, style: Style, now: int) -> list[str]:
    """Return the labelled rows: state, action, error, path, cost and so on."""
    view, shown = detail.view, runs.texts(detail.view, detail.entries)
    lines = _row("state", [_state(detail, run, now), _iteration(run, _limit(detail))], style)
    if view.status == "running" and run.wait is not None:
        waiting = _waiting(run.wait, shown.waits_for, view.ran_ms(now), now)
        lines += _row("waiting", [waiting], style)
    elif action := _action(detail):
        lines += _doing(action.event, detail, style, now)
    if shown.error and shown.error != run.reason and not view.is_alive:
        label = "error" if view.status == "failed" else "message"
        lines += _row(label, [visible(one_line(shown.error), newlines=False)], style)
    if path := _path(detail, style):
        lines += _row("path", [path], style)
    for merge in merges_of(detail.entries):
        lines += _unmerged(merge, style)
    if kept := _kept(detail):
        words = f"{plain(kept.best or 0)}, tree {(kept.tree or '')[:6]} from step {kept.kept_step}"
        lines += _row("best", [words], style)
    if run.cost_usd or run.tokens:
        used = f"{money(run.cost_usd, '$0')} {style.signs.dot} {count_text(run.tokens)} tokens"
        lines += _row("cost", [used], style)
    if detail.session is not None:
        lines += _row("session", [_session_words(detail.session)], style)
    scope = visible(", ".join(run.scope), newlines=False)
    lines += _row("scope", [scope], style)
    lines += _family(runs, detail, run, style)
    lines += _row("log", [_log(view, style)], style)
    if shown.continuation:
        lines.append(f"Continuation context: {_beginning(shown.continuation, style)}")
    return lines


def _family(runs: Runs, detail: RunDetail, run: RunSummary, style: Style) -> list[str]:
    """Return the rows about the run that this one was forked from, where it works, and its forks."""
    lines = []
    if run.fork is not None:
        parent = visible(run.fork.name, newlines=False)
        lines += _row("fork of", [f"{parent}, after step {run.fork.step}"], style)
    if detail.worktree is not None:
        lines += _row("worktree", [visible(detail.worktree, newlines=False)], style)
    if forks := runs.forks(detail.view):
        names = ", ".join(dict.fromkeys(shown_name(each) for each in forks))
        lines += _row("forks", [names], style)
    return lines


def _unmerged(merge: MergeSummary, style: Style) -> list[str]:
    """Return the rows about branches that were left out, and the command that finishes a merge."""
    lines = []
    for out in merge.left_out[:LEFT_OUT]:
        lines += _row(
            "left out", [visible(f"{out.name}: {why_not_merged(out)}", newlines=False)], style
        )
    if (more := len(merge.left_out) - LEFT_OUT) > 0:
        lines += _row("", [f"and {more} more"], style)
    if merge.left_out and merge.kept:
        lines += _row("", ["`ll-loop worktrees` lists the worktrees that were kept"], style)
    if merge.reason:
        words = f"`{merge.onto}` was left alone: {merge.reason}"
        lines += _row("merge", [visible(words, newlines=False)], style)
        lines += _row("", [f"to finish it: {visible(merge.command, newlines=False)}"], style)
    return lines


def _row(label: str, parts: list[str], style: Style) -> list[str]:
    """Return a label and one or two parts; the second goes below the first if there is no room."""
    first, rest = parts[0], [part for part in parts[1:] if part]
    start = f"  {label:<{LABEL}}"
    if not rest:
        return [start + first]
    padded = first + " " * max(SECOND - cells(first), 4)
    beside = start + padded + rest[0]
    if style.width is None or cells(beside) <= style.width:
        return [beside]
    return [start + first, " " * len(start) + rest[0]]


def _log(view: RunView, style: Style) -> str:
    """Return the log's path, or the command to print it if the path does not fit."""
    path = _from_here(view.files.log)
    fits = style.width is None or cells(path) + LABEL + 2 <= style.width
    return path if fits else f"ll-loop logs {visible(view.name)}"


def _state(detail: RunDetail, run: RunSummary, now: int) -> str:
    """Return the current state, and for how long the run has been in it."""
    state = visible(run.current_state, newlines=False)
    if detail.view.status != "running":
        return state
    entered = [each.wall_ms for each in detail.entries if isinstance(each.event, StateEnter)]
    since_ms = entered[-1] if entered else detail.view.updated_ms
    return f"{state} ({duration_text(max(now - since_ms, 0))})"


def _iteration(run: RunSummary, limit: int | None) -> str:
    of = f" of {limit}" if limit is not None else ""
    cycle = f", cycle {run.cycle}" if run.cycle > 1 else ""
    return f"iteration {run.iteration}{of}{cycle}"


def _doing(action: ActionStart, detail: RunDetail, style: Style, now: int) -> list[str]:
    """Return the row about the running action, with the age of its last output."""
    sign = _sign(action, detail)
    text = visible(f"{sign}{shown_action(action)}", newlines=False)
    if style.width is not None:
        text = cut(text, max(style.width - LABEL - 2, 10), style.signs.more)
    last_output_ms = detail.last_output_ms
    return _row(
        "action",
        [text, "" if last_output_ms is None else f"last output {ago(last_output_ms, now)}"],
        style,
    )


def _sign(action: ActionStart, detail: RunDetail) -> str:
    """Return what stands before the action: who runs it, or that each branch runs it."""
    state = None if detail.machine is None else detail.machine.states.get(action.state)
    if state is not None and state.branches is not None:
        return "" if state.branches.named else "each: "
    what = action_of_event(action.action, action.action_type)
    return prompt_sign(what, _host(detail, action.state))


def _waiting(wait: WaitFor, why: str | None, ran: int, now: int) -> str:
    """Return how much longer the run waits, and for what."""
    left = left_ms(wait, Moment(now, ran))
    why = why or f"before the next {_BEFORE.get(wait.kind, 'step')}"
    text = visible(one_line(why), newlines=False)
    waits_for_others = wait.until_wall_ms is None and wait.until_ran_ms is None
    return text if waits_for_others else f"{rough(left)} more: {text}"


_BEFORE = {"backoff": "iteration", "retry": "attempt", "maintain": "cycle", "handoff": "session"}


def _host(detail: RunDetail, name: str) -> str:
    """Return the agent CLI that runs this state's action."""
    for entry in reversed(detail.entries):
        if isinstance(entry.event, HostChosen) and entry.event.state == name:
            return visible(entry.event.host, newlines=False)
    if detail.machine is None:
        return DEFAULT_HOST
    state = detail.machine.states.get(name)
    return visible(detail.machine.host.under(state.host if state else None).host, newlines=False)


def _path(detail: RunDetail, style: Style) -> str:
    """Return the last states that the run visited, with their verdicts."""
    path = visits(detail.entries)[-VISITS:]
    if detail.view.status == "running" and path and _action(detail):
        path[-1] = path[-1]._replace(verdict="under way")
    words = [_visited(visit, style) for visit in path]
    if style.width is not None:
        while len(words) > 1 and cells("  ".join(words)) > style.width - LABEL - 2:
            words.pop(0)
    return "  ".join(words)


def _kept(detail: RunDetail) -> KeepBest | None:
    """Return the last decision of `keep: best` that has a best value; None if there is none."""
    for entry in reversed(detail.entries):
        match entry.event:
            case KeepBest(best=float() | int()) as kept:
                return kept
            case _:
                continue
    return None


def _visited(visit: Visit, style: Style) -> str:
    """Return a visited state with a sign for its verdict."""
    state = visible(visit.state, newlines=False)
    match visit.verdict:
        case None:
            return state
        case "under way":
            return f"{state} {style.signs.more}"
        case verdict if verdict in GOOD:
            return f"{state} {style.signs.good}"
        case verdict if verdict in BAD:
            return f"{state} {style.signs.bad}"
        case word:
            return f"{state} ({visible(word, newlines=False)})"


def _session_words(session: Session) -> str:
    if session.is_alive:
        return f"pid {session.pid} is expected to continue it"
    return f"ended without a resume (pid {session.pid})"


def _beginning(text: str, style: Style) -> str:
    flat = " ".join(text.split())
    more = style.signs.more if len(flat) > CONTINUATION else ""
    return visible(flat[:CONTINUATION], newlines=False) + more


def _from_here(path: str) -> str:
    """Return the path relative to the current directory, unless that would start with `..`."""
    relative = os.path.relpath(path)
    return visible(path if relative.startswith("..") else relative, newlines=False)
