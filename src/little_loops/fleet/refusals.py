"""What cannot run on a fleet, and why."""

from __future__ import annotations

from little_loops.fsm.schema import FSMLoop


def why_not(loop: FSMLoop) -> tuple[str, str] | None:
    """Return why a loop cannot run on a fleet, with what to do about it; None if it can."""
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
