"""`ll-loop until CHECK --fix TEXT`: a goal loop without a file.

The command line becomes the short form of a goal, which is checked, configured, consented to and run
like one from a file.  The run keeps its machine; there is no file that could change it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.authoring.until import (
    SHELL,
    UntilCommand,
    UntilLimits,
    bound,
    document,
    proposal,
    run_name_of,
    same_command,
)
from little_loops.cli.options import WatchArgs, dollars, flag, operand, positive, seconds, value
from little_loops.cli.run import RunArgs, ask_to_resume, begin, request_of, resume_with
from little_loops.cli.run_warnings import show_warnings
from little_loops.cli.until_words import with_one_check
from little_loops.definitions.loading import LoopFile, load_document, load_loop, with_host
from little_loops.definitions.settings import names_set
from little_loops.engine.lifecycle import unfinished
from little_loops.errors import UsageError
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.schema import HOST_NAMES
from little_loops.fsm.state import UNFINISHED
from little_loops.hosts.base import host_named
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project, is_loop_name
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import StoredRun, current
from little_loops.terminal.console import can_ask, say, talk

EXAMPLES = (
    ("ll-loop until 'pytest -q' --fix 'Fix the code, not the tests.'", ""),
    ("ll-loop until 'make test' --fix 'Fix it.' --protect tests/", ""),
    ("ll-loop until 'ruff check' --fix '$ ruff check --fix'", ""),
    ("ll-loop until 'npm test' --fix 'Fix it.' --save fix-tests", ""),
)
DEFAULTS = UntilLimits(10, 7200, 5)
FAILS = tuple(range(1, 126))
FIX_HELP = "`--fix 'Fix the code.'` is a prompt for an agent; `--fix '$ CMD'` is a shell command"
AGENTS = tuple(name for name in HOST_NAMES if name != "command")


class UntilArgs(
    WatchArgs,
    verb="until",
    summary="Run a check; while it fails, run the fix and check again. Needs no loop file.\n"
    "Without --fix, `ll-loop` proposes an agent and a prompt for you to confirm.",
    examples=EXAMPLES,
):
    check: str = operand(
        "the check command, in quotes, or at the end after `--`; exit codes 1 to 125 are failures"
    )
    fix: str | None = value(
        "a prompt for an agent, a slash command, or `$ CMD` for a shell command", metavar="TEXT"
    )
    host: str | None = value("the agent program; default: claude", choices=AGENTS)
    model: str | None = value("the model for that agent", metavar="NAME")
    permission_mode: str | None = value(
        "its permission mode, such as acceptEdits, which needs no consent; default: skip"
        " permission prompts",
        metavar="MODE",
    )
    allow: Sequence[str] = value(
        "a tool that it may use in that mode: 'Bash(pytest -q)'",
        metavar="TOOL",
        many=True,
        default=(),
    )
    max_iterations: int | None = value(
        "maximum number of iterations; default: 10", convert=positive, metavar="N"
    )
    timeout: float | None = value(
        "maximum running time: 90s, 10m; default: 2h", convert=seconds, metavar="TIME"
    )
    max_cost: float | None = value(
        "maximum cost of its agents in US dollars; default: 5", convert=dollars, metavar="USD"
    )
    protect: Sequence[str] = value(
        "restore these files if an agent changes them", metavar="PATH", many=True, default=()
    )
    scope: Sequence[str] | None = value(
        "the paths it works on; default: the whole project", metavar="PATH", many=True
    )
    save: str | None = value(
        "write the loop to .loops/NAME.yaml, with tests, and run it from there", metavar="NAME"
    )
    no_try: bool = flag("do not try the check in a clean copy first")
    background: bool = flag("run in the background")
    dry_run: bool = flag("run nothing; show what would happen")
    queue: bool = flag("wait for conflicting runs to finish")
    fresh: bool = flag("move an unfinished run to the history and start again")
    allow_skip_permissions: bool = flag(
        "let agents skip permission prompts; see `ll-loop trust --help`"
    )


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop until`: start a run, or resume one of the same command. Return the exit code.

    Asks for what is missing: a fix, consent, whether to resume. `--save` also writes the loop file.
    """
    args = UntilArgs.read(with_one_check(argv, UntilArgs.table))
    root = find_project(os.getcwd())
    if args.save is not None:
        _check_name(args.save, root)
    _check_not_empty(args)
    command = _command(args, root)
    found = _loaded(args, command, root)
    if args.dry_run:
        from little_loops.cli.dry_run import dry_run  # rarely asked for

        return dry_run(found, _run_args(args, found.loop.name), root)
    before = None if args.save else _same_unfinished(root, found.loop.name, command)
    if before is not None and not args.fresh:
        if _choice(before) == "resume":
            return resume_with(args, before.files.name)
        args.fresh = True
    _say_bound(args, found)
    name = found.loop.name if args.save else _free_name(root, found.loop.name, before)
    run = _run_args(args, name)
    if not args.quiet and not args.json:
        show_warnings(found.warnings, name)
    request = request_of(run, root, found)
    if _is_clean_proved(args, command, found, root):
        found = _loaded(args, command, root, clean=True)
    if args.save is not None:
        found = _saved(args, args.save, command, found, root)
        return begin(run, root, found, request._replace(file=found.path_in(root)))
    return begin(run, root, found, request._replace(until=command.to_dict()))


