"""What the branches of a state are: their items, their names, their values, and what each runs.

A branch is an ordinary run. If the state runs an action, the branch runs a loop of one state with
that action; the values that the action may refer to are those of the state, and `branch`.

Not here: when branches start and stop (`joins`), finding the files of a `glob` (`engine.branches`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from little_loops.fsm.evidence import runs_agent
from little_loops.fsm.happenings import ChildOutcome
from little_loops.fsm.joins import ENDED
from little_loops.fsm.schema import (
    BRANCH,
    Branches,
    Evidence,
    FSMLoop,
    StateConfig,
    host_variable,
    with_host_name,
    worktree_of,
)
from little_loops.fsm.state import Stage
from little_loops.fsm.verdicts import ignores_failure
from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.templates.splice import as_text

MOST_BRANCHES: Final = 1_000
LONGEST_NAME: Final = 80
RESERVED: Final = ("index", "name", "conflict")
"""Names that cannot be used for `as` or as keys of a matrix, because `branch` already has values with these names."""
DONE: Final = "done"
FAILED: Final = "failed"
_UNSAFE = r"[^A-Za-z0-9._-]"
_OF_ACTION = (
    *("action", "action_type", "label", "context", "env", "cwd", "shell"),
    *("kill_grace", "idle_timeout", "host", "fallback", "fallback_on"),
)


# ── items ──────────────────────────────────────────────────────────────────────────────────────


def items_in(text: str) -> list[Any]:
    """Return the items of a text: the elements of a JSON array, else its lines that are not
    blank."""
    if text.lstrip().startswith("["):
        import json  # most texts are lines

        try:
            found = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return found
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]


def _refuse(name: str) -> Any:
    """Refuse NaN and infinity, which are not JSON."""
    raise ValueError(name)


def written_items(branches: Branches) -> list[Any] | None:
    """Return the items that are in the definition; None if only a run knows them. Those of named
    branches are None."""
    if branches.named:
        return [None] * len(branches.named)
    if branches.matrix:
        return list(combinations(branches.matrix, branches.exclude))
    return list(branches.for_each) if isinstance(branches.for_each, tuple) else None


def combinations(
    matrix: Mapping[str, Sequence[Any]], exclude: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield each combination of the values of a matrix that no entry of `exclude` matches."""
    for values in product(*matrix.values()):
        one = dict(zip(matrix, values, strict=True))
        if not any(_matches(one, each) for each in exclude):
            yield one


