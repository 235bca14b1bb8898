"""A world without effects: the results of actions come from a script, and no time passes.

`ll-loop test`, `simulate` and `replay` drive the real machine in it and differ only in their
`ActionResults`. Templates are filled in and conditions are judged as in a real run; processes, files and
clocks are not touched. (A pattern or a jq filter is judged in a forked child, as always.)

Not here: running anything (`local_world`), where the results come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.engine.drive import NO_LIMITS, Performers, drive, new_run
from little_loops.engine.resolve import Filled, Values, fill, judge_now, shown_text
from little_loops.engine.scripted_trees import ScriptedTrees
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.branching import (
    BranchReport,
    action_loop,
    branch_names,
    branch_step,
    branch_values,
    items_in,
    report_of,
    why_not,
    written_items,
)
from little_loops.fsm.commands import (
    WORKTREE_COMMANDS,
    Admit,
    AskJudge,
    CollectJudge,
    Command,
    Ending,
    EndLeftovers,
    FindBranches,
    GatherChildren,
    Judge,
    LookUpLimits,
    PutBack,
    RestoreBest,
    RestoreProtected,
    RunAction,
    RunAgent,
    RunBuiltin,
    RunChildren,
    RunHook,
    RunShell,
    TakeSnapshot,
    Wait,
    WorktreeCommand,
)
from little_loops.fsm.events import ChildEnd, ChildrenPlanned, Entry
from little_loops.fsm.evidence import wants_evidence
from little_loops.fsm.evolve import first_state, replay
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    BranchesFound,
    ChildEnded,
    ChildOutcome,
    Happening,
    HookEnded,
    JudgeAnswered,
    Judged,
    LeftoversEnded,
    LimitsKnown,
    PathsRestored,
    Resumed,
    Started,
    WaitOver,
)
from little_loops.fsm.joins import ending_text
from little_loops.fsm.machine import Step
from little_loops.fsm.recorded import outcome_of_event
from little_loops.fsm.schema import Branches, FSMLoop
from little_loops.fsm.state import (
    BranchCount,
    Children,
    ChildResult,
    Judgement,
    Limits,
    LoopState,
    Note,
    Result,
    SignalLine,
)
from little_loops.fsm.timestamps import Moment
from little_loops.fsm.train import result_of
from little_loops.fsm.waits import left_ms
from little_loops.light_typing import Any, Protocol
from little_loops.records import NamedTuple
from little_loops.templates.render import TemplateError, Unresolved, ValueNotANumber, render_text
from little_loops.templates.splice import as_text

RUN = "scripted"
START_MS = 1_767_225_600_000  # 2026-01-01, midnight
ON = "on"


class ScriptedResult(NamedTuple):
    """What an action did; `changes` are the paths it changed, None if the script does not say."""

    result: Result
    signal_line: SignalLine | None = None
    changes: tuple[str, ...] | None = None


class ActionResults(Protocol):
    """Where the results of actions come from."""

    def answer(self, run: LoopState, command: RunAction, text: str) -> ScriptedResult:
        """Return the result of an action; `text` is its script or prompt with all values."""
        ...

    def child(self, world: ScriptedWorld, run: LoopState, name: str) -> ChildOutcome:
        """Return how a run that the current state has started ends."""
        ...

    def output(self, branch: str) -> str | None:
        """Return what the action of a branch that has ended printed; None if nobody knows."""
        ...

    def fits(self, branch: str) -> bool:
        """Return whether the work of a run that has ended can be merged."""
        ...

    def files(self, state: str) -> list[str]:
        """Return the files that the pattern of a state's branches matches."""
        ...

    def opinion(self, run: LoopState) -> Judgement:
        """Return what the judge of the current state answers."""
        ...


class ScriptedValues(Values):
    """Values without files: a reference to the file of a result gives a name only."""

    def _file_of(self, field: str, name: str, result: Result) -> str | None:
        return f"{name}.{field}"


class Taken(NamedTuple):
    """The files as they were after so many events."""

    events: int
    trees: ScriptedTrees


