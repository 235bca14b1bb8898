"""The contract suite on a fleet: a real Temporal server, two workers, and a bare repository."""

from __future__ import annotations

import pytest

from tests.contract.suite import Case, carry_out, cases, effects, laid_out, told
from tests.fleet.fleet import Fleet
from tests.project import Project


@pytest.mark.parametrize("case", cases())
def test_on_a_fleet(case: Case, project: Project, fleet: Fleet):
    loop = laid_out(project, case)
    if case.claude is not None:
        fleet.play(project)
    runtime = fleet.runtime(project)
    try:
        carry_out(case, project, loop, runtime)
        assert told(runtime, case.name) == case.story
    finally:
        runtime.stop(case.name)
        runtime.close()
    assert effects(project) == case.effects
