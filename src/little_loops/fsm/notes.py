"""Notes that people send to a run: each goes to the next agent, for one step.

Every attempt of that step gets the note. It is used up when the run leaves the step after a turn of
its agent has ended; if no turn has, because the agent was interrupted, the next agent gets it.

Not here: the mailbox (`runs.mailbox`).
"""

from __future__ import annotations

from little_loops.fsm.events import NoteDelivered, NoteReceived, RunWarning
from little_loops.fsm.step_builder import StepBuilder

SHORT = 60


def receive(builder: StepBuilder) -> None:
    for note in builder.notes:
        builder.note(NoteReceived(note.id, note.text))
    builder.notes = ()


def deliver(builder: StepBuilder) -> None:
    """Record as delivered each note that the agent of this step received."""
    run = builder.run
    for note in run.notes:
        if note.heard and note.step == run.step:
            builder.note(NoteDelivered(note.id, run.current_state, run.step))


def name_undelivered(builder: StepBuilder) -> None:
    """Record a warning about notes that no agent received, if there are any."""
    left = [note.text for note in builder.run.notes if not note.heard]
    if left:
        texts = ", ".join(f'"{_shortened(text)}"' for text in left)
        builder.note(RunWarning(f"no agent received {_count(len(left))}: {texts}"))


def _count(number: int) -> str:
    return "this note" if number == 1 else f"these {number} notes"


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHORT else flat[: SHORT - 1] + "…"
