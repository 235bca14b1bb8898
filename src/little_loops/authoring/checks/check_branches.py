"""Check what several branches of a state do to the files that they share."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.inspection import Inspection
from little_loops.errors import Problem
from little_loops.fsm.branching import shares_tree, written_items
from little_loops.fsm.evidence import runs_agent, tampering_of
from little_loops.fsm.schema import FSMLoop, StateConfig, acting_states, keeper_of

READS_ONLY = ("plan", "read-only")
"""Permission modes in which an agent changes no files."""
ONE_AT_A_TIME = "set `max_parallel: 1`"
APART = f"{ONE_AT_A_TIME}, or let each agent work in its own git worktree: `worktree: true`"


def check_branches(of: Inspection) -> Iterator[Problem]:
    """Report rules about files that branches cannot keep, and agents that work on the same files."""
    for name, state in of.loop.states.items():
        if state.branches is None or not shares_tree(state) or of.gaps.unsure(name):
            continue
        for path, child in _loops(name, state):
            yield from _check_loop(of, path, child)
        items = written_items(state.branches)
        if (items is None or len(items) > 1) and _agents_write(of.loop, name):
            message = (
                f"agents in branches of state `{name}` work on the same files at the same time"
            )
            yield of.warning("LL324", message, "states", name, help=APART)


def _agents_write(loop: FSMLoop, name: str | None = None) -> bool:
    """Return whether an agent of a loop, or of its state `name` only, may change files."""
    for path, state in acting_states(loop):
        if name is not None and path.partition("/")[0] != name:
            continue
        if state.loop is not None:
            if _agents_write(state.loop):
                return True
        elif runs_agent(state, loop.context):
            if loop.host.under(state.host).permission_mode not in READS_ONLY:
                return True
    return False


def _loops(name: str, state: StateConfig) -> Iterator[tuple[tuple[str, ...], FSMLoop]]:
    """Yield the loops that the branches of a state run, and where they are named."""
    assert state.branches is not None, "the state has branches"
    if state.loop is not None:
        yield ("states", name, "loop"), state.loop
    for key, each in state.branches.named.items():
        if each.loop is not None:
            yield ("states", f"{name}/{key}", "loop"), each.loop


def _check_loop(of: Inspection, path: tuple[str, ...], child: FSMLoop) -> Iterator[Problem]:
    """Report what a loop asks for that needs files of its own."""
    evidence = child.evidence
    needed = {
        "scope_writes: enforce": child.scope_writes == "enforce",
        "tampering: restore": evidence.enabled is not False and tampering_of(evidence) == "restore",
        "keep: best": keeper_of(child) is not None,
    }
    for what in [each for each, is_needed in needed.items() if is_needed]:
        message = f"loop `{child.name}` has `{what}`, but shares its files with other branches"
        yield of.error("LL223", message, *path, help=ONE_AT_A_TIME)
    lost = [each for each in ("clean", "strict") if getattr(evidence, each)]
    for field in lost if not any(needed.values()) else ():
        message = f"`{field}` of loop `{child.name}` has no effect in branches that share files"
        yield of.warning("LL310", message, *path, help=ONE_AT_A_TIME)
