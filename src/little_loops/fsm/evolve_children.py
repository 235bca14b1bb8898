"""What the events of a state's children change in a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from little_loops.fsm.events import (
    ChildEnd,
    ChildrenHalted,
    ChildrenJoined,
    ChildrenPlanned,
    ChildStart,
    Cost,
)
from little_loops.fsm.joins import PAUSED, UNDECIDED
from little_loops.fsm.state import Beside, Children, Counted, Halt, LoopState, Stage
from little_loops.light_typing import assert_never

ChildEvent = ChildrenPlanned | ChildStart | ChildEnd | ChildrenJoined | ChildrenHalted


def evolve_children(run: LoopState, event: ChildEvent) -> LoopState:
    """Return the run after an event of its children; unchanged if it has none, as after an event
    that was written by hand."""
    if isinstance(event, ChildrenPlanned):
        new: Stage = "waiting"
        waiting = (new,) * len(event.names)
        made = Children(event.state, event.step, event.attempt, event.names, waiting)
        return run._replace(children=made._replace(several=event.several))
    children = run.children
    if children is None:
        return run
    match event:
        case ChildStart() if run.train is not None and run.train.resolving == event.child:
            changed = children._replace(beside=Beside(event.child))
            return run._replace(phase="running", children=changed)
        case ChildStart():
            changed = _at_stage(children, event.child, "running")
            return run._replace(phase="running", children=changed)
        case ChildEnd() if run.train is not None and run.train.resolving == event.child:
            from little_loops.fsm.evolve_worktrees import after_resolver  # few branches are

            changed = _counted(children, event)._replace(beside=_beside(children, event))
            return run._replace(train=after_resolver(run.train, event), children=changed)
        case ChildEnd():
            return run._replace(children=_ended(children, event))
        case ChildrenJoined():
            judged = children._replace(verdict=event.verdict, reason=event.reason)
            return run._replace(children=judged)
        case ChildrenHalted():
            return run._replace(children=children._replace(halt=event.halt))
        case _:
            assert_never(event)


def _at_stage(children: Children, name: str, stage: Stage) -> Children:
    """Return the children with this one at another stage; unchanged for an unknown name."""
    if name not in children.names:
        return children
    at = children.names.index(name)
    stages = (*children.stages[:at], stage, *children.stages[at + 1 :])
    return children._replace(stages=stages)


def _ended(children: Children, event: ChildEnd) -> Children:
    """Return the children after the end of one of them. The first that pauses decides how the run
    pauses."""
    children = _counted(_at_stage(children, event.child, event.stage), event)
    if event.stage in PAUSED and children.pause is None:
        children = children._replace(pause=_pause(children, event))
    return children


def _counted(children: Children, event: ChildEnd) -> Children:
    """Return the children after the end of a run: whether it has crashed, and whether all that it
    used is counted."""
    name = event.child
    if event.reason == "crash" and name not in children.crashed:
        children = children._replace(crashed=(*children.crashed, name))
    if event.stage not in UNDECIDED:
        counted = {key: value for key, value in children.counted.items() if key != name}
        children = children._replace(counted=counted)
    return children


def _beside(children: Children, event: ChildEnd) -> Beside | None:
    """Return the run that resolves a branch if it can continue; None if it is over."""
    if event.stage not in UNDECIDED:
        return None
    pause = _pause(children, event) if event.stage in PAUSED else None
    return Beside(event.child, event.stage, pause)


def _pause(children: Children, event: ChildEnd) -> Halt:
    """Return how the run pauses because a child does."""
    return Halt(event.status, event.reason, _words(children.path(event.child), event.message))


def with_counted(children: Children, name: str, used: Cost) -> Children:
    """Return the children after a cost of one of them was counted."""
    return children._replace(counted={**children.counted, name: used_with(children, name, used)})


def used_with(children: Children | None, name: str, used: Cost) -> Counted:
    """Return what a child has used in all, given what is counted now."""
    before = Counted() if children is None else children.counted.get(name, Counted())
    return Counted(
        before.tokens + used.tokens, before.cost_usd + used.cost_usd, before.turns + used.turns
    )


def _words(name: str, message: str) -> str:
    return f"`{name}`: {message}" if message else f"`{name}`"


def interrupted_children(children: Children) -> Children:
    """Return the children after their parent was interrupted: those under way can be continued."""
    stages = tuple(_interrupted(stage) for stage in children.stages)
    beside = children.beside
    if beside is not None:
        beside = beside._replace(stage=_interrupted(beside.stage))
    return children._replace(stages=stages, beside=beside)


def _interrupted(stage: Stage) -> Stage:
    return "interrupted" if stage == "running" else stage


def _open_pause(children: Children, stages: Sequence[Stage]) -> Halt | None:
    """Return how the run pauses again for a gate that nobody has answered; None without one. The
    child that paused it may have continued, in which case it is another's gate."""
    if "review" not in stages:
        return None
    words, pause = _words(children.path(children.names[stages.index("review")]), ""), children.pause
    if pause is not None and pause.reason == "review" and pause.message.startswith(words):
        return pause
    return Halt("needs_review", "review", words)


def resumed_children(children: Children, answered: Collection[str]) -> Children:
    """Return the children after a resume: paused ones continue, except at a gate that nobody has
    answered."""
    stages = tuple(
        _continued(name, stage, answered)
        for name, stage in zip(children.names, children.stages, strict=True)
    )
    pause = _open_pause(children, stages)
    beside = _continued_beside(children.beside, answered)
    changed = children._replace(stages=stages, pause=pause, halt=None, beside=beside)
    return interrupted_children(changed)


def _continued_beside(beside: Beside | None, answered: Collection[str]) -> Beside | None:
    """Return the run that resolves a branch after a resume, like any other child."""
    if beside is None:
        return None
    stage = _continued(beside.name, beside.stage, answered)
    return Beside(beside.name, stage, beside.pause if stage == "review" else None)


def _continued(name: str, stage: Stage, answered: Collection[str]) -> Stage:
    if stage == "paused" or (stage == "review" and name in answered):
        return "resumed"
    return stage
