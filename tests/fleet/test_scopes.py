"""Runs of one repository whose scopes overlap, on different workers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from little_loops.fleet.address import connected
from little_loops.fleet.names import scopes_workflow_id, workflow_id
from little_loops.fleet.refusals import why_not
from little_loops.fleet.scopes import ScopeQueue, ScopeRequest, scope_in_repository
from little_loops.fsm.schema import FSMLoop, StateConfig
from tests.contract.suite import effects
from tests.fleet.case import Case
from tests.fleet.fleet import labelled
from tests.project import DEADLINE_S, until

WORK = (
    "echo $LL_LOOP-begins >> $OUT/effects; until test -e $OUT/$LL_LOOP; do sleep 0.05; done;"
    " echo $LL_LOOP-ends >> $OUT/effects"
)
LOOP: dict[str, Any] = {
    "name": "slow",
    "scope": ["src/a"],
    "initial": "work",
    "states": {"work": {"action": WORK, "next": "done"}, "done": {"terminal": True}},
}


def another(case: Case, name: str, *scope: str) -> None:
    """Start another loop with the same states."""
    case.runtime.start(case.loop._replace(name=name, scope=scope))


def waits_for(case: Case, name: str, expected: str) -> None:
    until(lambda: (case.runtime.details(name) or {})["waits_for"] == expected, expected)


def lets_end(case: Case, name: str) -> str:
    (case.project.home / name).touch()
    found = case.runtime.wait(name, DEADLINE_S)
    assert found is not None
    return f"{found.status} {found.reason}"


def bare(case: Case) -> str:
    return str(case.project.root.parent / "bare.git")


def held(case: Case) -> dict[str, list[str]]:
    """Return the names of the runs that hold a scope, and of those that wait for one."""
    found = asyncio.run(ask(case))
    return {key: [each["name"] for each in tickets] for key, tickets in found.items()}


async def ask(case: Case) -> dict[str, Any]:
    client = await connected(case.fleet.server.address)
    handle = client.get_workflow_handle(scopes_workflow_id(bare(case)))
    found: dict[str, Any] = await handle.query("tickets")
    return found


async def terminate(case: Case, name: str) -> None:
    client = await connected(case.fleet.server.address)
    await client.get_workflow_handle(workflow_id(bare(case), name)).terminate()


def test_runs_whose_scopes_overlap_never_work_at_once(begin: Callable[..., Case]):
    case = begin(LOOP)
    case.effect("slow-begins")
    another(case, "wide", "src")
    waits_for(case, "wide", "`slow`, whose scope overlaps (src/a)")
    another(case, "late", "src/b")
    waits_for(case, "late", "`wide`, whose scope overlaps (src)")
    another(case, "apart", "docs")
    until(lambda: effects(case.project) == ["slow-begins", "apart-begins"], "other scope")
    assert held(case) == {"holders": ["slow", "apart"], "waiting": ["wide", "late"]}
    for name in ("wide", "late", "apart"):
        (case.project.home / name).touch()
    assert lets_end(case, "apart") == "completed terminal"
    assert lets_end(case, "slow") == "completed terminal"
    assert lets_end(case, "late") == "completed terminal"
    mine = [word for word in effects(case.project) if "apart" not in word]
    assert mine == [
        *("slow-begins", "slow-ends", "wide-begins", "wide-ends", "late-begins", "late-ends")
    ]
    until(lambda: held(case) == {"holders": [], "waiting": []}, "free scopes")


def test_a_run_that_waits_for_its_scope_is_stopped(begin: Callable[..., Case]):
    case = begin(LOOP)
    case.effect("slow-begins")
    another(case, "second", "src")
    waits_for(case, "second", "`slow`, whose scope overlaps (src/a)")
    case.runtime.stop("second")
    assert held(case) == {"holders": ["slow"], "waiting": []}
    assert lets_end(case, "slow") == "completed terminal"


def test_the_scope_of_a_run_that_is_gone_is_free(begin: Callable[..., Case]):
    case = begin(LOOP)
    case.effect("slow-begins")
    another(case, "second", ".")
    waits_for(case, "second", "`slow`, whose scope overlaps (src/a)")
    asyncio.run(terminate(case, "slow"))
    assert lets_end(case, "second") == "completed terminal"


def test_a_run_that_pauses_gives_its_scope_back(begin: Callable[..., Case]):
    gate = {"terminal": True, "outcome": "review", "next": "work"}
    case = begin({**LOOP, "initial": "gate", "states": {**LOOP["states"], "gate": gate}})
    assert case.ends() == "needs_review review"
    another(case, "second", "src")
    assert (case.runtime.wait("second", DEADLINE_S) or ("",) * 3)[2] == "needs_review"
    case.runtime.approve("second")
    until(lambda: effects(case.project) == ["second-begins"], "second run")
    case.runtime.approve("slow")
    waits_for(case, "slow", "`second`, whose scope overlaps (src)")
    assert lets_end(case, "second") == "completed terminal"
    assert lets_end(case, "slow") == "completed terminal"


def test_the_scope_of_a_run_whose_worker_is_gone_for_good_is_free(begin: Callable[..., Case]):
    case = begin({**LOOP, "runs_on": {"labels": ["gpu"]}})
    with labelled(case.fleet, "gpu") as only:
        case.effect("slow-begins")
        assert case.holder() is only
        only.send(signal.SIGKILL)
        case.runtime.start(case.loop._replace(name="second", runs_on=None))
        until(lambda: effects(case.project) == ["slow-begins", "second-begins"], "second run")
    with labelled(case.fleet, "gpu"):
        waits_for(case, "slow", "`second`, whose scope overlaps (src/a)")
        assert lets_end(case, "second") == "completed terminal"
        assert lets_end(case, "slow") == "completed terminal"
    assert effects(case.project)[1:] == ["second-begins", "second-ends", "slow-begins", "slow-ends"]


def ticket(name: str, *scope: str) -> ScopeRequest:
    return ScopeRequest(name, name, name, scope)


def test_scopes_are_handed_out_in_the_order_of_the_questions():
    queue = ScopeQueue()
    first, wide, late, apart = (
        *(ticket("first", "src/a"), ticket("wide", "."), ticket("late", "src/b")),
        ticket("apart", "docs"),
    )
    for each in (first, wide, late):
        queue.ask(each)
    assert queue.grant() == [first]
    assert (queue.blocker(wide), queue.blocker(late)) == (first, wide)
    queue.ask(wide)
    assert queue.waiting == [wide, late], "asking again keeps the place"
    queue.drop("wide", "of an earlier session")
    assert queue.waiting == [wide, late]
    queue.drop("wide")
    queue.ask(apart)
    assert queue.grant() == [late, apart]
    queue.ask(first._replace(ticket="next session"))
    assert queue.holders == [late, apart], "its own earlier session is over"


def test_scopes_begin_at_the_root_of_the_repository():
    assert scope_in_repository("", (".", "src/")) == (".", "src")
    assert scope_in_repository("web", (".", "../api")) == ("web", "api")


@pytest.mark.parametrize("path", ["../other", "/etc"])
def test_a_scope_outside_the_repository_is_refused(path: str):
    loop = FSMLoop("out", "end", {"end": StateConfig(terminal=True)}, scope=("src", path))
    assert why_not(loop) == (
        f"scope `{path}` is outside the repository, which is all that a fleet has",
        "name paths inside the project, or run the loop with `--local`",
    )
