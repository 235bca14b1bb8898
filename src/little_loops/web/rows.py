"""Runs as the page lists them: one form for current, past and queued runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from little_loops.fsm.gates import open_gate
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED
from little_loops.runs.history_index import PastRun
from little_loops.runs.layout import RunFiles
from little_loops.runs.path_taken import BAD, GOOD
from little_loops.runs.view import RunView
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import sign_name, word_of
from little_loops.web.abilities import abilities
from little_loops.web.keys import run_key

if TYPE_CHECKING:
    from little_loops.web.security import Policy
    from little_loops.web.site import Project

GROUPS = ("waiting", "running", "queued", "ended")


def row(
    policy: Policy,
    project: Project,
    view: RunView,
    machine: FSMLoop | None = None,
    *,
    is_newest: bool = True,
) -> dict[str, Any]:
    """Return a run as a row of a list."""
    summary, now = view.summary, now_ms()
    texts, group = project.runs.texts(view), group_of(view)
    gate = None if summary is None or view.is_alive else open_gate(summary)
    return {
        "key": project.run_key(view),
        "project": project.key,
        "name": view.name,
        "run": summary.run if summary else None,
        "loop": view.loop,
        "archived_as": view.files.stem,
        "status": view.status,
        "reason": view.reason,
        "word": word_of(view),
        "tone": "waiting" if group == "waiting" else sign_name(view),
        "group": group,
        "state": summary.current_state if summary else None,
        "iteration": summary.iteration if summary else None,
        "max_iterations": None if machine is None else limits(view, machine)["max_iterations"],
        "started_ms": view.started_ms,
        "updated_ms": view.updated_ms,
        "duration_ms": view.ran_ms(now),
        "at_ms": now,
        "cost_usd": round(summary.cost_usd, 6) if summary else 0,
        "tokens": summary.tokens if summary else 0,
        "error": _error(view, texts.error),
        "damage": view.damage,
        "pid": view.holder.pid if view.holder else None,
        "gate": None
        if gate is None or summary is None
        else {"state": summary.current_state, "seq": gate},
        "has_file": view.has_file,
        "forked_from": _fork(view),
        "has_children": project.runs.has_children(view),
        "seq": summary.seq if summary else None,
        "can": abilities(policy, view, machine, is_newest=is_newest),
    }


def _error(view: RunView, text: str | None) -> str | None:
    """Return why a run failed or waits; an end in a failure state has no other reason."""
    if view.summary is not None and (view.status, view.reason) == ("failed", "terminal"):
        return f"it ended in the failure state `{view.summary.current_state}`"
    return None if text == view.reason else text


def _fork(view: RunView) -> dict[str, Any] | None:
    fork = None if view.summary is None else view.summary.fork
    return None if fork is None else {"name": fork.name, "step": fork.step}


def group_of(view: RunView) -> str:
    """Return where a run is listed; one that can only continue with the user's help waits for it."""
    if view.is_alive:
        return view.status
    is_ended = view.files.stem is not None or (view.path and view.status not in UNFINISHED)
    return "ended" if is_ended else "waiting"


def limits(view: RunView, machine: FSMLoop) -> dict[str, Any]:
    """Return the limits of a run: its own, else those of its machine."""
    own = view.summary.limits if view.summary else None

    def of(name: str, default: Any) -> Any:
        given = None if own is None else getattr(own, name)
        return default if given is None else given

    return {
        "max_iterations": of("max_iterations", machine.max_iterations),
        "timeout_s": of("timeout", machine.timeout),
        "max_cost_usd": of("max_cost_usd", machine.max_cost_usd),
        "max_tokens": of("max_tokens", machine.max_tokens),
        "max_continuations": of("max_continuations", machine.max_continuations),
    }


def ending(project: Project, run: PastRun) -> dict[str, Any]:
    """Return a past run as the strips and charts of a loop have it."""
    files = RunFiles(project.root, run.name, run.stem)
    view = RunView(files, run.status, run.reason)
    return {
        "key": run_key(project.key, files),
        "status": run.status,
        "reason": run.reason,
        "word": word_of(view),
        "tone": sign_name(view),
        "started_ms": run.started_ms,
        "duration_ms": run.ran_ms,
        "iterations": run.iteration,
        "cost_usd": run.cost_usd,
    }


def tone_of(verdict: str | None) -> str:
    """Return the tone of a verdict."""
    if verdict is None:
        return "running"
    return "good" if verdict in GOOD else "bad" if verdict in BAD else "none"