class ScriptedWorld:
    """The world of one run; `log` has its events, `ran_ms` its time."""

    def __init__(
        self,
        loop: FSMLoop,
        environ: Mapping[str, str],
        trees: ScriptedTrees,
        outer: Values | None = None,
    ) -> None:
        """`outer` are the values of the state whose branch this run is."""
        self.loop = loop
        self.environ = environ
        self.outer = outer
        self.trees = trees
        self.log: list[Entry] = []
        self.history: list[Taken] = []
        self.ran_ms = 0
        self.waiting: list[str] = []
        self.script: ActionResults

    def now(self) -> Moment:
        return Moment(START_MS + self.ran_ms, self.ran_ms)

    def emit(self, step: Step) -> None:
        self.log.extend(step.events)
        self.history.append(Taken(len(self.log), self.trees))

    def save(self, run: LoopState) -> None:
        """Store nothing: an interrupted run is rebuilt from its events."""

    def notes(self, run: LoopState) -> tuple[Note, ...]:
        """Return nothing; a test of a loop sends no notes."""
        return ()

    def perform(self, run: LoopState, command: Command) -> Happening:
        return PERFORM[type(command)](self, run, command)

    def values(self, run: LoopState) -> Values:
        return ScriptedValues(self.loop, run, self.environ, outer=self.outer)

    def judge(self, run: LoopState, command: Judge) -> Judgement:
        return judge_now(command, run, self.values(run))

    def pass_time(self, ms: int) -> None:
        self.ran_ms += ms


class Ran(NamedTuple):
    """A run that has come to its end."""

    run: LoopState
    ending: Ending
    world: ScriptedWorld


def start(world: ScriptedWorld, script: ActionResults, limits: Limits = NO_LIMITS) -> Ran:
    """Run a loop from its first state to its ending."""
    evidence = ON if wants_evidence(world.loop) else None
    run = new_run(world.loop, RUN, world.now(), limits=limits, evidence=evidence)
    return _drive(world, script, run, Started(world.now()))


def resume_after(ran: Ran, count: int, script: ActionResults) -> Ran:
    """Continue a run that was killed when `count` of its events were written, in a new world.

    `ran` stays as it is.
    """
    loop, old = ran.world.loop, ran.world
    entries = old.log[:count]
    run = replay(first_state(entries[0], loop.context), entries)
    trees = next(taken.trees for taken in old.history if taken.events >= count)
    world = ScriptedWorld(loop, old.environ, trees)
    world.log, world.ran_ms = entries, run.ran_ms
    return _drive(world, script, run, Resumed(world.now()))


def _drive(
    world: ScriptedWorld, script: ActionResults, run: LoopState, happening: Happening
) -> Ran:
    world.script = script
    return Ran(*drive(world.loop, run, happening, world), world)


# ── a performer for each type of command ───────────────────────────────────────────────────────


def _act(world: ScriptedWorld, run: LoopState, command: RunAction) -> ActionEnded:
    """Get the result of an action from the script; its time passes, and the files it changes
    change.

    A check in a clean copy changes none. An action that cannot be filled in does not reach the
    script.
    """
    values = world.values(run)
    filled = fill(command, values)
    if not isinstance(filled, Filled):
        return ActionEnded(world.now(), Result(None, 0, failure=filled))
    answer = world.script.answer(
        run, command, shown_text(action_text(command), command, filled, values)
    )
    result = within_deadline(command, answer.result)
    world.pass_time(result.duration_ms)
    if not (isinstance(command, RunShell) and command.copy is not None):
        world.trees = world.trees.changed_by(_changes(world, run, answer))
    return ActionEnded(world.now(), result, answer.signal_line)


def _find_branches(world: ScriptedWorld, run: LoopState, command: FindBranches) -> BranchesFound:
    """Return the branches that the current state has with the values of the script."""
    branches = world.loop.states[command.state].branches
    assert branches is not None, "the state has branches"
    try:
        items = _items(world, run, branches)
    except (Unresolved, ValueNotANumber, TemplateError) as problem:
        return BranchesFound(world.now(), problem=f"`for_each`: {problem}")
    if (too_many := why_not(items)) is not None:
        return BranchesFound(world.now(), problem=too_many)
    return BranchesFound(world.now(), branch_names(branches, items))


def _items(world: ScriptedWorld, run: LoopState, branches: Branches) -> list[Any]:
    """Return the items of the branches of the current state."""
    items = written_items(branches)
    if items is not None:
        return items
    if isinstance(branches.for_each, str):
        values = world.values(run)
        return items_in(render_text(branches.for_each, values, values.context))
    return world.script.files(run.current_state)


