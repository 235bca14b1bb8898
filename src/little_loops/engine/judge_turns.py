"""Ask a judge: an agent that gets the change as data and may only read. Collect the answer of one
that has outlived its runner.

With evidence, the files are recorded before and after its turn. If they differ, they are put back,
and it has not judged. After a kill they stay as they are, because the user may have changed them.

Not here: when it is asked and what its answer leads to (`fsm.judges`), where it is kept
(`kept_judges`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from signal import SIGKILL

from little_loops.engine.action_process import Workplace
from little_loops.engine.agent_actions import run_agent
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.kept_judges import CollectedProgram, KeptProgram
from little_loops.engine.metering import record_lost_turn, recorded
from little_loops.engine.resolve import Filled, fill
from little_loops.engine.run_trees import SNAPSHOT_S
from little_loops.errors import LittleLoopsError
from little_loops.fsm.commands import AskJudge, CollectJudge, RunAgent
from little_loops.fsm.happenings import Happening, JudgeAnswered, NothingCollected
from little_loops.fsm.judged_texts import MOST_CHARS, JudgedText, of_diff, of_text
from little_loops.fsm.judges import question_text, ruling_on
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import DIFF, ERROR, OUTPUT, PASS
from little_loops.fsm.spending import LOST
from little_loops.fsm.state import Judgement, LoopState, Result
from little_loops.hosts.base import host_named
from little_loops.hosts.verdicts import last_line_verdict
from little_loops.light_typing import TYPE_CHECKING, Any, Self
from little_loops.records import NamedTuple
from little_loops.system import kept, process
from little_loops.system.files import Folder
from little_loops.system.plain_files import read_plain
from little_loops.templates.render import data_for_agent
from little_loops.trees.git import Interrupted

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

Act = Callable[[Workplace, LoopState, RunAgent, Filled], ActionOutcome]
NOT_ASKED = Result(None, 0)
UNSEEN = process.Ended(None, SIGKILL, "stop", 0, 0)
"""How a judge ended if nobody saw it end."""
KILLED = "its runner was killed before it was started"
ENDED = "it was ended before it had answered, and it is asked only once"
ELSEWHERE = "its answer is not on this computer, and it is asked only once"
OTHER_QUESTION = "the question has changed since it was asked"
CHANGED = "files changed before its answer was recorded"


class CannotShow(Exception):
    """Something that the judge is to see is missing."""


class JudgeBrief(NamedTuple):
    """What a judge was asked and shown, each text with its name, and the id of the project's files
    then; `cut` names what it saw only in part."""

    question: str
    project: str | None
    texts: Sequence[tuple[str, str]]
    cut: Sequence[str]

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        texts = [(name, text) for name, text in plain["texts"]]
        return cls(plain["question"], plain["project"], texts, plain["cut"])


class JudgeReply(NamedTuple):
    """What a judge has answered, before the files are compared."""

    judgement: Judgement
    result: Result
    quotes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stop: int | None = None


def ask_judge(world: LocalWorld, run: LoopState, command: AskJudge) -> Happening:
    """Ask the judge, and return its answer; one that could not be asked or understood is an
    error."""
    answer = JudgeReply(Judgement(ERROR, ""), NOT_ASKED)
    restored: tuple[str, ...] = ()
    try:
        before = _project(world, command)
        shown = _shown(world, run, command, before)
        if any(text for _, text in shown.texts):
            answer = _asked(world, run, command, shown)
        else:
            answer = answer._replace(judgement=Judgement(PASS, "there is nothing to judge"))
        restored, failed = _put_back(world, command, before)
        if restored or failed:
            answer = _of_changed_files(answer, restored, failed)
    except (CannotShow, LittleLoopsError, Interrupted) as problem:
        answer = answer._replace(judgement=_problem(problem))
    return _answered(world, answer, restored)


def _problem(problem: Exception) -> Judgement:
    why = problem.message if isinstance(problem, LittleLoopsError) else str(problem)
    return Judgement(ERROR, why or "the snapshot was cut short")


def _answered(
    world: LocalWorld, answer: JudgeReply, restored: tuple[str, ...] = ()
) -> JudgeAnswered:
    return JudgeAnswered(
        world.clock.now(),
        answer.judgement,
        answer.result,
        answer.quotes,
        restored,
        answer.warnings,
        answer.stop,
    )


def _of_changed_files(
    answer: JudgeReply, restored: tuple[str, ...], failed: tuple[str, ...]
) -> JudgeReply:
    """Return the answer of a judge during whose turn files changed: an error."""
    paths = listed_paths((*restored, *failed), len(restored) + len(failed))
    warnings = (*answer.warnings, *(f"not restored: {path}" for path in failed))
    judgement = Judgement(ERROR, f"files changed while it was working: {paths}")
    return answer._replace(judgement=judgement, warnings=warnings)


# ── collecting its answer ──────────────────────────────────────────────────────────────────────


def collect_judge(world: LocalWorld, run: LoopState, command: CollectJudge) -> Happening:
    """Return the answer to a question of a killed runner, when its judge has ended; or that there
    is none that counts. A stop ends the judge."""
    assert world.judges is not None, "a loop that asks a judge has one"
    place = world.judges.of(run.run, command.question.job)
    if place is None:
        return NothingCollected(world.clock.now(), "unanswered", ELSEWHERE, LOST)
    with place:
        world.onlookers.doing("Waiting for the judge that was asked before the run was killed")
        has_ended = kept.wait(place, world.services.stop, world.onlookers.tick)
        # What it has left running; after a stop, itself.
        world.judges.end(run.run, command.question.job, world.services.stop)
        turn = kept.turn_in(place)
        if turn is None or not kept.was_started(place):
            nothing = NothingCollected(world.clock.now(), "not_started", KILLED)
            return world.stop_asked() or nothing
        return _collected(world, run, command.question, place, turn, has_ended=has_ended)


def _collected(
    world: LocalWorld,
    run: LoopState,
    question: AskJudge,
    place: Folder,
    turn: kept.Turn,
    *,
    has_ended: bool,
) -> Happening:
    """Return the answer that a judge has left, and record what it cost. It counts if somebody saw
    the judge end, nobody else has stopped it, and the files are as they were."""
    ended, shown = kept.end_of(place) or UNSEEN, JudgeBrief.from_json(turn.about)
    program = CollectedProgram(place, ended)
    answer = _turn(world, run, question, shown, partial(run_agent, run_program=program.run))
    root = world.own_request().root
    record_lost_turn(world.loop, run, root, answer.result, world.services.environ)
    at = world.clock.now()
    if has_ended and ended.cut_by == "stop":
        return NothingCollected(at, "unanswered", ENDED, answer.result)
    if shown.question != question.judge.question:
        return NothingCollected(at, "lost", OTHER_QUESTION, answer.result)
    try:
        changed = _changed(world, shown.project, _project(world, question))
    except (LittleLoopsError, Interrupted) as problem:
        return _answered(world, answer._replace(judgement=_problem(problem)))
    if changed:
        why = f"{CHANGED}: {listed_paths(changed, len(changed))}"
        return NothingCollected(at, "lost", why, answer.result)
    return _answered(world, answer)


# ── what it sees ───────────────────────────────────────────────────────────────────────────────


def _project(world: LocalWorld, command: AskJudge) -> str | None:
    """Return the id of the project's files now; None without evidence."""
    if command.since is None:
        return None
    trees = world.trees
    trees.store.git = trees.store.git.bounded(SNAPSHOT_S)._replace(stop=None, urgent=None)
    return trees.store.snapshot(trees.rules, command.reference).project


