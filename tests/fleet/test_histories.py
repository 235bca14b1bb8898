"""The workflow decides as it did when a history was recorded, so a run that is under way continues
after an update."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.workflow import NondeterminismError

from little_loops.fleet import names
from little_loops.fleet.workflow import RunWorkflow
from tests.fleet.histories import HISTORIES, Golden, replayed, text_of

RECORDED = sorted(HISTORIES.glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_run_is_continued_with_the_same_commands(path: Path):
    golden = Golden.read(path)
    commands = asyncio.run(replayed(golden.workflow, golden.events))
    assert [*map(text_of, commands)] == [*map(text_of, golden.commands)], (
        "workers give running workflows other commands than before; if their receivers understand"
        " both, record them again: python -m tools.histories --write"
    )


def test_the_recorded_runs_have_every_kind_of_command():
    commands = [each for path in RECORDED for each in Golden.read(path).commands]
    activities = {
        each["scheduleActivity"]["activityType"] for each in commands if "scheduleActivity" in each
    }
    assert activities == {names.CLAIM, names.PREPARE, names.PERFORM, names.INTERRUPT, names.RELEASE}
    assert {kind for each in commands for kind in each} >= {
        *("scheduleActivity", "startTimer", "cancelTimer"),
        *("continueAsNewWorkflowExecution", "completeWorkflowExecution"),
    }


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Hasty(RunWorkflow):
    """A workflow that would break running ones: it waits before it claims."""

    @workflow.init
    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)

    @workflow.run
    async def run(self, given: dict[str, Any]) -> dict[str, Any]:
        await workflow.sleep(1)
        return await super().run(given)


def test_a_workflow_that_would_break_a_running_one_is_found():
    golden = Golden.read(RECORDED[0])
    with pytest.raises(NondeterminismError):
        asyncio.run(replayed(golden.workflow, golden.events, [Hasty]))
