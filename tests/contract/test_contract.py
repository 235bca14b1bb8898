"""Every runtime carries out a run in the same way; here, that of this computer."""

from __future__ import annotations

import pytest

from little_loops.engine.local_runtime import LocalRuntime
from little_loops.fsm.endings import ENDINGS
from little_loops.fsm.schema import CONDITION_TYPES
from tests.contract.suite import CASES, Case, carry_out, cases, effects, laid_out, told
from tests.project import Project, until

ONLY_ON_A_FLEET = (("failed", "consent"),)
"""`tests/fleet` shows these."""


@pytest.mark.parametrize("case", cases())
def test_on_this_computer(case: Case, project: Project):
    loop = laid_out(project, case)
    path = f"{project.home}/bin:{project.environ()['PATH']}"
    runtime = LocalRuntime(str(project.root), project.environ(PATH=path, IS_SANDBOX="1"))
    try:
        carry_out(case, project, loop, runtime)
        assert told(runtime, case.name) == case.story
    finally:
        runtime.stop(case.name)
        until(runtime.reap, "exit of every process")
    assert effects(project) == case.effects


def test_there_is_a_case_for_each_ending_and_each_condition():
    text = "\n".join(path.read_text() for path in CASES.glob("*.yaml"))
    missing = [
        f"{status} {reason}"
        for status, reason in ENDINGS
        if (status, reason) not in ONLY_ON_A_FLEET and f"ends: {status} {reason} " not in text
    ]
    missing += [name for name in CONDITION_TYPES if f"type: {name}" not in text]
    assert missing == []