def _run_args(args: UntilArgs, name: str) -> RunArgs:
    """Return the options that `run` has in common with this verb."""
    same = {word: getattr(args, word) for word in RunArgs.table if hasattr(args, word)}
    loop, _, number = name.partition("@")
    return RunArgs(**{**same, "loop": loop, "id": number or None})


# ── the loop ───────────────────────────────────────────────────────────────────────────────────


def _check_not_empty(args: UntilArgs) -> None:
    """Raise `UsageError` if the check or the fix is empty."""
    if not args.check.strip():
        raise UsageError("the check is empty", "give a command, such as `pytest -q`")
    if args.fix is not None and not args.fix.removeprefix(SHELL).strip():
        raise UsageError("`--fix` is empty", FIX_HELP)


def _command(args: UntilArgs, root: str) -> UntilCommand:
    """Return the command line as a command; without `--fix`, with a fix that the user confirms."""
    host, fix = args.host, args.fix
    if fix is None:
        host, fix = _proposed(args, root)
    return UntilCommand(
        args.check,
        fix,
        host,
        args.model,
        tuple(args.protect),
        tuple(args.scope or ()),
        args.permission_mode,
        tuple(args.allow),
    )


def _loaded(args: UntilArgs, command: UntilCommand, root: str, *, clean: bool = False) -> LoopFile:
    """Return the loop with its limits: those given, else those of the settings, else our defaults.

    The default for the cost is left out if the agent does not report its cost.
    """
    name = args.save or run_name_of(command.check)
    given = UntilLimits(args.max_iterations, args.timeout, args.max_cost)
    is_set = names_set(root, os.environ)
    defaults = {
        limit: number for limit, number in DEFAULTS._asdict().items() if limit not in is_set
    }
    chosen = {limit: number for limit, number in given._asdict().items() if number is not None}
    limits = UntilLimits(**{**defaults, **chosen})
    free = limits._replace(max_cost_usd=args.max_cost)
    found = _with_limits(name, command, free, root, clean=clean)
    if limits == free or "max_cost_usd" not in _counts(found):
        return found
    return _with_limits(name, command, limits, root, clean=clean)


def _with_limits(
    name: str, command: UntilCommand, limits: UntilLimits, root: str, *, clean: bool
) -> LoopFile:
    """Return the loop of a command with these limits, its agent program and model."""
    found = load_document(document(name, command, limits, clean=clean), root)
    given = {"name": command.host, "model": command.model}
    return with_host(found, {key: text for key, text in given.items() if text}, root)


def _counts(found: LoopFile) -> tuple[str, ...]:
    """Return the limits for which the agent reports its spending."""
    return host_named(found.loop.host.host).counts if has_agent(found.loop) else ()


def _say_bound(args: UntilArgs, found: LoopFile) -> None:
    """Print the limits of the run."""
    if args.quiet or args.json:
        return
    options = found.loop.host
    agent = os.path.basename((options.command or (options.host,))[0])
    loop = found.loop._replace(
        max_iterations=args.max_iterations or found.loop.max_iterations,
        timeout=args.timeout or found.loop.timeout,
        max_cost_usd=args.max_cost or found.loop.max_cost_usd,
    )
    say(visible(bound(loop, _counts(found), agent if has_agent(loop) else None)))


# ── a fix where none was given ─────────────────────────────────────────────────────────────────


class Proposed(NamedTuple):
    host: str | None
    fix: str


