"""What can be done with a run now, and why not, in the words of the command.

This only decides which buttons a page offers. The command checks again, and has the last word.
"""

from __future__ import annotations

from collections.abc import Callable

from little_loops.fsm.endings import NOTHING_TO_RESUME
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.gates import open_gate
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNFINISHED, Answer
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.runs import refusals
from little_loops.runs.refusals import Refusal
from little_loops.runs.view import RunView
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import clause_of, since
from little_loops.web.kinds import Verb
from little_loops.web.security import Policy

if TYPE_CHECKING:
    from little_loops.definitions.loop_entries import LoopEntry

ANSWERS: tuple[Verb, ...] = ("approve", "reject")
IN_LIST: tuple[Verb, ...] = ("stop", "resume", "approve", "reject", "run")
READ_ONLY = "the server was started with `--read-only`"
NO_EDIT = "loop files cannot be changed here"


Check = Callable[[RunView, FSMLoop | None, bool], Refusal | None]


def can(verb: Verb, refusal: Refusal | None) -> dict[str, Any]:
    message, help = refusal if refusal is not None else (None, None)
    return {"verb": verb, "allowed": refusal is None, "reason": message, "help": help}


def abilities(
    policy: Policy,
    view: RunView,
    machine: FSMLoop | None = None,
    *,
    is_newest: bool = True,
    answer: Answer | None = None,
    loop: LoopEntry | None = None,
    untouched: Refusal | None = None,
    in_list: bool = False,
) -> list[dict[str, Any]]:
    """Return what can be done with a run; more precisely if its machine is known.

    `is_newest`: no later run has its name. `answer`: what its gate has been answered already.
    `loop`: its loop, as the loop files are now. `untouched`: why there is nothing to undo.
    `in_list`: only what a row of a list offers, because there may be hundreds.
    """
    refused: dict[Verb, Refusal | None] = {
        verb: check(view, machine, is_newest)
        for verb, check in CHECKS.items()
        if not in_list or verb in IN_LIST
    }
    refused["run"] = why_not_again(view, loop)
    if not in_list:
        refused["edit"] = _editing(policy) or _without_file(view, loop)
    if untouched is not None and refused.get("undo", untouched) is None:
        refused["undo"] = untouched
    if answer is not None:
        too_late = refusals.already_answered(view.name, answer)
        refused |= dict.fromkeys(ANSWERS, too_late)
    found = [(verb, _refusal(policy, verb, why)) for verb, why in refused.items()]
    return [can(verb, why) for verb, why in found if why is None or not in_list]


def _refusal(policy: Policy, verb: Verb, found: Refusal | None) -> Refusal | None:
    return Refusal(READ_ONLY) if policy.read_only and verb not in READING else found


def can_create(policy: Policy) -> dict[str, Any]:
    return can("create", _editing(policy))


def can_edit(policy: Policy) -> dict[str, Any]:
    return can("edit", _editing(policy))


def _editing(policy: Policy) -> Refusal | None:
    if policy.read_only:
        return Refusal(READ_ONLY)
    return None if policy.edit else Refusal(NO_EDIT, "start `ll-loop web --edit`")


def can_run(policy: Policy, problem: str | None, fix: str | None) -> dict[str, Any]:
    """Return whether a loop can be run; `problem` is what is wrong with its file."""
    if policy.read_only:
        return can("run", Refusal(READ_ONLY))
    return can("run", None if problem is None else Refusal(problem, fix))


def why_not_again(view: RunView, loop: LoopEntry | None) -> Refusal | None:
    """Return why the loop of a run cannot be run again; None if it can, as far as is known here."""
    name = view.name
    if view.path:
        return refusals.runs_with(name, view.root_name)
    if view.is_alive:
        return _already(view)
    if loop is None or _without_file(view, loop) is not None:
        return refusals.without_file(view.loop)
    if loop.wrong is not None:
        return Refusal(f"{loop.name}: {loop.wrong}", loop.fix or None)
    if view.summary is None:
        return refusals.unreadable(name, view.damage)
    if view.files.stem is None and view.status in UNFINISHED:
        return refusals.unfinished(name, view.status, view.summary.current_state)
    return None


