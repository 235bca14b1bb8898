"""One number, one history of a tree of runs without processes: a loop whose states start loops,
people who stop runs, answer gates and resume, and kills of any of its processes at any event.

The machine, the shares of limits (`spending.shares`) and the gate before agents (`engine.gate`) are
the real ones. Processes are turns: at each turn one of the living runs does one thing.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from little_loops.engine.child_run import lowered
from little_loops.engine.drive import NO_LIMITS, new_run
from little_loops.engine.gate import AgentAdmission
from little_loops.fsm.agent_outcomes import agent_exit_code
from little_loops.fsm.branching import branch_names, branch_step, shares_tree, without_evidence
from little_loops.fsm.codec import to_record
from little_loops.fsm.commands import (
    Admit,
    EndLeftovers,
    FindBranches,
    Finish,
    GatherChildren,
    Judge,
    PutBack,
    RestoreProtected,
    RunAgent,
    RunChildren,
    TakeSnapshot,
    TreeCommand,
    Wait,
)
from little_loops.fsm.endings import is_gate, not_resumable
from little_loops.fsm.gates import open_gate
from little_loops.fsm.happenings import (
    ActionEnded,
    Admitted,
    BranchesFound,
    ChildEnded,
    ChildOutcome,
    ChildrenOutOfTime,
    Happening,
    Judged,
    LeftoversEnded,
    PathsRestored,
    Queued,
    Resumed,
    Started,
    StopAsked,
    WaitOver,
)
from little_loops.fsm.joins import CRASHED, ENDED
from little_loops.fsm.ledger import AgentTurn, turn_id
from little_loops.fsm.limits import cost_allowed_usd
from little_loops.fsm.machine import advance
from little_loops.fsm.schema import ChildLimits, FSMLoop
from little_loops.fsm.spending import LOST, owed, used
from little_loops.fsm.state import (
    Answer,
    BranchCount,
    ChildResult,
    Counted,
    Judgement,
    Limits,
    LoopState,
    Result,
    Spending,
)
from little_loops.fsm.timestamps import Moment
from little_loops.runs.child_runs import is_under_way, outcome_of_run, used_in_all
from little_loops.spending.rules import SpendingRules
from little_loops.spending.shares import Limit, Share, begin, set_limit, settle
from tests.fsm.fake_trees import FakeTrees
from tests.simulation.budget_loops import Nature, Turn
from tests.simulation.ledger import FINAL, ContractBroken, Ledger
from tests.simulation.pure_history import START_MS, _Sleeper, rebuilt
from tests.simulation.tree_laws import TREE_LAWS, TreeLaws, same_way
from tests.simulation.tree_loops import CalmNature, tree_loop

MOST_PROCESSES = 10
MOST_TURNS = 20_000
Record = dict[str, Any]
KILLS = ("kill the root", "kill a child", "kill the parent of a child", "kill all")
STOPS = ("stop the root", "stop a child")
ACCIDENTS = (*KILLS, *STOPS)


class Gone(Exception):
    """The process is gone."""


class Accident(NamedTuple):
    """What happens to the tree, before its n-th event or in its n-th action."""

    kind: str
    number: int
    in_action: bool = False


class Working(NamedTuple):
    """An action under way, and how much longer it takes."""

    turn: Turn
    takes_ms: int
    left_ms: int
    cut_by: str | None


class Run:
    """One run of the tree, and its process while it has one."""

    def __init__(self, tree: Tree, loop: FSMLoop, parent: Run | None, path: str) -> None:
        self.tree = tree
        self.loop = loop
        self.parent = parent
        self.path = path
        self.nature = tree.nature_of(path)
        self.log: list[Record] = []
        self.run: LoopState | None = None
        self.kids: dict[tuple[int, int, str], Run] = {}
        self.ran_ms = 0
        self.is_alive = False
        self.stop: int | None = None
        self.ended: deque[tuple[str, Run | ChildOutcome]] = deque()
        self.ledger = Ledger(loop, laws=(6, 7))
        self._command: Any = None
        self._until_ms: int | None = None
        self._working: Working | None = None
        self._gate: AgentAdmission | None = None
        self._is_admitted = False
        self._was_killed = False
        self._limits = Limits()
        self.shares: tuple[Share, ...] = ()
        self.folder = tree.new_folder()
        self.answers: dict[int, Answer] = {}

    # ── what others want to know ───────────────────────────────────────────────────────────────

    def above(self) -> Iterator[Run]:
        run = self.parent
        while run is not None:
            yield run
            run = run.parent

    def below(self) -> Iterator[Run]:
        for each in self.kids.values():
            yield each
            yield from each.below()

    def current_children(self) -> list[Run]:
        children = None if self.run is None else self.run.children
        if children is None:
            return []
        keys = [(children.step, children.attempt, name) for name in children.names]
        return [self.kids[key] for key in keys if key in self.kids]

    def ending(self) -> tuple[str, str] | None:
        """The status and reason of the last event, if that is an ending."""
        last = self.log[-1] if self.log else {"event": ""}
        if last["event"] not in FINAL or self._is_silent(last["status"]):
            return None
        return last["status"], last["reason"]

    def _is_silent(self, status: str) -> bool:
        """Whether its last process was killed before it recorded anything."""
        return self._was_killed and status == "interrupted"

    def ending_of(self, name: str) -> tuple[str, str] | None:
        found = [each for each in self.current_children() if each.path.endswith(f"/{name}")]
        return found[0].ending() if found else None

    def crashes(self, name: str) -> int:
        """How often this child of the current state ended in a crash."""
        count = 0
        for record in reversed(self.log):
            if record["event"] == "children":
                break
            ended = record["event"] == "child_end" and record["child"] == name
            count += ended and record["reason"] == "crash"
        return count

    @property
    def is_halting(self) -> bool:
        children = None if self.run is None else self.run.children
        return children is not None and children.halt is not None

    @property
    def is_joined(self) -> bool:
        """Whether the verdict of its branches is known."""
        children = None if self.run is None else self.run.children
        return children is not None and children.verdict is not None

    @property
    def is_in_children(self) -> bool:
        """Whether the run ends because of a child that ended in the same process."""
        if self.run is None or self.run.own_children is None:
            return False
        for record in reversed(self.log):
            if record["event"] in ("action_complete", "transition", "resume"):
                return False
            if record["event"] == "child_end":
                return True
        return False

    def counted_usd(self) -> float:
        return 0.0 if self.run is None else sum(each.cost_usd for each in self.run.costs.values())

    def limits(self) -> tuple[float | None, int | None]:
        run = self.run
        if run is None:
            return self.loop.max_cost_usd, self.loop.max_tokens
        tokens = run.limits.max_tokens
        return cost_allowed_usd(self.loop, run), self.loop.max_tokens if tokens is None else tokens

    # ── a process ──────────────────────────────────────────────────────────────────────────────

    def begin(self, happening: Happening, run: LoopState) -> None:
        """A process takes the run up."""
        self.tree.laws.process_begins(self)
        self.is_alive, self.stop, self.run = True, None, run
        self._was_killed = False
        self.ended.clear()
        self._working, self._gate = None, AgentAdmission(SpendingRules(), "/")
        self._is_admitted = False
        self.ledger.process_begins(resumed=bool(self.log))
        self._advance(happening)

    def start(self, limits: Limits = NO_LIMITS, **resumed: Any) -> None:
        at = Moment(self.tree.wall_ms, self.ran_ms)
        metered = bool(self.shares)
        if not self.log:
            run = new_run(
                self.loop,
                f"run-{self.path}",
                at,
                limits=limits,
                evidence="on" if self.loop.evidence.enabled else None,
                metered=metered,
            )
            self.begin(Started(at), run)
            return
        run = cast(LoopState, rebuilt(self.log, self.loop))
        self.run, self.ran_ms = run, run.ran_ms
        lost = self.tree.lost(run)
        if (spent := owed(self.loop, run, lost)) is not None:
            settle(self.shares, spent.cost_usd, spent.tokens)
        answered = answered_children(self)
        answer = self._answer(run) if run.children is None else None
        self.begin(
            Resumed(
                at,
                metered=metered,
                answer=answer,
                answered=answered,
                lost=lost,
                used=self.used_below(),
                limits=limits if self.parent is None else NO_LIMITS,
                **resumed,
            ),
            run,
        )

    def _answer(self, run: LoopState) -> Answer | None:
        gate = open_gate(run)
        if gate is None:
            return None
        return self.answers.setdefault(gate, Answer(gate, "approved", "resume"))

    def ask_to_stop(self, signal: int = 15) -> None:
        self.stop = signal
        self.tree.laws.asked_to_stop(self)

    def die(self) -> None:
        """The process is killed: what is left is the log."""
        self.is_alive, self._was_killed = False, True
        self.run = rebuilt(self.log, self.loop)
        self.ran_ms = 0 if self.run is None else self.run.ran_ms
        self._ended()

    def _ended(self) -> None:
        """The process has ended, one way or the other; its children lose their parent, its parent
        notices."""
        for each in self.kids.values():
            if each.is_alive:
                each.ask_to_stop()
        if self.parent is not None and self.parent.is_alive:
            self.parent.ended.append((self.path.rpartition("/")[2], self))

    def outcome(self) -> ChildOutcome:
        if self.run is None:
            return ChildOutcome(CRASHED, "crash")
        found = outcome_of_run(self.run, self.used_below())
        if self._is_silent(found.status):
            return found._replace(status=CRASHED, reason="crash", message="")
        return found

    def used_below(self) -> dict[str, Counted]:
        """What each child has used that has begun and not ended."""
        children = None if self.run is None else self.run.children
        if children is None:
            return {}
        found: dict[str, Counted] = {}
        for name, stage in zip(children.names, children.stages, strict=True):
            child = self.kids.get((children.step, children.attempt, name))
            if stage in (*ENDED, "waiting") or child is None or child.run is None:
                continue
            found[name] = used_in_all(child.run, child.used_below())
        return found

    # ── a turn ─────────────────────────────────────────────────────────────────────────────────

    @property
    def can_move(self) -> bool:
        """Whether the run does something at its turn; one that waits for children may not."""
        if not self.is_alive:
            return False
        if not isinstance(self._command, RunChildren):
            return True
        is_asked = self.stop is not None and not self._command.is_last
        return self._has_ended_child() or is_asked or self._is_out_of_time()

    def _has_ended_child(self) -> bool:
        """Whether a child has ended, and all below it: a runner ends what a killed one left."""
        if not self.ended:
            return False
        who = self.ended[0][1]
        return not isinstance(who, Run) or not any(each.is_alive for each in who.below())

    def _is_out_of_time(self) -> bool:
        return self._until_ms is not None and self.ran_ms >= self._until_ms

    def move(self) -> None:
        """Do one thing: what the last command asks for, and what follows."""
        try:
            happening = self._perform()
            if happening is not None:
                self._advance(happening)
        except Gone:
            return
        except (ContractBroken, RecursionError):
            raise
        except Exception as error:
            raise ContractBroken(7, f"a bug in {self.path}: {error!r}") from error

    def _advance(self, happening: Happening) -> None:
        assert self.run is not None
        step = advance(self.loop, self.run, happening)
        for entry in step.events:
            self.tree.boundary()
            if not self.is_alive:
                raise Gone
            record = to_record(entry)
            self.log.append(record)
            if record["event"] in FINAL:
                self.run = step.run
            self.tree.recorded(self, record)
            self.ledger.records([record])
        self.run = step.run
        self.ledger.command()
        self.tree.laws.command(self)
        self._command = step.command
        if isinstance(step.command, Finish):
            self.is_alive = False
            if self._gate is not None:
                self._gate.release()
            self.ledger.process_ends(spawns=False)
            self._ended()
        elif isinstance(step.command, RunChildren):
            self._run_children(step.command)

    # ── carrying out ───────────────────────────────────────────────────────────────────────────

    def now(self) -> Moment:
        return Moment(self.tree.wall_ms, self.ran_ms)

    def _perform(self) -> Happening | None:
        command, run = self._command, cast(LoopState, self.run)
        if isinstance(command, RunChildren):
            return self._next_of_children(command)
        is_ending = (
            isinstance(command, EndLeftovers) or getattr(command, "ending", None) is not None
        )
        is_enough = self.loop.maintain and run.step > 2 * self.nature.stops_after
        if self._working is None and not is_ending and (self.stop is not None or is_enough):
            return StopAsked(self.now(), self.stop or 15)
        if self._gate is not None and not isinstance(command, Admit | RunAgent | TreeCommand):
            self._gate.release()
            self._is_admitted = False
        match command:
            case Admit():
                return self._admit(run, command)
            case TakeSnapshot() | RestoreProtected() | PutBack():
                return self._look(command)
            case FindBranches() | GatherChildren():
                return self._look_at_children(command)
            case Judge():
                return Judged(self.now(), self._judge(run))
            case Wait():
                return self._wait(command)
            case EndLeftovers():
                return LeftoversEnded(self.now(), command.ending)
            case _:
                return self._act(run, command)

    def _admit(self, run: LoopState, command: Admit) -> Happening | None:
        assert self._gate is not None
        services = SimpleNamespace(shares=self.shares, environ={}, stop=None)
        world = SimpleNamespace(services=services, clock=SimpleNamespace(now=self.now))
        answer = self._gate.admit(cast(Any, world), run, command._replace(waits=False))
        # What others use from now on is not counted for it, even if it is asked for again.
        if isinstance(answer, Admitted) and not self._is_admitted:
            self._is_admitted = True
            self.tree.laws.agent_starts(self, self.above())
        return None if isinstance(answer, Queued) and command.waits else answer

    def _look(self, command: TakeSnapshot | RestoreProtected | PutBack) -> Happening:
        trees = self.tree.trees
        match command:
            case TakeSnapshot():
                return trees.last_look(self.now(), command)
            case RestoreProtected():
                paths, failed = trees.restore(command.reference, command.existing_only)
                return PathsRestored(self.now(), "protected", paths, failed, command.ending)
            case PutBack():
                paths = trees.put_back(command.project, command.reference)
                return PathsRestored(self.now(), "outside", paths, (), command.ending)

    def _judge(self, run: LoopState) -> Judgement:
        judged = sum(1 for each in self.log if each["event"] == "condition_eval")
        return Judgement(self.nature.verdict(run.step, judged, ("pass", "fail", "fail", "error")))

    def _wait(self, command: Wait) -> WaitOver:
        sleeper = _Sleeper(cast(Any, self.tree.clock_of(self)))
        from little_loops.system.waiting import wait_until

        wait_until(command, cast(Any, self.tree.clock_of(self)), cast(Any, sleeper))
        return WaitOver(self.now())

    def results(self, step: int) -> int:
        """How many results this step has had."""
        count = 0
        for record in reversed(self.log):
            if record["event"] == "action_complete":
                count += 1
            elif record["event"] == "state_enter" and record["step"] != step:
                break
        return count

    def _act(self, run: LoopState, command: Any) -> ActionEnded | None:
        is_agent = isinstance(command, RunAgent)
        if self._working is None:
            self._begin_action(run, command, is_agent=is_agent)
        working = cast(Working, self._working)
        self.tree.boundary(in_action=True)
        if not self.is_alive:
            raise Gone
        if self.stop is None:
            part_ms = min([working.left_ms, *self.tree.deadlines_above(self)])
            self.tree.pass_time(part_ms)
            self._working = working = working._replace(left_ms=working.left_ms - part_ms)
            if working.left_ms > 0:
                return None  # somebody above is out of time
        self._working = None
        return self._action_ended(run, command, working, is_agent=is_agent)

    def _begin_action(self, run: LoopState, command: Any, *, is_agent: bool) -> None:
        job = command.job
        turn = self.nature.turn(job.step, self.results(job.step), is_agent=is_agent)
        if is_agent:
            self.tree.actors["agents"] += 1
            above = () if self._is_admitted else self.above()
            self.tree.laws.agent_starts(self, (self, *above))
            self._is_admitted = False
        self.tree.laws.action_begins(self)
        takes_ms, cut_by = turn.takes_ms, None
        idle_ms = None if job.idle_s is None else round(job.idle_s * 1000)
        for limit_ms, why in ((idle_ms, "silence"), (job.deadline_ms, job.deadline_of)):
            if limit_ms is not None and takes_ms >= limit_ms:
                takes_ms, cut_by = limit_ms, why
        self.tree.trees.write(turn.writes)
        self._working = Working(turn, takes_ms, takes_ms, cut_by)

    def _action_ended(
        self, run: LoopState, command: Any, working: Working, *, is_agent: bool
    ) -> ActionEnded:
        ended = self._ended_action(working, is_agent=is_agent)
        if is_agent:
            self._settle(run, command, ended.result)
        return ended

    def _ended_action(self, working: Working, *, is_agent: bool) -> ActionEnded:
        turn, took_ms = working.turn, working.takes_ms - working.left_ms
        cut_by = "stop" if self.stop is not None else working.cut_by
        tokens, cost_usd = (turn.tokens, turn.cost_usd) if cut_by is None else (turn.tokens, None)
        if cut_by is not None:
            fields: dict[str, Any] = {"signal": 15, "cut_by": cut_by}
            if is_agent:
                fields |= {"agent": "error", "tokens": tokens}
            return ActionEnded(self.now(), Result(None, took_ms, **fields), stop=self.stop)
        if not is_agent:
            return ActionEnded(self.now(), Result(turn.exit_code, took_ms), turn.line)
        retry_at = None if turn.reset_ms is None else self.tree.wall_ms + turn.reset_ms
        result = Result(
            turn.exit_code,
            took_ms,
            agent=cast(Any, turn.agent),
            verdict={0: "pass", 1: "fail"}.get(turn.exit_code),
            tokens=tokens,
            cost_usd=cost_usd,
            retry_at_ms=retry_at,
        )
        return ActionEnded(self.now(), result, turn.line)

    def _settle(self, run: LoopState, command: Any, result: Result) -> None:
        """Count what the run will record, as `engine.metering` does: with estimates."""
        assert self._gate is not None
        spent = used(self.loop, run, result) or Spending(result.tokens)
        is_known = result.cost_usd is not None or spent.cost_usd > 0
        cost_usd = spent.cost_usd if is_known else None
        name = turn_id(run.run, command.job.step, command.job.attempt)
        turn = AgentTurn(name, self.tree.wall_ms, "/", run.loop, run.run, "claude")
        self._gate.settle(turn._replace(tokens=spent.tokens, cost_usd=cost_usd))

    # ── children ───────────────────────────────────────────────────────────────────────────────

    def _run_children(self, command: RunChildren) -> None:
        deadline = command.deadline_ms
        self._until_ms = None if deadline is None else self.ran_ms + deadline
        for name in command.stop:
            self._stop_child(command, name)
        if command.start:
            self._share_limits(command)
        for name in command.start:
            self._start_child(command, name)
            if not self.is_alive:  # killed meanwhile
                raise Gone

    def _share_limits(self, command: RunChildren) -> None:
        limit_usd, limit_tokens = self.limits()
        if limit_usd is None and limit_tokens is None:
            return
        used = cast(LoopState, self.run).costs.values()
        usd, tokens = sum(each.cost_usd for each in used), sum(each.tokens for each in used)
        limit = Limit(limit_usd, limit_tokens, usd, tokens, command.width)
        ended = [who for _, who in self.ended if isinstance(who, Run)]
        alive = [each for each in self.kids.values() if each.is_alive]
        under_way = [each.share_name for each in (*alive, *ended)]
        set_limit(self.folder, limit, under_way)

    def _start_child(self, command: RunChildren, name: str) -> None:
        key = (command.step, command.attempt, name)
        child = self.kids.get(key)
        state = self.loop.states[command.state]
        step = state if state.branches is None else branch_step(state, name, None)
        if child is None:
            assert step.loop is not None
            loop = without_evidence(step.loop) if shares_tree(state) else step.loop
            if loop.on_handoff == "spawn":
                loop = loop._replace(on_handoff="pause")
            place = f"{self.path}/{command.step}.{self.results(command.step)}/{name}"
            child = self.kids[key] = Run(self.tree, loop, self, place)
        is_resumed = name in command.resumed
        if child.log and not is_resumed and not is_under_way(cast(LoopState, child.run)):
            self.ended.append((name, child))
            return
        child.shares = tuple(
            each._replace(path=f"{each.path}/{child.share_name}") for each in self.shares
        )
        if self.limits() != (None, None):
            child.shares = (*child.shares, Share(self.folder, child.share_name))
        begin(child.shares)
        self.tree.actors["child continues" if child.log else "child starts"] += 1
        limits = step.limits or ChildLimits()
        times = [each for each in (limits.timeout, step.timeout) if each is not None]
        allowed = limits._replace(timeout=min(times, default=None))
        try:
            child.start(lowered(child.loop, allowed))
        except Gone:
            return

    @property
    def share_name(self) -> str:
        return "-".join(self.path.split("/")[-2:])

    def _stop_child(self, command: RunChildren, name: str) -> None:
        child = self.kids.get((command.step, command.attempt, name))
        if child is not None and child.is_alive:
            child.ask_to_stop()
        elif all(name != ended for ended, _ in self.ended):
            self.ended.append((name, ChildOutcome("interrupted", "signal")))

    def _next_of_children(self, command: RunChildren) -> Happening | None:
        if self.stop is not None and not command.is_last:
            return StopAsked(self.now(), self.stop)
        if self._has_ended_child():
            name, who = self.ended.popleft()
            return ChildEnded(self.now(), name, who.outcome() if isinstance(who, Run) else who)
        return ChildrenOutOfTime(self.now()) if self._is_out_of_time() else None

    def _look_at_children(self, command: FindBranches | GatherChildren) -> Happening:
        if isinstance(command, GatherChildren):
            return ActionEnded(self.now(), self._gather(command))
        branches = self.loop.states[command.state].branches
        assert branches is not None
        return BranchesFound(self.now(), branch_names(branches, ()))

    def _gather(self, command: GatherChildren) -> Result:
        verdict = command.judgement.verdict
        code = agent_exit_code("success", verdict)
        if command.children.several:
            stages = command.children.stages
            count = BranchCount(len(stages), stages.count("pass"))
            return Result(code, 0, verdict=verdict, branches=count)
        run = self.current_children()[0].run if self.current_children() else None
        if run is None:
            return Result(code, 0, verdict=verdict, reason=command.judgement.reason)
        child = ChildResult(run.status, run.reason or "", run.current_state, run.iteration, {})
        return Result(code, run.ran_ms, verdict=verdict, child=child)

    def time_left_ms(self) -> int | None:
        """How long the children of this run may still take."""
        if not isinstance(self._command, RunChildren) or self._until_ms is None:
            return None
        return max(0, self._until_ms - self.ran_ms)


def open_gates(run: Run) -> list[tuple[str, Run]]:
    """The runs below that wait at a gate, each with the child of `run` that it is in."""
    found: list[tuple[str, Run]] = []
    children = None if run.run is None else run.run.children
    if children is None:
        return found
    for each in run.current_children():
        if each.run is None:
            continue
        name = each.path.rpartition("/")[2]
        if each.run.children is not None:
            found += [(name, inner) for _, inner in open_gates(each)]
        elif is_gate(each.run.status, each.run.reason):
            found.append((name, each))
    return found


def answered_children(run: Run) -> tuple[str, ...]:
    gates = open_gates(run)
    ready = gates if len(gates) == 1 else [each for each in gates if each[1].answers]
    return tuple(dict.fromkeys(name for name, _ in ready))


class Clock:
    """The clock of one run."""

    def __init__(self, tree: Tree, run: Run) -> None:
        self._tree, self._run = tree, run

    def now(self) -> Moment:
        return self._run.now()

    @property
    def ran_ms(self) -> int:
        return self._run.ran_ms

    def _pass(self, ms: int) -> None:
        self._tree.pass_time(ms)


class Tree:
    """All runs of one history, and what happens to them."""

    def __init__(
        self,
        seed: int,
        folder: str,
        laws: Collection[int] = TREE_LAWS,
        *,
        is_calm: bool = False,
        is_wide: bool = False,
    ) -> None:
        self.seed = seed
        self.is_calm = is_calm
        self.is_wide = is_wide
        self.dice = random.Random(f"{seed}/tree")
        self.laws = TreeLaws(laws)
        self.wall_ms = START_MS
        self.actors: Counter[str] = Counter()
        self.trees = FakeTrees()
        self.events = 0
        self.processes = 0
        self._killed: set[str] = set()
        self._folder = folder
        self._folders = 0
        self._accidents: list[Accident] = []
        self._met = [0, 0]
        loop = tree_loop(random.Random(f"{seed}/loops"), is_calm=is_calm, is_wide=is_wide)
        self.root = Run(self, loop, None, "root")

    def nature_of(self, path: str) -> Nature:
        kind = CalmNature if self.is_calm else Nature
        return kind(cast(Any, f"{self.seed}/{path}"), 4 + self.seed % 9)

    def new_folder(self) -> str:
        self._folders += 1
        folder = os.path.join(self._folder, f"{self.seed}-{self._folders}")
        os.makedirs(folder, exist_ok=True)
        return folder

    def lost(self, run: LoopState) -> Result | None:
        """How far a turn came that was lost, if the runner finds out."""
        dice = random.Random(f"{self.seed}/{run.run}/{run.seq}")
        return LOST._replace(tokens=800) if dice.random() < 0.3 else None

    def clock_of(self, run: Run) -> Clock:
        return Clock(self, run)

    def runs(self) -> list[Run]:
        return [self.root, *self.root.below()]

    def pass_time(self, ms: int) -> None:
        self.wall_ms += ms
        for each in self.runs():
            each.ran_ms += ms if each.is_alive else 0

    def deadlines_above(self, run: Run) -> list[int]:
        return [left for each in run.above() if (left := each.time_left_ms()) is not None]

    def recorded(self, run: Run, record: Record) -> None:
        self.events += 1
        self.actors[record["event"]] += 1
        if record["event"] == "join":
            self.actors[f"join: {record['verdict']}"] += 1
        if record["event"] == "child_end":
            self.actors[f"child_end: {record['stage']}, {record['reason']}"] += 1
        if record["event"] in FINAL:
            who = "root" if run.parent is None else "child"
            self.actors[f"{who}: {record['status']}, {record['reason']}"] += 1
        self.laws.record(run, record)

    # ── accidents ──────────────────────────────────────────────────────────────────────────────

    def boundary(self, *, in_action: bool = False) -> None:
        """A moment at which something may happen to the tree."""
        self._met[in_action] += 1
        for each in list(self._accidents):
            if each.in_action == in_action and each.number == self._met[in_action]:
                self._accidents.remove(each)
                self._happen(each.kind)

    def _happen(self, kind: str) -> None:
        children = [each for each in self.runs() if each.is_alive and each.parent is not None]
        victims: list[Run] = []
        match kind:
            case "kill the root" | "stop the root":
                victims = [self.root]
            case "kill all":
                victims = [each for each in self.runs() if each.is_alive]
            case "kill a child" | "stop a child" if children:
                victims = [self.dice.choice(children)]
            case "kill the parent of a child" if children:
                victims = [cast(Run, self.dice.choice(children).parent)]
            case _:
                pass
        for each in victims:
            if each.is_alive:
                self.actors[kind] += 1
                each.ask_to_stop() if kind.startswith("stop") else self._kill(each, kind)

    def _kill(self, run: Run, kind: str) -> None:
        if self.is_calm and kind != "kill all" and run.parent is not None:
            if run.path in self._killed:  # a second crash is an error, by the rules
                return
            self._killed.add(run.path)
        run.die()

    # ── processes ──────────────────────────────────────────────────────────────────────────────

    def process(self, accidents: Sequence[Accident] = (), **resumed: Any) -> None:
        """Somebody starts or resumes the root; when it returns, no process is left."""
        self._accidents, self._met = list(accidents), [0, 0]
        with contextlib.suppress(Gone):
            self.root.start(**resumed)
        for _ in range(MOST_TURNS):
            movers = [each for each in self.runs() if each.can_move]
            if not movers:
                break
            self.dice.choice(movers).move()
        else:
            raise ContractBroken(7, "a tree that does not come to its end")
        stuck = [each.path for each in self.runs() if each.is_alive]
        if stuck:
            raise ContractBroken(7, f"{stuck} wait for ever")

    def can_go_on(self) -> bool:
        """Whether somebody would resume it; in a calm history nobody does after a failure."""
        run = self.root.run
        if not self.root.log or run is None:
            return True
        is_over = not_resumable(self.root.loop, run) is not None
        return not is_over and not (self.is_calm and run.status == "failed")

    def answer_gates(self) -> None:
        for _, run in open_gates(self.root):
            gate = None if run.run is None else open_gate(run.run)
            if self.is_calm and gate is not None:  # of several, a resume alone would answer none
                run.answers.setdefault(gate, Answer(gate, "approved", "approve"))
            elif gate is not None and self.dice.random() < 0.7:
                yes, no = Answer(gate, "approved", "approve"), Answer(gate, "rejected", "reject")
                answer = run.answers.setdefault(gate, self.dice.choice([yes, no]))
                self.actors[f"{answer.by} a child"] += 1


# ── histories ──────────────────────────────────────────────────────────────────────────────────


class TreeFigures(NamedTuple):
    """What came of a history, to be counted."""

    runs: int = 0
    processes: int = 0
    agents: int = 0
    events: int = 0
    kills: int = 0


def play_tree(
    seed: int,
    folder: str,
    laws: Collection[int] = TREE_LAWS,
    *,
    actors: Counter[str] | None = None,
    is_wide: bool = False,
) -> TreeFigures:
    """A history with anything in it; every third is calm, and compared with itself undisturbed."""
    is_calm = seed % 3 == 0
    disturbed = Tree(seed, folder, laws, is_calm=is_calm, is_wide=is_wide)
    tree = _played(disturbed, KILLS if is_calm else ACCIDENTS)
    if is_calm:
        alone = _played(Tree(seed, folder, laws, is_calm=True, is_wide=is_wide), ())
        is_unfinished = alone.can_go_on() or tree.can_go_on()  # too many gates
        if not is_unfinished:
            same_way(tree.laws, story(alone.root), story(tree.root))
    if actors is not None:
        actors.update(tree.actors)
    kills = sum(tree.actors[kind] for kind in KILLS)
    return TreeFigures(len(tree.runs()), tree.processes, tree.actors["agents"], tree.events, kills)


def _played(tree: Tree, kinds: Sequence[str]) -> Tree:
    dice = random.Random(f"{tree.seed}/people")
    most = MOST_PROCESSES if kinds else 4 * MOST_PROCESSES
    while tree.processes < most and tree.can_go_on():
        accidents = [_drawn(dice, kinds) for _ in range(dice.randrange(3))] if kinds else []
        flags: dict[str, Any] = {}
        if tree.root.log and (tree.is_wide or not tree.is_calm):
            tree.answer_gates()
        if not tree.is_calm and tree.root.log:
            flags = _flags(tree, dice)
        tree.processes += 1
        tree.process(accidents, **flags)
    if tree.is_calm and kinds:
        while tree.can_go_on() and tree.processes < 4 * MOST_PROCESSES:
            if tree.is_wide:
                tree.answer_gates()
            tree.processes += 1
            tree.process()
    return tree


def _drawn(dice: random.Random, kinds: Sequence[str]) -> Accident:
    in_action = dice.random() < 0.3
    number = dice.randint(1, 8) if in_action else dice.randint(1, 70)
    return Accident(dice.choice(kinds), number, in_action)


def _flags(tree: Tree, dice: random.Random) -> dict[str, Any]:
    """What a person may type behind `resume`."""
    flags: dict[str, Any] = {}
    run = tree.root.run
    if dice.random() < 0.1:
        flags["from_state"] = dice.choice(sorted(tree.root.loop.states))
    if dice.random() < 0.4 and run is not None:
        flags["limits"] = Limits(
            max_iterations=dice.choice([None, run.iteration + 3]),
            timeout=dice.choice([None, run.ran_ms / 1000 + 20]),
            max_cost_usd=dice.choice([None, 2.0, 20.0]),
        )
    return flags


def story(run: Run) -> list[Any]:
    """What a run has done that counts: its results, those of its children, and its path. Branches
    end in any order."""
    told: list[Any] = []
    ends: list[Any] = []
    kids = {key: each for key, each in run.kids.items() if each.log}
    step = attempt = 0
    for record in run.log:
        match record["event"]:
            case "children":
                step, attempt = record["step"], record["attempt"]
            case "child_end" if record["stage"] in ("pass", "fail", "error", "timeout"):
                child = kids.get((step, attempt, record["child"]))
                inner = [] if child is None else story(child)
                ends.append((record["child"], record["stage"], record["reason"], inner))
            case "action_complete":
                told += sorted(ends, key=lambda end: str(end[0]))
                ends = []
                told.append((record["state"], record["exit_code"]))
            case "transition":
                told.append(f"{record['from']} -> {record['to']}")
            case name if name in FINAL and record["reason"] not in ("signal", "review"):
                told.append((record["status"], record["reason"]))
            case _:
                pass
    return told + ends
