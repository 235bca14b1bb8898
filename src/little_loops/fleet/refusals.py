"""What cannot run on a fleet, and why."""

from __future__ import annotations

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.scope import normalise


def why_not(loop: FSMLoop) -> tuple[str, str] | None:
    """Return why a loop cannot run on a fleet, with what to do about it; None if it can."""
    if outside := [path for path in loop.scope if _leaves(path)]:
        return (
            f"scope `{outside[0]}` is outside the repository, which is all that a fleet has",
            "name paths inside the project, or run the loop with `--local`",
        )
    if loop.on_handoff == "spawn":
        return (
            "`on_handoff: spawn` starts a session on one machine, so it does not work on a fleet",
            "`on_handoff: continue` starts the next session in the same run",
        )
    if loop.worktree is not None and loop.worktree.merge in (None, "none"):
        return (
            "a run on a fleet has its own clone, and a `worktree` would be left behind there",
            "leave out `worktree`: the work is pushed as a branch anyway",
        )
    return None


def _leaves(path: str) -> bool:
    return normalise(path).startswith(("/", ".."))