def _shown(world: LocalWorld, run: LoopState, command: AskJudge, project: str | None) -> JudgeBrief:
    """Return what the judge is asked and shown. Raises `CannotShow`."""
    found = [
        (name, _diff(world, command, project) if name == DIFF else _of_text(world, run, name))
        for name in command.judge.sees
    ]
    texts = [(name, judged.text) for name, judged in found]
    cut = [path for _, judged in found for path in judged.cut]
    return JudgeBrief(command.judge.question, project, texts, cut)


def _diff(world: LocalWorld, command: AskJudge, project: str | None) -> JudgedText:
    if project is None or command.since is None:
        raise CannotShow("there is no diff: the run keeps no evidence")
    diff = world.trees.store.diff(command.since, project).decode("utf-8", "replace")
    judged = of_diff(diff)
    if judged is None:
        raise CannotShow("too many files have changed to show them to a judge")
    return judged


def _of_text(world: LocalWorld, run: LoopState, name: str) -> JudgedText:
    return of_text(name, _output(world, run) if name == OUTPUT else _file(world, name))


def _file(world: LocalWorld, name: str) -> str:
    place = os.path.realpath(os.path.join(world.workplace.project, name))
    root = os.path.realpath(world.workplace.project)
    if os.path.commonpath([place, root]) != root:
        raise CannotShow(f"`{name}` is not inside the project")
    try:
        return read_plain(place, 4 * MOST_CHARS).decode("utf-8", "replace")
    except OSError as error:
        raise CannotShow(f"cannot read `{name}`: {error.strerror or error}") from error


