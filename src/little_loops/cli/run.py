"""`ll-loop run`: run a loop, here or in the background, or print what it would do.

At a terminal it first offers to resume an unfinished run of the same name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.foreground import Show, carry_out
from little_loops.cli.options import (
    WatchArgs,
    dollars,
    flag,
    operand,
    positive,
    seconds,
    value,
)
from little_loops.definitions.loading import LoopFile, context_overrides, load_loop, with_host
from little_loops.engine.lifecycle import RunRequest, start, unfinished
from little_loops.errors import UsageError
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.schema import HOST_NAMES, FSMLoop, Worktree, keeper_of
from little_loops.fsm.state import UNFINISHED, Limits
from little_loops.light_typing import Any, Literal
from little_loops.runs.project import find_project, run_name
from little_loops.runs.stored_run import current
from little_loops.terminal.console import can_ask

EXAMPLES = (
    ("ll-loop run fix-types", "run .loops/fix-types.yaml"),
    ("ll-loop run fix-types --dry-run", "show what it would do"),
    ("ll-loop run fix-types --background", "return at once"),
    ("ll-loop run fix-types --queue", "wait for conflicting runs to finish"),
    ("ll-loop run fix-types --worktree --merge", "work elsewhere, then merge"),
    ("ll-loop run fix-types --max-cost 5", "spend at most 5 dollars"),
)


class RunArgs(
    WatchArgs,
    verb="run",
    summary="Run a loop until it ends, is stopped or needs you.",
    examples=EXAMPLES,
):
    loop: str = operand("a loop's name or file")
    background: bool = flag("run in the background")
    dry_run: bool = flag("run nothing; show what would happen")
    queue: bool = flag("wait for conflicting runs to finish")
    fresh: bool = flag("move an unfinished run to the history and start again")
    max_iterations: int | None = value(
        "maximum number of iterations", convert=positive, metavar="N"
    )
    no_loop: bool = flag("the same as --max-iterations 1")
    timeout: float | None = value(
        "maximum running time: 90s, 10m, 2h", convert=seconds, metavar="TIME"
    )
    max_cost: float | None = value(
        "maximum cost of its agents, in US dollars", convert=dollars, metavar="USD"
    )
    max_tokens: int | None = value(
        "maximum number of tokens its agents may use", convert=positive, metavar="N"
    )
    host: str | None = value(
        "the agent program for states that do not name one",
        choices=tuple(name for name in HOST_NAMES if name != "command"),
    )
    model: str | None = value("the model for that agent", metavar="NAME")
    context: Sequence[str] = value("set a context value", metavar="K=V", many=True, default=())
    scope: Sequence[str] | None = value(
        "the paths it works on, instead of the loop's `scope`", metavar="PATH", many=True
    )
    id: str | None = value("name the run NAME@ID, to run a loop more than once", metavar="ID")
    worktree: bool = flag("work in a new git worktree, and leave your files alone")
    merge: bool = flag("with a worktree: merge its work when the run has completed")
    no_evidence: bool = flag("do not record evidence")
    allow_skip_permissions: bool = flag(
        "let agents skip permission prompts; see `ll-loop trust --help`"
    )
    fleet: str | None = FLEET
    local: bool = LOCAL
    repo: str | None = value("on a fleet: the repository; default: `origin`", metavar="URL")
    ref: str | None = value(
        "on a fleet: the branch or commit to start from; default: the commit here", metavar="REF"
    )


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop run`. Return the run's exit code; 0 for a dry run or a background run."""
    args = RunArgs.read(argv)
    root = find_project(os.getcwd())
    found = load_loop(args.loop, root, evidence=not args.no_evidence)
    found = with_host(found, _host_given(args), root)
    found = found._replace(loop=_in_worktree(args, found.loop))
    if args.no_evidence and keeper_of(found.loop) is not None:
        raise UsageError(
            f"`{found.loop.name}` has `keep: best`, which needs evidence",
            "run it without `--no-evidence`",
        )
    if args.dry_run:
        from little_loops.cli.dry_run import dry_run  # rarely asked for

        return dry_run(found, args, root)
    name = run_name(found.loop.name, args.id)
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import start_run  # few users have a fleet

        return start_run(args, root, address, found, name)
    wanted = "fresh" if args.fresh else _menu_choice(root, name)
    if wanted == "resume":
        return _resume(args, name)
    args.fresh = wanted == "fresh"
    if found.warnings and not args.quiet and not args.json:
        from little_loops.cli.run_warnings import show_warnings  # most loops have none

        show_warnings(found.warnings, args.loop)
    request = request_of(args, root, found)
    return begin(args, root, found, request)


def _in_worktree(args: RunArgs, loop: FSMLoop) -> FSMLoop:
    """Return the loop with the worktree that `--worktree` and `--merge` ask for. Raises `UsageError`
    for `--merge` without a worktree."""
    worktree = loop.worktree or (Worktree() if args.worktree else None)
    if not args.merge:
        return loop._replace(worktree=worktree)
    if worktree is None:
        raise UsageError("`--merge` needs a worktree", "add `--worktree`")
    merge = worktree.merge if worktree.merge not in (None, "none") else "merge"
    return loop._replace(worktree=worktree._replace(merge=merge))


