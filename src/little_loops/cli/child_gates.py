"""The gates of runs that another run has started."""

from __future__ import annotations

from little_loops.errors import UsageError
from little_loops.runs.child_paths import find_child
from little_loops.runs.child_runs import Child, has_answer, open_gates
from little_loops.runs.stored_run import StoredRun, read_stored
from little_loops.terminal.console import say


def gate_of(before: StoredRun, path: str) -> StoredRun:
    """Return the run at a path that waits at a gate, or the only one below it that does; if there is
    none, the run itself.

    Raises `UsageError` if the run does not exist, or several wait.
    """
    _, *steps = path.split("/")
    if steps:
        found = find_child(before.files, steps)
        stored = None if found is None else read_stored(found.files)
        if stored is None:
            raise UsageError(f"no run `{path}`")
        before = stored
    gates = _gates(before)
    unanswered = [each for each in gates if not has_answer(each)]
    if len(unanswered) > 1:
        listed = ", ".join(f"`{path}/{each.path}`" for each in unanswered)
        raise UsageError(f"`{path}` is waiting at {len(unanswered)} gates", f"name one of {listed}")
    only = (unanswered or gates)[:1]
    return only[0].stored or before if only else before


def _gates(before: StoredRun) -> list[Child]:
    children = before.run.children
    return [] if children is None else open_gates(before.files, children)


def mention_open_gates(before: StoredRun) -> bool:
    """Return whether gates are open that nobody has answered, and say which."""
    name = before.files.name
    left = [f"`{name}/{each.path}`" for each in _gates(before) if not has_answer(each)]
    if left:
        say(
            f"{', '.join(left)} still {'waits' if len(left) == 1 else 'wait'} for an answer;"
            f" `ll-loop resume {name}` continues without it"
        )
    return bool(left)