def _run_children(world: ScriptedWorld, run: LoopState, command: RunChildren) -> ChildEnded:
    """Return the end of the next child, in the order of their starts: `interrupted` if the command stops
    it, else as scripted, after its whole duration."""
    world.waiting += [name for name in command.start if name not in world.waiting]
    name = (world.waiting or list(command.stop))[0]
    world.waiting = [each for each in world.waiting if each != name]
    if name in command.stop:
        return ChildEnded(world.now(), name, ChildOutcome("interrupted", "signal"))
    outcome = world.script.child(world, run, name)
    world.pass_time(outcome.duration_ms)
    return ChildEnded(world.now(), name, outcome)


def branch_world(world: ScriptedWorld, run: LoopState, name: str) -> ScriptedWorld | None:
    """Return a world for the run of a branch with an action; None for a run of another loop."""
    state, children = world.loop.states[run.current_state], run.children
    if state.branches is None:
        return None
    assert children is not None, "the state has started its branches"
    index = children.names.index(name)
    item = _items(world, run, state.branches)[index]
    step = branch_step(state, name, item)
    if step.loop is not None:
        return None
    outer = world.values(run).with_branch(branch_values(state.branches, name, index, item))
    loop = action_loop(world.loop, state, step, name)._replace(context=run.context)
    return ScriptedWorld(loop, world.environ, ScriptedTrees.of(loop), outer)


def _ended(world: ScriptedWorld, children: Children) -> dict[str, ChildOutcome]:
    """Return how the children that the current state started last have ended, by their names."""
    found: dict[str, ChildOutcome] = {}
    for entry in world.log:
        match entry.event:
            case ChildrenPlanned(state=state) if state == children.state:
                found.clear()
            case ChildEnd(state=state) as end if state == children.state:
                found[end.child] = outcome_of_event(end)
            case _:
                pass
    return found


def _gather(world: ScriptedWorld, run: LoopState, command: GatherChildren) -> ActionEnded:
    """Return the result of a state whose children have ended as the script says."""
    ended = _ended(world, command.children)
    if command.children.several:
        return ActionEnded(world.now(), _gathered(world, run, command, ended))
    outcome = ended.get(command.children.names[0], ChildOutcome("failed", "error"))
    result = Result(
        agent_exit_code("success", command.judgement.verdict),
        outcome.duration_ms,
        outcome.message,
        verdict=command.judgement.verdict,
        reason=ending_text(outcome),
        cost_usd=outcome.cost_usd,
        child=ChildResult(
            outcome.status, outcome.reason, outcome.final_state, outcome.iterations, {}
        ),
        merge=None if run.train is None else result_of(run.train),
    )
    return ActionEnded(world.now(), result)


def _gathered(
    world: ScriptedWorld,
    run: LoopState,
    command: GatherChildren,
    ended: Mapping[str, ChildOutcome],
) -> Result:
    """Return the result of a state whose branches have ended."""
    children, judgement = command.children, command.judgement
    branches = world.loop.states[command.state].branches
    assert branches is not None, "only a state with branches has several children"
    each = zip(children.names, _items(world, run, branches), children.stages, strict=True)
    reports = [
        report_of(BranchReport(*one, ended.get(one[0]), _result(world, run, one[0])))
        for one in each
    ]
    return Result(
        agent_exit_code("success", judgement.verdict),
        max((outcome.duration_ms for outcome in ended.values()), default=0),
        as_text(reports),
        verdict=judgement.verdict,
        reason=judgement.reason,
        cost_usd=sum(outcome.cost_usd for outcome in ended.values()),
        branches=BranchCount(len(children.names), children.stages.count("pass")),
    )


def _result(world: ScriptedWorld, run: LoopState, name: str) -> Mapping[str, str]:
    """Return the `result` of a branch: that of an action has its output."""
    output = world.script.output(name)
    return {} if output is None or branch_world(world, run, name) is None else {"output": output}


def action_text(command: RunAction) -> str:
    """Return the script, the prompt or the name of an action, as written."""
    match command:
        case RunShell():
            return command.script
        case RunAgent():
            return command.text
        case RunBuiltin():
            return command.name