def _already(view: RunView) -> Refusal:
    pid = view.holder.pid if view.holder else 0
    message, help = refusals.already(view.name, view.status, f"pid {pid}")
    return Refusal(message, f"{help}; or use `--queue` to wait until the other run ends")


def _without_file(view: RunView, loop: LoopEntry | None) -> Refusal | None:
    if loop is None or loop.path is None or not view.has_file:
        return refusals.without_file(view.loop)
    return None


# ── one check a verb ───────────────────────────────────────────────────────────────────────────


def _stop(view: RunView, _: FSMLoop | None, __: bool) -> Refusal | None:
    if view.holder is not None:
        return None
    return refusals.not_running(view.name, since(view, now_ms()))


def _resume(view: RunView, machine: FSMLoop | None, is_newest: bool) -> Refusal | None:
    name = view.name
    if view.path:
        return refusals.continues_with(name, view.root_name)
    if view.is_alive:
        return _already(view)
    if not is_newest:
        return refusals.run_again(view.name)
    if view.summary is None:
        return None if view.damage is None or view.status == "damaged" else Refusal(view.damage)
    why = NOTHING_TO_RESUME.get((view.status, view.reason or ""))
    if why is not None:
        state = view.summary.current_state
        return refusals.nothing_to_resume(name, why.format(state=state))
    return None


def _answer(view: RunView, _: FSMLoop | None, is_newest: bool) -> Refusal | None:
    name, summary = view.name, view.summary
    if view.is_alive or summary is None or open_gate(summary) is None:
        how = clause_of("running") if view.is_alive else clause_of(view.status)
        if view.is_crashed:
            how = "was interrupted (crashed)"
        return refusals.not_at_a_gate(name, how)
    return None if is_newest else refusals.run_again(view.name)


def _tell(view: RunView, machine: FSMLoop | None, is_newest: bool) -> Refusal | None:
    name = view.name
    can_get = view.is_alive or view.status in UNFINISHED or _resume(view, machine, True) is None
    if view.summary is None or view.status == "queued" or not can_get:
        return refusals.not_for_notes(name, clause_of(view.status), has_file=view.has_file)
    if not is_newest:
        return refusals.run_again(view.name)
    if machine is not None and not has_agent(machine):
        return refusals.without_agent(name)
    return None


def _fork(view: RunView, _: FSMLoop | None, __: bool) -> Refusal | None:
    if view.status == "queued" or view.summary is None:
        return refusals.not_started(view.name)
    return None


def _undo(view: RunView, _: FSMLoop | None, __: bool) -> Refusal | None:
    if view.path:
        return refusals.undone_with(view.name, view.root_name)
    if view.is_alive:
        return refusals.running(view.name)
    if view.summary is None:
        return refusals.unreadable(view.name, view.damage)
    return None


def _receipt(view: RunView, _: FSMLoop | None, __: bool) -> Refusal | None:
    if view.is_alive:
        return refusals.no_receipt_yet(view.name)
    return None if view.damage is None else Refusal(view.damage)


def _report(view: RunView, _: FSMLoop | None, __: bool) -> Refusal | None:
    if view.damage is not None:
        return Refusal(view.damage)
    if view.status == "queued":
        return refusals.nothing_recorded(view.name)
    return None


CHECKS: dict[Verb, Check] = {
    "stop": _stop,
    "resume": _resume,
    "approve": _answer,
    "reject": _answer,
    "tell": _tell,
    "fork": _fork,
    "undo": _undo,
    "receipt": _receipt,
    "report": _report,
}
READING: tuple[Verb, ...] = ("receipt", "report")