def _proposed(args: UntilArgs, root: str) -> Proposed:
    """Propose a fix and ask the user to confirm it; raise `UsageError` if that is not possible."""
    if not can_ask():
        raise UsageError(
            "`--fix` is missing, and without a terminal `ll-loop` cannot propose one",
            FIX_HELP,
        )
    host = args.host or ("" if "host" in names_set(root, os.environ) else _agent_here())
    fix = proposal(args.protect)
    talk(f"Proposed prompt for {host or 'the agent in your settings'}:")
    for line in visible(fix).splitlines():
        talk(f"  {line}")
    sys.stderr.write("Use it? [Y/n] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line or line.strip().lower() not in ("", "y", "yes"):
        raise UsageError("nothing was run", "write your own with `--fix TEXT`")
    return Proposed(host or None, fix)


def _agent_here() -> str:
    """Return the first agent program on PATH; raise `UsageError` if there is none."""
    import shutil  # only to propose an agent

    for name in AGENTS:
        if shutil.which(name):
            return name
    raise UsageError(
        f"none of the agent programs {', '.join(AGENTS)} is on PATH",
        "to fix with a shell command, use `--fix '$ CMD'`",
    )


# ── the run ────────────────────────────────────────────────────────────────────────────────────


def _same_unfinished(root: str, loop: str, command: UntilCommand) -> StoredRun | None:
    """Return the unfinished run of this very command that is not alive; None if there is none."""
    for view in Runs(root).list():
        if view.is_alive or view.has_file or view.loop != loop:
            continue
        before = current(root, view.name)
        if before is None or before.run.status not in UNFINISHED:
            continue
        if same_command(before.start.get("until", {}), command):
            return before
    return None


def _choice(before: StoredRun) -> str:
    """Ask whether to resume the run or start again; raise `UsageError` if nobody can be asked."""
    problem = unfinished(before.files.name, before.run, has_file=False)
    if not can_ask():
        raise problem
    return ask_to_resume(problem)


def _free_name(root: str, loop: str, before: StoredRun | None) -> str:
    """Return a name for the run: that of `before` if it starts again, else one that is not in use."""
    if before is not None:
        return before.files.name
    taken = {view.name for view in Runs(root).list()}
    names = (loop if number == 1 else f"{loop}@{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _is_clean_proved(args: UntilArgs, command: UntilCommand, found: LoopFile, root: str) -> bool:
    """Return whether the check works in a clean copy, by trying it, and print the result.

    It is not tried, and False, without an agent or a repository, with `--no-try`, or if the check
    contains `${`.
    """
    from little_loops.cli.setup.detect import DetectedCheck  # what `init` uses
    from little_loops.cli.setup.init_evidence import try_in_copy
    from little_loops.fsm.check_machine import shell_checks_of
    from little_loops.trees.repository_files import repository_of

    # A script with `${…}` in it is known only to the run.
    is_plain = bool(shell_checks_of(found.loop)) and "${" not in command.check
    if args.no_try or not is_plain or not has_agent(found.loop) or repository_of(root) is None:
        return False
    quiet = bool(args.quiet or args.json)
    check = DetectedCheck("", command.check, command.check, FAILS)
    shell = found.loop.shell or "sh"
    proof = try_in_copy(check, root, command.protect, quiet=quiet, shell=shell)
    if not quiet and proof.why_not is None:
        talk("A pass will count only if a clean copy confirms it")
    elif not quiet and not proof.cannot_run:
        talk(f"A pass will not be confirmed in a clean copy: {proof.why_not}")
    return proof.why_not is None


# ── saving ─────────────────────────────────────────────────────────────────────────────────────


def _check_name(name: str, root: str) -> None:
    """Raise `UsageError` if this is not a valid name for a loop, or already in use."""
    from little_loops.cli.setup.init import files_of  # what `init` uses

    if not is_loop_name(name):
        raise UsageError(f"`{name}` cannot be a loop's name", "choose a name such as `fix-tests`")
    there = files_of(name, root)
    if there:
        raise UsageError(
            f"the loop `{name}` already exists: `{os.path.relpath(there[0])}`",
            f"files are never overwritten; `ll-loop run {name}` runs it",
        )


def _saved(
    args: UntilArgs, name: str, command: UntilCommand, found: LoopFile, root: str
) -> LoopFile:
    """Write the loop as a file, print which files are new, and return the loop in that file."""
    from little_loops.authoring.dump import dump_document
    from little_loops.authoring.loop_tests import first_tests
    from little_loops.cli.setup.init import MODELINE, write, write_tests

    loop = found.loop
    limits = UntilLimits(loop.max_iterations, loop.timeout, loop.max_cost_usd)
    data = document(name, command, limits, clean=loop.evidence.clean)
    new = write(root, name, dump_document(data, [MODELINE]))
    new |= write_tests(root, name, first_tests(name))
    if not args.quiet and not args.json:
        for path, why in new.items():
            talk(f"wrote {os.path.relpath(path)} ({why})")
    given = {"name": command.host, "model": command.model}
    return with_host(load_loop(name, root), {k: text for k, text in given.items() if text}, root)