def within_deadline(command: RunAction, result: Result) -> Result:
    """Return the result, cut at the deadline of the action or of the loop if it takes longer."""
    deadline_ms = command.job.deadline_ms
    if deadline_ms is None or result.duration_ms < deadline_ms:
        return result
    return result._replace(
        exit_code=None, signal=None, duration_ms=deadline_ms, cut_by=command.job.deadline_of
    )


def _changes(world: ScriptedWorld, run: LoopState, answer: ScriptedResult) -> tuple[str, ...]:
    """Return the changed paths. Where the script does not say, everything but a check changes a
    file of its own."""
    if answer.changes is not None:
        return answer.changes
    if world.loop.states[run.current_state].check:
        return ()
    return (world.trees.own_file(run.current_state),)


def _judge(world: ScriptedWorld, run: LoopState, command: Judge) -> Judged:
    return Judged(world.now(), world.judge(run, command))


def _wait(world: ScriptedWorld, run: LoopState, command: Wait) -> WaitOver:
    """Let the time of a wait pass at once, but not beyond its deadline."""
    left = left_ms(command.wait, world.now())
    if command.deadline_ms is not None:
        left = min(left, command.deadline_ms - world.ran_ms)
    world.pass_time(max(0, left))
    return WaitOver(world.now())


def _take_snapshot(world: ScriptedWorld, run: LoopState, command: TakeSnapshot) -> Happening:
    return world.trees.taken(world.now(), command)


def _restore(world: ScriptedWorld, run: LoopState, command: RestoreProtected) -> PathsRestored:
    world.trees, paths = world.trees.restored(command.reference)
    return PathsRestored(world.now(), "protected", paths, (), command.ending)


def _put_back(world: ScriptedWorld, run: LoopState, command: PutBack) -> PathsRestored:
    world.trees, paths = world.trees.put_back(command.project, command.reference)
    return PathsRestored(world.now(), "outside", paths, (), command.ending)


def _restore_best(world: ScriptedWorld, run: LoopState, command: RestoreBest) -> PathsRestored:
    world.trees, paths = world.trees.with_best(command.project, command.reference)
    project = world.trees.project
    return PathsRestored(world.now(), "change", paths, (), command.ending, project)


def _end_leftovers(world: ScriptedWorld, run: LoopState, command: EndLeftovers) -> LeftoversEnded:
    return LeftoversEnded(world.now(), command.ending)


def _admit(world: ScriptedWorld, run: LoopState, command: Admit) -> Admitted:
    return Admitted(world.now())  # nothing starts, so there is nothing to wait for


def _ask_judge(
    world: ScriptedWorld, run: LoopState, command: AskJudge | CollectJudge
) -> JudgeAnswered:
    result = Result(0, 0, agent="success", cost_usd=0.0)
    return JudgeAnswered(world.now(), world.script.opinion(run), result)


def _look_up_limits(world: ScriptedWorld, run: LoopState, command: LookUpLimits) -> LimitsKnown:
    return LimitsKnown(world.now())  # the user's own limits are no part of a script


def _hook(world: ScriptedWorld, run: LoopState, command: RunHook) -> HookEnded:
    return HookEnded(world.now(), command.name, ending=command.ending)  # none is run


def _on_worktrees(world: ScriptedWorld, run: LoopState, command: WorktreeCommand) -> Happening:
    from little_loops.engine.scripted_worktrees import answer  # few loops have worktrees

    return answer(world.now(), command, world.script.fits)


PERFORM: Performers = {
    Admit: _admit,
    LookUpLimits: _look_up_limits,
    AskJudge: _ask_judge,
    CollectJudge: _ask_judge,
    RunShell: _act,
    RunAgent: _act,
    RunBuiltin: _act,
    RunHook: _hook,
    FindBranches: _find_branches,
    RunChildren: _run_children,
    GatherChildren: _gather,
    Judge: _judge,
    Wait: _wait,
    TakeSnapshot: _take_snapshot,
    RestoreProtected: _restore,
    PutBack: _put_back,
    RestoreBest: _restore_best,
    EndLeftovers: _end_leftovers,
    **dict.fromkeys(WORKTREE_COMMANDS, _on_worktrees),
}
