"""Notes that people send to a run: each goes to the next agent, for one step.

Every attempt of that step gets the note. It is used up when the run leaves the step after a turn of
its agent has ended; if no turn has, because the agent was interrupted, the next agent gets it.

Not here: the mailbox (`runs.mailbox`).
"""

from __future__ import annotations

from little_loops.fsm.events import NoteDelivered, NoteReceived, RunWarning
from little_loops.fsm.turn import Turn

SHORT = 60


def receive(turn: Turn) -> None:
    for note in turn.notes:
        turn.note(NoteReceived(note.id, note.text))
    turn.notes = ()


def deliver(turn: Turn) -> None:
    """Record as delivered each note that the agent of this step received."""
    run = turn.run
    for note in run.notes:
        if note.heard and note.step == run.step:
            turn.note(NoteDelivered(note.id, run.current_state, run.step))


def name_undelivered(turn: Turn) -> None:
    """Record a warning about notes that no agent received, if there are any."""
    left = [note.text for note in turn.run.notes if not note.heard]
    if left:
        texts = ", ".join(f'"{_shortened(text)}"' for text in left)
        turn.note(RunWarning(f"no agent has got {_count(len(left))}: {texts}"))


def _count(number: int) -> str:
    return "this note" if number == 1 else f"these {number} notes"


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHORT else flat[: SHORT - 1] + "…"
