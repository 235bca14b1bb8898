"""Runs as the page lists them: one form for current, past and queued runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from little_loops.fsm.events import ActionComplete, ChildEnd, ChildrenJoined, Entry
from little_loops.fsm.gates import open_gate
from little_loops.fsm.limit_kinds import BY_REASON
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import FORK, UNFINISHED
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs.history_index import PastRun
from little_loops.runs.layout import RunFiles
from little_loops.runs.path_taken import BAD, GOOD, WAITING
from little_loops.runs.run_texts import RunTexts
from little_loops.runs.view import RunView
from little_loops.templates.splice import as_text
from little_loops.terminal.durations import now_ms
from little_loops.terminal.next_step import higher_limits
from little_loops.terminal.summaries import sign_name, word_of
from little_loops.web.abilities import abilities
from little_loops.web.keys import run_key
from little_loops.web.kinds import Group, Tone

if TYPE_CHECKING:
    from little_loops.definitions.loop_entries import LoopEntry
    from little_loops.runs.refusals import Refusal
    from little_loops.web.security import Policy
    from little_loops.web.site import Project

FAILURE_WITHIN = 30
"""How many of the last events to search for the action that failed."""
LONGEST_LINE = 200
MOST_VALUES = 20
NOT_RESUMED = "the answer is stored, but the run has not continued yet; resume it"
Loops = Mapping[str, "LoopEntry"]
GROUPS: tuple[Group, ...] = ("waiting", "running", "queued", "ended")


def row(
    policy: Policy,
    project: Project,
    view: RunView,
    machine: FSMLoop | None = None,
    *,
    is_newest: bool = True,
    in_list: bool = True,
    loops: Loops | None = None,
    untouched: Refusal | None = None,
) -> dict[str, Any]:
    """Return a run as a row of a list; not `in_list`, with everything that cannot be done, and why.

    `loops`: those of the project, for a caller that has many rows. `untouched`: why there is nothing
    to undo.
    """
    summary, now = view.summary, now_ms()
    loop = (project.loops.by_name() if loops is None else loops).get(view.loop)
    is_queued = view.status == "queued"
    texts, group = project.runs.texts(view), group_of(view)
    tone: Tone = group if group in ("waiting", "queued") else sign_name(view)
    answer = project.runs.answer(view)
    gate = None if summary is None or view.is_alive or answer else open_gate(summary)
    return {
        "key": project.run_key(view),
        "project": project.key,
        "name": view.name,
        "run": summary.run if summary else None,
        "loop": view.loop,
        "archived_as": None if is_queued else view.files.stem,
        "status": view.status,
        "reason": view.reason,
        "word": page_word(view) if answer is None else f"{answer.verdict}, not resumed",
        "tone": tone,
        "group": group,
        "state": summary.current_state if summary else None,
        "context": given_context(view, loop),
        "iteration": summary.iteration if summary else None,
        "max_iterations": None if machine is None else limits(view, machine)["max_iterations"],
        "started_ms": view.started_ms,
        "queued_ms": queued_ms(view),
        "updated_ms": view.updated_ms,
        "duration_ms": view.ran_ms(now),
        "at_ms": now,
        "cost_usd": round(summary.cost_usd, 6) if summary else 0,
        "tokens": summary.tokens if summary else 0,
        "error": _error(project, view, texts.error or _handed_over(view, texts))
        if answer is None
        else NOT_RESUMED,
        "damage": view.damage,
        "suggested_limits": _higher_limits(view),
        "pid": view.holder.pid if view.holder else None,
        "gate": None
        if gate is None or summary is None
        else {"state": summary.current_state, "seq": gate},
        "has_file": view.has_file,
        "forked_from": _fork(view),
        "has_children": project.runs.has_children(view),
        "seq": summary.seq if summary else None,
        "can": abilities(
            policy,
            view,
            machine,
            is_newest=is_newest,
            answer=answer,
            loop=loop,
            untouched=untouched,
            in_list=in_list,
        ),
    }


def given_context(view: RunView, loop: LoopEntry | None) -> list[dict[str, str]]:
    """Return the variables of a run that are not as in the loop's file now: they tell its runs
    apart."""
    values = view.summary.context if view.summary else {}
    usual = loop.context if loop else {}
    if values == usual:
        return []
    mask = Masker(os.environ).mask
    given = [name for name in values if name not in usual or usual[name] != values[name]]
    return [
        {"name": name, "text": mask(visible(as_text(values[name])))[:LONGEST_LINE]}
        for name in given[:MOST_VALUES]
    ]


def page_word(view: RunView) -> str:
    """Return the status of a run; if it reached a limit, which one."""
    limit = BY_REASON.get(view.reason or "") if view.status == "failed" else None
    return word_of(view) if limit is None else limit.name


def _error(project: Project, view: RunView, text: str | None) -> str | None:
    """Return why a run failed or waits: for a failure also which action failed last, and how."""
    if view.status == "queued":
        return _waits_for(project, view)
    if view.summary is None or view.status != "failed":
        shown = None if text == view.reason else text
        return shown or _interruption(view)
    state, failed = view.summary.current_state, _last_failure(project, view)
    if view.reason in BY_REASON:
        reached = f"it reached its {page_word(view)} in `{state}`"
        return reached if failed is None else f"{reached}; {failed}"
    if view.reason == "terminal":
        ended = f"it ended in the failure state `{state}`"
        return ended if failed is None else f"{ended} after {failed}"
    if failed is not None and (text is None or text == view.reason or text.startswith("exit ")):
        return failed
    return None if text == view.reason else text


def _interruption(view: RunView) -> str | None:
    """Return where a run was interrupted; None if it was not, or has not begun."""
    if view.status != "interrupted" or view.summary is None or view.reason == FORK:
        return None
    state = view.summary.current_state
    return (
        f"its process is gone, in `{state}`" if view.is_crashed else f"it was stopped in `{state}`"
    )


def _waits_for(project: Project, view: RunView) -> str | None:
    """Return which run a queued one waits for."""
    blocker = project.runs.waits_for(view)
    if blocker is None:
        return None
    name = visible(blocker.holder.name, newlines=False)
    match blocker.doing:
        case "running":
            return f"it waits for `{name}`, which is running"
        case "waiting to run":
            return f"it waits for `{name}`, which was queued before it"
        case _:
            return f"it waits for what `{name}` has left running: `ll-loop stop {name}` ends it"


def queued_ms(view: RunView) -> int | None:
    """Return since when a run is queued; None if it is not, or that is not known."""
    if view.status != "queued" or view.holder is None:
        return None
    try:
        return wall_ms_of(view.holder.started_at)
    except (ValueError, OverflowError):  # the ticket is damaged
        return None


def _handed_over(view: RunView, texts: RunTexts) -> str | None:
    """Return what an agent has written for the next one, if the run waits for that."""
    return texts.continuation if view.status == "awaiting_continuation" else None


def _last_failure(project: Project, view: RunView) -> str | None:
    """Return which action failed last, with its exit code and the last line that it printed, or
    which branches failed; None if the end of the log has none."""
    entries = project.runs.last_events(view, FAILURE_WITHIN)
    for entry in reversed(entries):
        match entry.event:
            case ActionComplete(state=state, result=result) if result.exit_code:
                if (joined := _failed_branches(entries, state)) is not None:
                    return joined
                line = next(_lines(result.stderr, result.output, result.tail), "")
                shown = visible(Masker(os.environ).mask(line), newlines=False)[:LONGEST_LINE]
                said = f": {shown}" if line else ""
                return f"`{state}` exited with {result.exit_code}{said}"
            case _:
                continue
    return None


def _failed_branches(entries: Sequence[Entry], state: str) -> str | None:
    """Return which branches of a state failed: `2 of 3 passed in `each`, not db.py`; None if it has
    none."""
    reason: str | None = None
    failed: list[str] = []
    for entry in entries:
        match entry.event:
            case ChildEnd(state=found, child=child, stage=stage) if found == state:
                failed += [] if stage == "pass" else [child]
            case ChildrenJoined(state=found, reason=text) if found == state:
                reason = text
            case _:
                continue
    if reason is None:
        return None
    names = ", ".join(visible(name, newlines=False) for name in failed)
    return f"{reason} in `{state}`" + (f", not {names}" if names else "")


def _lines(*texts: str | None) -> Iterator[str]:
    """Yield the lines of these texts that are not empty, the last line of the first text first."""
    for text in texts:
        yield from filter(None, (line.strip() for line in reversed((text or "").splitlines())))


def _higher_limits(view: RunView) -> dict[str, str] | None:
    """Return limits with which a run can continue that has reached one; else None."""
    summary = view.summary
    if summary is None or view.is_alive:
        return None
    return higher_limits(
        view.reason,
        iteration=summary.iteration,
        ran_ms=summary.ran_ms,
        cost_usd=summary.cost_usd,
        tokens=summary.tokens,
    )


def _fork(view: RunView) -> dict[str, Any] | None:
    fork = None if view.summary is None else view.summary.fork
    return None if fork is None else {"name": fork.name, "step": fork.step}


def group_of(view: RunView) -> Group:
    """Return where a run is listed; one that can only continue with the user's help waits for it."""
    if view.is_alive:
        return "queued" if view.status == "queued" else "running"
    is_stopped = view.status == "interrupted" and not view.is_crashed  # by somebody, who knows
    is_ended = view.files.stem is not None or (view.path and view.status not in UNFINISHED)
    is_ended = is_ended or is_stopped
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
    tone: Tone = sign_name(view)
    return {
        "key": run_key(project.key, files),
        "status": run.status,
        "reason": run.reason,
        "word": page_word(view),
        "tone": tone,
        "started_ms": run.started_ms,
        "duration_ms": run.ran_ms,
        "iterations": run.iteration,
        "cost_usd": run.cost_usd,
    }


def tone_of(verdict: str | None) -> Tone:
    """Return the tone of a verdict; none for a word of the loop's own."""
    if verdict is None:
        return "running"
    if verdict in WAITING:
        return "waiting"
    return "good" if verdict in GOOD else "bad" if verdict in BAD else "none"