def _matches(one: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether a combination has all values of an entry; numbers and texts that look the same
    are the same."""
    return all(as_text(one.get(key)) == as_text(value) for key, value in entry.items())


# ── names and values ───────────────────────────────────────────────────────────────────────────


def branch_names(branches: Branches, items: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the branches: safe as names of directories, and different from each other
    even where upper and lower case are the same."""
    texts = branches.named or map(_text_of, items)
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text in texts:
        base = safe_name(text)
        name, same = base, base.lower()
        while name.lower() in found:
            counts[same] = counts.get(same, 1) + 1
            number = f"-{counts[same]}"
            name = base[: LONGEST_NAME - len(number)] + number
        found[name.lower()] = name
    return tuple(found.values())


def _text_of(item: Any) -> str:
    """Return the text that names a branch: the item, or the values in it, joined by `-`."""
    match item:
        case Mapping():
            return "-".join(map(_text_of, item.values()))
        case list() | tuple():
            return "-".join(map(_text_of, item))
        case _:
            return as_text(item)


def safe_name(text: str) -> str:
    """Return a text as the name of a directory."""
    return re.sub(_UNSAFE, "-", text[: LONGEST_NAME * 2]).lstrip(".-")[:LONGEST_NAME] or "item"


def branch_values(branches: Branches, name: str, index: int, item: Any) -> dict[str, Any]:
    """Return the values of the namespace `branch`."""
    own: dict[str, Any] = {"index": index, "name": name}
    if branches.matrix:
        return {**own, **item}
    return own if branches.named else {**own, branches.as_: item}


def why_not(items: Sequence[Any]) -> str | None:
    """Return why so many branches cannot be started; None if they can."""
    if len(items) <= MOST_BRANCHES:
        return None
    return f"more than {MOST_BRANCHES:,} branches, which is the most that a state can have"


class BranchReport(NamedTuple):
    """What is known of a branch at the end; it has no outcome if it did not begin."""

    name: str
    item: Any
    stage: Stage
    outcome: ChildOutcome | None = None
    result: Mapping[str, Any] = {}


def report_of(report: BranchReport) -> dict[str, Any]:
    """Return what the output of the state has about a branch."""
    outcome = report.outcome
    ended = report.stage if report.stage in ENDED else "stopped"
    return {
        "name": report.name,
        "item": report.item,
        "verdict": ended,
        "reason": "not started" if outcome is None else _reason(ended, outcome),
        "result": dict(report.result),
        "cost_usd": 0.0 if outcome is None else outcome.cost_usd,
        "duration_ms": 0 if outcome is None else outcome.duration_ms,
    }


def _reason(ended: str, outcome: ChildOutcome) -> str:
    """Return why a branch ended as it did; that of a terminal state is which one."""
    if ended == "stopped":
        return "no longer needed"
    if outcome.reason == "terminal":
        return outcome.final_state
    return outcome.message or outcome.reason


# ── what a branch runs ─────────────────────────────────────────────────────────────────────────


def branch_step(state: StateConfig, name: str, item: Any) -> StateConfig:
    """Return what a branch runs, as a state with an action or a loop; the limits of the state apply
    unless the branch has its own."""
    branches = state.branches
    assert branches is not None, "the state has branches"
    if not branches.named:
        variable = host_variable(state)
        who = item[variable] if branches.matrix and variable is not None else item
        return state if variable is None else with_host_name(state, as_text(who))
    step = branches.named[_key(branches, name)]
    return step._replace(timeout=step.timeout or state.timeout, limits=step.limits or state.limits)


def _key(branches: Branches, name: str) -> str:
    """Return the key of the branch with this name."""
    names = branch_names(branches, ())
    return list(branches.named)[names.index(name)]


def shares_tree(state: StateConfig) -> bool:
    """Return whether several branches of a state work on the same files at once, so that nobody can
    tell which of them made a change."""
    if state.branches is None or worktree_of(state) is not None:
        return False
    return state.branches.max_parallel > 1


def action_loop(loop: FSMLoop, state: StateConfig, step: StateConfig, name: str) -> FSMLoop:
    """Return the loop of one state that a branch of `state` with an action runs.

    An agent is asked for its verdict only if pass and fail lead `state` to different states.
    """
    own: dict[str, Any] = {field: getattr(step, field) for field in _OF_ACTION}
    condition, judge = (step.condition, step.judge) if step.branches is None else (None, None)
    act = StateConfig(**own, condition=condition, judge=judge, on_pass=DONE, on_fail=FAILED)
    if ignores_failure(state) and runs_agent(step._replace(judge=None), loop.context):
        act = act._replace(on_pass=None, on_fail=None, next=DONE)
    made = FSMLoop(
        name,
        "run",
        {
            "run": act,
            DONE: StateConfig(terminal=True),
            FAILED: StateConfig(terminal=True, outcome="failure"),
        },
        paradigm=BRANCH,
        scope=loop.scope,
        max_iterations=1,
        idle_timeout=loop.idle_timeout,
        env=loop.env,
        cwd=loop.cwd,
        shell=loop.shell,
        kill_grace=loop.kill_grace,
        host=loop.host,
        fallback=loop.fallback,
        fallback_on=loop.fallback_on,
        result={"output": "${captured.run.output:-}"},
    )
    return without_evidence(made)


def without_evidence(loop: FSMLoop) -> FSMLoop:
    """Return the loop without rules about files, which the run that starts it applies for all of its
    branches."""
    return loop._replace(evidence=Evidence(enabled=False), scope_writes="ignore")


def protected_alike(loop: FSMLoop, above: Evidence, *, apart: bool = False) -> FSMLoop:
    """Return the loop of a child, whose agents may not change what the run above it protects.

    Its own checks decide that run's verdict, so they must not pass with other tests. Its own
    patterns come first: none of them exempts what is protected above. If it works `apart`, in a
    worktree, that cannot be turned off: the run above it merges what it finds there.
    """
    own = loop.evidence
    if above.protect is None or above.enabled is False:
        return loop
    if own.enabled is False:
        if not apart:
            return loop
        own = Evidence()
    return loop._replace(
        evidence=own._replace(
            protect=(*(own.protect or ()), *above.protect),
            existing_only=above.existing_only and (own.protect is None or own.existing_only),
            tampering=own.tampering if own.tampering == "fail" else above.tampering,
        )
    )
