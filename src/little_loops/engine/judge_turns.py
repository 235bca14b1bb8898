"""Ask a judge: an agent that gets the change as data and may only read.

With evidence, the files are recorded before and after its turn. If they differ, they are put back,
and it has not judged.

Not here: when it is asked and what its answer leads to (`fsm.judges`).
"""

from __future__ import annotations

import os

from little_loops.engine.agent_actions import run_agent
from little_loops.engine.metering import recorded
from little_loops.engine.resolve import Filled, fill
from little_loops.engine.run_trees import SNAPSHOT_S
from little_loops.errors import LittleLoopsError
from little_loops.fsm.commands import AskJudge, RunAgent
from little_loops.fsm.happenings import Happening, JudgeAnswered
from little_loops.fsm.judges import question_text, ruling_on
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import DIFF, ERROR, OUTPUT, PASS
from little_loops.fsm.state import Judgement, LoopState, Result
from little_loops.hosts.base import host_named
from little_loops.hosts.verdicts import last_line_verdict
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.system.plain_files import read_plain
from little_loops.templates.render import data_for_agent
from little_loops.trees.git import Interrupted

if TYPE_CHECKING:
    from little_loops.engine.local_world import LocalWorld

MOST_CHARS = 400_000
"""What a judge sees of one diff, output or file; a longer one is cut, and says so."""
NOT_ASKED = Result(None, 0)


class CannotShow(Exception):
    """Something that the judge is to see is missing."""


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
        if any(text for _, text in shown):
            answer = _asked(world, run, command, shown)
        else:
            answer = answer._replace(judgement=Judgement(PASS, "there is nothing to judge"))
        restored, failed = _put_back(world, command, before)
        if restored or failed:
            answer = _of_changed_files(answer, restored, failed)
    except (CannotShow, LittleLoopsError, Interrupted) as problem:
        why = problem.message if isinstance(problem, LittleLoopsError) else str(problem)
        answer = answer._replace(judgement=Judgement(ERROR, why or "the snapshot was cut"))
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


# ── what it sees ───────────────────────────────────────────────────────────────────────────────


def _project(world: LocalWorld, command: AskJudge) -> str | None:
    """Return the id of the project's files now; None without evidence."""
    if command.since is None:
        return None
    trees = world.trees
    trees.store.git = trees.store.git.bounded(SNAPSHOT_S)._replace(stop=None, urgent=None)
    return trees.store.snapshot(trees.rules, command.reference).project


def _shown(
    world: LocalWorld, run: LoopState, command: AskJudge, project: str | None
) -> list[tuple[str, str]]:
    """Return what the judge sees, each with its name. Raises `CannotShow`."""
    return [(name, _cut(_text(world, run, command, project, name))) for name in command.judge.sees]


def _text(
    world: LocalWorld, run: LoopState, command: AskJudge, project: str | None, name: str
) -> str:
    if name == DIFF:
        if project is None or command.since is None:
            raise CannotShow("there is no diff: the run keeps no evidence")
        return world.trees.store.diff(command.since, project).decode("utf-8", "replace")
    if name == OUTPUT:
        return _output(world, run)
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


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}\n(the rest is left out)\n"


# ── its turn ───────────────────────────────────────────────────────────────────────────────────


def _asked(
    world: LocalWorld, run: LoopState, command: AskJudge, shown: list[tuple[str, str]]
) -> JudgeReply:
    """Run the turn of the judge, and read its answer."""
    host = host_named(command.host.host).read_only(command.host)
    if host is None:
        return JudgeReply(Judgement(ERROR, f"`{command.host.host}` cannot only read"), NOT_ASKED)
    turn = RunAgent(
        command.job, "", False, host, command.session_id, cost_left_usd=command.cost_left_usd
    )
    filled = fill(turn, world.values(run))
    if not isinstance(filled, Filled):
        return JudgeReply(Judgement(ERROR, filled), NOT_ASKED)
    safe = [(name, data_for_agent(text)) for name, text in shown]
    text = question_text(command.judge, safe)
    acted = recorded(world, run_agent, world.workplace, run, turn, filled._replace(text=text))
    result, stop = acted.result, world.ended(acted).stop
    if result.agent != "success":
        why = result.failure or result.reason or result.kind or "it ended without an answer"
        return JudgeReply(Judgement(ERROR, why), result, (), acted.warnings, stop)
    said = result.output
    if said is None and result.output_file is not None:
        said = world.values(run).read(result.output_file)
    lines = {line for _, text in (*shown, *safe) for line in text.splitlines()}
    judgement, quotes = ruling_on(last_line_verdict(said or ""), said or "", lines)
    return JudgeReply(judgement, result, quotes, acted.warnings, stop)


def _put_back(
    world: LocalWorld, command: AskJudge, before: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Restore what changed during the turn. Return the paths, and those that could not be."""
    after = _project(world, command)
    if before is None or after is None or before == after:
        return (), ()
    trees = world.trees
    paths = tuple(
        path for path in trees.store.changed_paths(before, after) if not trees.is_anothers(path)
    )
    if not paths:
        return (), ()
    done = trees.store.put_back(trees.rules, before, paths)
    return done.paths, done.failed
