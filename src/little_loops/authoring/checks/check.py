"""Check a whole loop with an ordered tuple of small checks, each of which yields its problems.

Errors make a loop invalid, warnings make it doubtful. Nothing here raises or takes long, whatever
the loop: a thousand states are checked in a fraction of a second.

Not here: reading fields (`reader`), what hosts require of their options
(`definitions.agent_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from little_loops.authoring.checks.check_actions import (
    check_agents,
    check_builtins,
    check_deploys,
    check_prose,
    check_scripts,
    check_shell_features,
)
from little_loops.authoring.checks.check_conditions import check_conditions
from little_loops.authoring.checks.check_environment import (
    check_environment,
    check_variables_in_code,
)
from little_loops.authoring.checks.check_filled import check_filled
from little_loops.authoring.checks.check_machine import (
    check_capture_names,
    check_endings,
    check_recipients,
    check_targets,
)
from little_loops.authoring.checks.check_results import check_results
from little_loops.authoring.checks.check_transitions import (
    check_effects,
    check_later,
    check_outcomes,
    check_paradigm_conditions,
    check_reachable,
    check_verdicts,
)
from little_loops.authoring.checks.check_values import (
    check_context,
    check_plain_texts,
    check_templates,
)
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.fields.gaps import NO_GAPS, Gaps
from little_loops.authoring.yaml.places import Places
from little_loops.errors import Problem
from little_loops.fsm.schema import FSMLoop

Check = Callable[[Inspection], Iterator[Problem]]


def _check_branches(of: Inspection) -> Iterator[Problem]:
    if any(state.branches is not None for state in of.loop.states.values()):
        from little_loops.authoring.checks.check_branches import check_branches  # few have some

        yield from check_branches(of)


SKELETON: tuple[Check, ...] = (
    check_targets,
    check_plain_texts,
    check_endings,
    check_paradigm_conditions,
    check_later,
)
CHECKS: tuple[Check, ...] = (
    check_capture_names,
    check_conditions,
    check_templates,
    check_context,
    check_filled,
    check_environment,
    check_variables_in_code,
    check_verdicts,
    check_effects,
    check_builtins,
    check_scripts,
    check_shell_features,
    check_prose,
    check_agents,
    check_deploys,
    check_recipients,
    _check_branches,
)
PATHS: tuple[Check, ...] = (check_reachable, check_outcomes, check_results)
"""Checks of paths through the loop, which are useless while a transition has no target."""


def check(
    loop: FSMLoop, places: Places, gaps: Gaps = NO_GAPS, *, compiled: bool = False
) -> list[Problem]:
    """Return all errors and warnings of a loop, in the order of the file.

    For a loop with gaps, only problems that do not depend on them. `compiled` says that a paradigm
    produced its states.
    """
    of = Inspection(loop, places, gaps, compiled=compiled)
    found = [problem for one in SKELETON for problem in one(of)]
    checks = CHECKS if found or gaps else (*CHECKS, *PATHS)
    found += [problem for one in checks for problem in one(of)]
    found += _unchecked(of)
    return sorted(found, key=_position)


def _unchecked(of: Inspection) -> list[Problem]:
    """Return a warning for each limit that stopped a check early."""
    help = "the rest is checked at run time; move long text into files that actions read"
    return [
        of.warning("LL314", f"not everything was checked: the loop has {much}", "states", help=help)
        for much in of.unchecked
    ]


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line, place.column) if place is not None else (0, 0)
