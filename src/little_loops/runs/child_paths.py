"""Find the run that a path such as `nightly/types` means: a run that another run has started.

A step of the path is the name of the state that started it, then, if the state started several, the
name of the one that is meant. Of several runs of a state, the last counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from little_loops.fsm.events import ChildrenPlanned, ResolveStart
from little_loops.records import NamedTuple
from little_loops.runs.entries import entries
from little_loops.runs.layout import RunFiles, child_folder


class ChildPath(NamedTuple):
    """A run that another one has started: its path, without the name of the root, and its files."""

    path: str
    files: RunFiles


def children_of(files: RunFiles) -> list[ChildPath]:
    """Return the runs that a run has started, the last of each name, in the order of their
    starts."""
    found: dict[str, ChildPath] = {}
    for plan, names in _plans(files):
        for name in names:
            path = f"{plan.state}/{name}" if plan.several else name
            folder = child_folder(plan.step, plan.attempt, name)
            found.pop(path, None)
            found[path] = ChildPath(path, files.child(folder))
    return list(found.values())


def _plans(files: RunFiles) -> Iterator[tuple[ChildrenPlanned, tuple[str, ...]]]:
    """Yield the names of runs that were started together, and the plan that they are part of."""
    plan: ChildrenPlanned | None = None
    for entry in entries(files):
        match entry.event:
            case ChildrenPlanned() as plan:
                yield plan, plan.names
            case ResolveStart(child=name) if plan is not None:
                yield plan, (name,)
            case _:
                pass


def find_child(files: RunFiles, path: Sequence[str]) -> ChildPath | None:
    """Return the run at a path below another one; None if there is none. The state of a branch can
    be left out."""
    found = children_of(files)
    known = {each.path.rpartition("/")[2]: each for each in found}
    known |= {each.path: each for each in found}
    for length in (1, 2):
        first = known.get("/".join(path[:length]))
        if first is None or length > len(path):
            continue
        rest = path[length:]
        if not rest:
            return first
        inner = find_child(first.files, rest)
        if inner is not None:
            return inner._replace(path=f"{first.path}/{inner.path}")
    return None
