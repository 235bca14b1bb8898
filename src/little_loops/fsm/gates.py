"""Gates: states that pause a run until a person approves or rejects.

Not here: the file that holds an answer (`runs.answers`), asking for it (`cli.approve`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import Ending
from little_loops.fsm.events import GateAnswered
from little_loops.fsm.happenings import Resumed
from little_loops.fsm.schema import FSMLoop, StateConfig, Transition
from little_loops.fsm.state import Answer, LoopState, RunSummary
from little_loops.fsm.step_builder import StepBuilder
from little_loops.records import NamedTuple


def open_gate(run: LoopState | RunSummary) -> int | None:
    """Return the number of the event that opened the gate the run waits at; None if it waits at
    none."""
    if not endings.is_gate(run.status, run.reason) or is_answered(run):
        return None
    return run.gate


def is_answered(run: LoopState | RunSummary) -> bool:
    """Return whether the answer to the current gate is recorded, and the run has not left it."""
    return run.answer is not None and run.answer.gate == run.gate


def refused_target(loop: FSMLoop, run: LoopState, to: str) -> str | None:
    """Return why an approval cannot lead to a state, or None if it can."""
    choices = loop.states[run.current_state].choices
    if to in choices and to in loop.states:
        return None
    if not choices:
        return f"state `{run.current_state}` has no `choices`, so `--to` has no effect"
    listed = ", ".join(f"`{name}`" for name in choices)
    return f"`{to}` is not one of the choices of state `{run.current_state}`: {listed}"


def note_answer(builder: StepBuilder, resumed: Resumed) -> None:
    """Record the answer to the open gate, if there is one; a resume without an answer approves.

    `resume --from` overrides where the answer leads.
    """
    gate = open_gate(builder.run)
    if gate is not None:
        answer = resumed.answer or Answer(gate, "approved", "resume")
        to = resumed.from_state or answer.to
        builder.note(GateAnswered(builder.run.current_state, answer._replace(to=to)))


class AfterGate(NamedTuple):
    """What an answer leads to; without a transition, the rejection ends the run."""

    transition: Transition | None
    rejection: Ending | None = None


def pass_gate(builder: StepBuilder, resumed: Resumed) -> AfterGate | None:
    """Record the answer to the open gate. Return the transition that it leads to, or the ending of
    a rejection without `on_rejected`; None if the run waits at no gate."""
    note_answer(builder, resumed)
    answer = builder.run.answer
    if answer is None or not is_answered(builder.run):
        return None
    transition = _transition(builder.state, builder.loop.initial, answer)
    if transition is None:
        return AfterGate(None, endings.failed("rejected", answer.text))
    return AfterGate(transition)


def _transition(state: StateConfig, initial: str, answer: Answer) -> Transition | None:
    """Return the transition for an answer: to the state that it names, else `on_rejected`, or for
    an approval `next` or the initial state. None for a rejection without `on_rejected`."""
    if answer.to is not None:
        return Transition(answer.to, "choices" if answer.to in state.choices else "resume")
    if answer.verdict == "rejected":
        to = state.on_rejected
        return None if to is None else Transition(to, "on_rejected")
    return Transition(state.next or initial, "next")
