"""The branches of a state: find out which there are, remember their items, gather their results.

The items of a state that are not in its definition are in a file of the run, because a text or the
files of a `glob` may have changed when the run is resumed.

Not here: what a branch is (`fsm.branching`), its process (`children`).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import islice

from little_loops.engine.action_output import kept_output, output_at
from little_loops.errors import StorageError
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.branching import (
    MOST_BRANCHES,
    BranchReport,
    branch_names,
    items_in,
    report_of,
    why_not,
    written_items,
)
from little_loops.fsm.commands import FindBranches, GatherChildren
from little_loops.fsm.happenings import BranchesFound
from little_loops.fsm.schema import Branches
from little_loops.fsm.state import BranchCount, Children, LoopState, Result
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.runs.child_runs import files_of, outcome_of_run, used_by_children
from little_loops.runs.layout import output_stem
from little_loops.runs.stored_run import read_stored
from little_loops.system.files import to_json
from little_loops.templates.render import (
    TemplateError,
    TooLarge,
    Unresolved,
    ValueNotANumber,
    render_text,
)

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld
    from little_loops.engine.resolve import Values

SUFFIX = ".branches"
MOST_BYTES = 64 << 20
"""The largest file of items that is read; a string of items is smaller."""


# ── which there are ────────────────────────────────────────────────────────────────────────────


def find_branches(world: LocalWorld, run: LoopState, command: FindBranches) -> BranchesFound:
    """Find out which branches the current state has, and remember their items."""
    branches = world.loop.states[command.state].branches
    assert branches is not None, "the state has branches"
    now = world.clock.now
    items = written_items(branches)
    if items is None:
        try:
            items = found_items(branches, world.values(run), world.workplace.project)
        except (Unresolved, ValueNotANumber, TemplateError, TooLarge, OSError) as problem:
            return BranchesFound(now(), problem=f"`for_each`: {problem}")
    if (too_many := why_not(items)) is not None:
        return BranchesFound(now(), problem=too_many)
    if written_items(branches) is None:
        name = _file(command.step, command.attempt)
        world.writer.data.replace(name, to_json(items), f"{name}.tmp", sync=True)
    return BranchesFound(now(), branch_names(branches, items))


def found_items(branches: Branches, values: Values, root: str) -> list[Any]:
    """Return the items that a text has now, or the files that a pattern matches, sorted. More than
    a state can have are not looked for."""
    if isinstance(branches.for_each, str):
        return items_in(render_text(branches.for_each, values.for_process(), values.context))
    assert isinstance(branches.for_each, dict), "other items are in the definition"
    pattern = render_text(branches.for_each["glob"], values, values.context)
    inside = os.path.normpath(pattern)
    if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
        raise OSError(f"`{pattern}` is outside the project")
    from glob import iglob  # few loops look for files

    found = iglob(pattern, root_dir=root, recursive=True)
    return sorted(islice(found, MOST_BRANCHES + 1))


def _file(step: int, attempt: int) -> str:
    return output_stem(step, attempt) + SUFFIX


def items_of(world: LocalWorld, state: str, step: int, attempt: int) -> list[Any]:
    """Return the items of the branches that a state started. Raises `StorageError` if their file is
    missing or damaged."""
    branches = world.loop.states[state].branches
    assert branches is not None, "the state has branches"
    items = written_items(branches)
    if items is not None:
        return items
    raw = world.writer.data.read(_file(step, attempt), MOST_BYTES)
    with suppress(ValueError):
        found = json.loads(raw or b"")
        if isinstance(found, list):
            return found
    raise StorageError(f"the items for the branches of `{state}` are missing or damaged")


# ── their results ──────────────────────────────────────────────────────────────────────────────


class Gathered(NamedTuple):
    """The reports of all branches as JSON, and what they used together."""

    text: bytes
    cost_usd: float
    longest_ms: int


def gather_branches(
    world: LocalWorld, command: GatherChildren, items: list[Any], took_ms: int
) -> Result:
    """Return the result of a state whose branches have ended: a JSON array of their reports."""
    children, judgement = command.children, command.judgement
    found = _reports(world, children, items)
    kept = output_at(world.workplace).keep(children.step, children.attempt, found.text, "out")
    return Result(
        agent_exit_code("success", judgement.verdict),
        max(took_ms, found.longest_ms),
        **kept_output(kept),
        verdict=judgement.verdict,
        reason=judgement.reason,
        cost_usd=found.cost_usd,
        branches=BranchCount(len(children.names), children.stages.count("pass")),
    )


def _reports(world: LocalWorld, children: Children, items: list[Any]) -> Gathered:
    """Return the reports of all branches; each is read, written and forgotten."""
    texts: list[bytes] = []
    cost_usd, longest_ms = 0.0, 0
    for name, stage, item in zip(children.names, children.stages, items, strict=True):
        report = BranchReport(name, item, stage)
        with suppress(StorageError):
            files = files_of(world.writer.files, children, name)
            stored = None if stage == "waiting" else read_stored(files)
            if stored is not None:
                below = used_by_children(files, stored.run.children)
                outcome = outcome_of_run(stored.run, below)
                report = report._replace(outcome=outcome, result=stored.run.result or {})
                cost_usd += outcome.cost_usd
                longest_ms = max(longest_ms, outcome.duration_ms)
        texts.append(to_json(report_of(report)))
    return Gathered(b"[" + b",\n ".join(texts) + b"]\n", round(cost_usd, 6), longest_ms)