def _output(world: LocalWorld, run: LoopState) -> str:
    result = run.captured[run.current_state]
    if result.output is not None:
        return result.output
    return "" if result.output_file is None else world.values(run).read(result.output_file)


# ── its turn ───────────────────────────────────────────────────────────────────────────────────


def _asked(world: LocalWorld, run: LoopState, command: AskJudge, shown: JudgeBrief) -> JudgeReply:
    """Start the judge in the place that was made for it, and return its answer."""
    assert world.judges is not None, "a loop that asks a judge has one"
    place = world.judges.of(run.run, command.job)
    if place is None:
        return JudgeReply(Judgement(ERROR, "its files were removed"), NOT_ASKED)
    with place:
        act = partial(run_agent, run_program=KeptProgram(place, shown._asdict()).run)
        return _turn(world, run, command, shown, partial(recorded, world, act))


def _turn(
    world: LocalWorld, run: LoopState, command: AskJudge, shown: JudgeBrief, act: Act
) -> JudgeReply:
    """Let `act` carry out the turn of the judge, and read its answer."""
    host = host_named(command.host.host).read_only(command.host)
    if host is None:
        return JudgeReply(Judgement(ERROR, f"`{command.host.host}` cannot only read"), NOT_ASKED)
    turn = RunAgent(
        command.job, "", False, host, command.session_id, cost_left_usd=command.cost_left_usd
    )
    filled = fill(turn, world.values(run))
    if not isinstance(filled, Filled):
        return JudgeReply(Judgement(ERROR, filled), NOT_ASKED)
    safe = [(name, data_for_agent(text)) for name, text in shown.texts]
    text = question_text(command.judge, safe)
    acted = act(world.workplace, run, turn, filled._replace(text=text))
    warnings = acted.warnings
    if shown.cut:
        only = f"the judge saw only a part of {listed_paths(shown.cut, len(shown.cut))}"
        warnings = (*warnings, only)
    result, stop = acted.result, world.ended(acted).stop
    if result.agent != "success":
        why = result.failure or result.reason or result.kind or "it ended without an answer"
        return JudgeReply(Judgement(ERROR, why), result, (), warnings, stop)
    said = result.output
    if said is None and result.output_file is not None:
        said = world.values(run).read(result.output_file)
    lines = {line for _, text in (*shown.texts, *safe) for line in text.splitlines()}
    judgement, quotes = ruling_on(last_line_verdict(said or ""), said or "", lines)
    return JudgeReply(judgement, result, quotes, warnings, stop)


def _put_back(
    world: LocalWorld, command: AskJudge, before: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Restore what changed during the turn. Return the paths, and those that could not be."""
    paths = _changed(world, before, _project(world, command))
    if before is None or not paths:
        return (), ()
    done = world.trees.store.put_back(world.trees.rules, before, paths)
    return done.paths, done.failed


def _changed(world: LocalWorld, before: str | None, after: str | None) -> tuple[str, ...]:
    """Return the paths that differ, without those of runs beside this one."""
    if before is None or after is None or before == after:
        return ()
    trees = world.trees
    found = trees.store.changed_paths(before, after)
    return tuple(path for path in found if not trees.is_anothers(path))