def begin(args: RunArgs, root: str, found: LoopFile, request: RunRequest) -> int:
    """Print warnings about the checks, and start the run, here or in the background.

    Return the exit code.
    """
    if found.loop.evidence.protect and request.evidence and not args.quiet:
        _warn_of_unmatched(found.loop, root)
    if not args.quiet and _runs_python_tests(found.loop):
        _warn_of_installed_copy(found.loop, root)
    show = Show(args.json, args.quiet, args.verbose, args.color)
    if args.background:
        from little_loops.cli.background_start import start_in_background  # rarely asked for

        return start_in_background("start", found.loop, request, show)
    limit = request.limits.max_iterations or found.loop.max_iterations
    return carry_out(
        found.loop,
        request.name,
        show,
        lambda services: start(found.loop, request, services),
        limit=limit,
    )


def request_of(args: RunArgs, root: str, found: LoopFile) -> RunRequest:
    """Return the request for the run; raise `UsageError` if a needed consent is not given."""
    context = context_overrides(args.context, found.loop, found.definition.places)
    return RunRequest(
        root=root,
        name=run_name(found.loop.name, args.id),
        context=context,
        limits=Limits(
            most_iterations(args, found.loop),
            args.timeout,
            max_cost_usd=args.max_cost,
            max_tokens=args.max_tokens,
        ),
        scope=_scope(args.scope),
        queue=args.queue,
        fresh=args.fresh,
        evidence=not args.no_evidence,
        skip_permissions=_skip_permissions(args, root, found, context),
        host=_host_given(args),
        file=found.path_in(root),
    )


def _skip_permissions(
    args: RunArgs, root: str, found: LoopFile, context: Mapping[str, Any]
) -> bool:
    """Return whether agents skip permission prompts; raise `UsageError` without the consent for
    it, or if an agent program is missing."""
    if not has_agent(found.loop._replace(context={**found.loop.context, **context})):
        return False
    from little_loops.cli.consent import skip_permissions  # loops without agents need no consent

    allowed = args.allow_skip_permissions
    return skip_permissions(found.loop, context, root, allowed=allowed, has_file=bool(found.path))


def _host_given(args: RunArgs) -> dict[str, str]:
    given = {"name": args.host, "model": args.model}
    return {name: text for name, text in given.items() if text is not None}


def _warn_of_unmatched(loop: FSMLoop, root: str) -> None:
    """Warn about patterns of `protect` that match nothing."""
    from little_loops.definitions.evidence_plan import unmatched  # few loops protect by name
    from little_loops.terminal.console import talk

    for pattern in unmatched(root, loop.evidence.protect or ()):
        talk(f"warning: `{pattern}` in `protect` matches nothing in this project")


def _runs_python_tests(loop: FSMLoop) -> bool:
    return any(" -m " in (state.action or "") for state in loop.states.values())


def _warn_of_installed_copy(loop: FSMLoop, root: str) -> None:
    """Warn if the tests import an installed copy of the project: no fix would be noticed."""
    from little_loops.cli.setup.python_sources import copy_tested_by, editable, imports_copy
    from little_loops.terminal.console import talk

    copy = copy_tested_by(loop, root, os.environ)
    if copy is not None:
        talk(f"warning: {imports_copy(copy)}, so they would not see a fix")
        talk(f"   = help: `{editable(copy)}` changes that")


def _scope(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the paths of `--scope`; raise `UsageError` for empty ones and globs."""
    for path in paths or ():
        if not path or any(sign in path for sign in "*?["):
            raise UsageError(f"`--scope {path}` is empty or has glob characters")
    return tuple(paths) if paths else None


def most_iterations(args: RunArgs, loop: FSMLoop) -> int | None:
    """Return the limit given by `--max-iterations` or `--no-loop`; for a relay, also by
    MAX_ITERATIONS."""
    if loop.paradigm != "relay":
        return args.max_iterations or (1 if args.no_loop else None)
    from little_loops.relay.rules import turn_limit  # only relays count turns

    return turn_limit(args.max_iterations, args.no_loop, os.environ)


def _menu_choice(root: str, name: str) -> Literal["", "resume", "fresh"]:
    """Ask what to do with an unfinished run of this name; "" if there is none or nobody to ask."""
    if not can_ask():
        return ""
    from little_loops.runs.reading import Runs  # only to ask

    if Runs(root).is_alive(name) == "running":
        return ""
    before = current(root, name)
    if before is None or before.run.status not in UNFINISHED:
        return ""
    return ask_to_resume(unfinished(name, before.run))


def ask_to_resume(problem: UsageError) -> Literal["resume", "fresh"]:
    """Ask what to do with an unfinished run; raise `UsageError` if the answer is no."""
    from little_loops.terminal.console import talk  # only to ask

    talk(problem.message)
    sys.stderr.write("Resume it? [Y/n/fresh] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    match line.strip().lower():
        case "y" | "yes":
            return "resume"
        case "" if line:  # Enter alone; the end of the input is no answer
            return "resume"
        case "f" | "fresh":
            return "fresh"
        case _:
            raise UsageError("nothing was run", problem.help)


def _resume(args: RunArgs, name: str) -> int:
    """Continue the unfinished run with the same options; raise `UsageError` for those it cannot
    change."""
    fixed = ("host", "model", "scope", "worktree", "merge")
    kept = [word for word in fixed if getattr(args, word)]
    if kept:
        listed = ", ".join(f"--{word}" for word in kept)
        raise UsageError(
            f"a resumed run keeps its agent, scope and worktree; you passed {listed}",
            f"leave them out, or start again with `ll-loop run {name} --fresh`",
        )
    return resume_with(args, name)


def resume_with(args: WatchArgs, name: str) -> int:
    """Continue a run with the options that `resume` has in common with this verb."""
    from little_loops.cli.resume import ResumeArgs, continue_run  # rarely asked for

    same = {word: getattr(args, word) for word in ResumeArgs.table if hasattr(args, word)}
    return continue_run(ResumeArgs(**{**same, "loop": name}))
