"""`ll-loop resume`: continue a run, with its original definition or the current one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.consent import skip_permissions
from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.foreground import Show, carry_out
from little_loops.cli.options import (
    WatchArgs,
    dollars,
    flag,
    natural,
    operand,
    positive,
    seconds,
    value,
)
from little_loops.cli.run_warnings import show_warnings
from little_loops.definitions.loading import context_overrides, with_host
from little_loops.definitions.run_names import only_unfinished, root_named, run_named
from little_loops.engine.lifecycle import RunRequest
from little_loops.engine.resuming import resume
from little_loops.errors import OK, DefinitionError, Problem, UsageError
from little_loops.fsm.endings import not_resumable
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.runs.stored_run import StoredRun, find
from little_loops.terminal.console import talk

if TYPE_CHECKING:
    from little_loops.cli.answering import GivenAnswer
    from little_loops.definitions.loading import LoopFile

EXAMPLES = (
    ("ll-loop resume fix-types", "continue where it stopped"),
    ("ll-loop resume fix-types --max-iterations 40", "with a higher limit"),
    ("ll-loop resume", "the only unfinished run"),
    ("ll-loop resume fix-types --definition current", "with the current loop file"),
)


class ResumeArgs(
    WatchArgs,
    verb="resume",
    summary="Continue a run that was interrupted, paused or failed.",
    examples=EXAMPLES,
):
    loop: str | None = operand(
        "a loop's name, or NAME@ID; default: the only unfinished run", optional=True
    )
    max_iterations: int | None = value(
        "maximum number of iterations, from the start of the run", convert=positive, metavar="N"
    )
    max_continuations: int | None = value(
        "maximum number of consecutive handoffs of one state", convert=positive, metavar="N"
    )
    timeout: float | None = value(
        "maximum running time, from the start of the run", convert=seconds, metavar="TIME"
    )
    max_cost: float | None = value(
        "maximum cost of its agents in US dollars, from the start of the run",
        convert=dollars,
        metavar="USD",
    )
    max_tokens: int | None = value(
        "maximum number of tokens its agents may use, from the start of the run",
        convert=positive,
        metavar="N",
    )
    stall_after: int | None = value(
        "how many agent actions in a row without progress end the run; 0: never",
        convert=natural,
        metavar="N",
    )
    over_budget: bool = flag("ignore the budget, for this resume only")
    context: Sequence[str] = value("set a context value", metavar="K=V", many=True, default=())
    queue: bool = flag("wait for conflicting runs to finish")
    background: bool = flag("run in the background")
    from_state: str | None = value(
        "continue from this state", "--from", metavar="STATE", names="states"
    )
    definition: str | None = value(
        "which definition to use if the loop file has changed since the run started",
        choices=("original", "current"),
    )
    allow_skip_permissions: bool = flag(
        "let agents skip permission prompts; see `ll-loop trust --help`"
    )
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    args = ResumeArgs.read(argv)
    root = find_project(os.getcwd())
    if (address := fleet_of(args, root)) is not None:
        from little_loops.cli.on_fleet import resume_run  # few users have a fleet

        return resume_run(args, root, address)
    return continue_run(args)


def _path_of(args: ResumeArgs, root: str, answer: GivenAnswer | None) -> str:
    """Return the name of the run to continue; an answer may be for a run that it has started."""
    if args.loop is None:
        return only_unfinished(root)
    return root_named(args.loop, root) if answer is None else run_named(args.loop, root)


def continue_run(args: ResumeArgs, answer: GivenAnswer | None = None) -> int:
    """Continue a run, here or in the background. Return the exit code.

    `answer` is stored once nothing prevents the run from continuing.
    """
    root = find_project(os.getcwd())
    path = _path_of(args, root, answer)
    name = path.partition("/")[0]
    before = find(root, name) if answer is None else answer.find(root, path)
    chosen = chosen_definition(args, root, before)
    loop = chosen.loop
    machine = loop or before.loop
    if args.from_state is not None and args.from_state not in machine.states:
        raise UsageError(f"the loop has no state `{args.from_state}`")
    if not args.quiet and not args.json:
        show_warnings(chosen.warnings, machine.name)
    ends = answer is not None and answer.ends(before)
    request = request_of(args, root, machine, before, ends=ends)
    if answer is not None and answer.store(before):
        return OK
    show = Show(args.json, args.quiet, args.verbose, args.color)
    if before.damage and not args.quiet:
        talk(f"warning: {visible(before.damage, newlines=False)}")
    if args.background:
        from little_loops.cli.background_start import start_in_background  # rarely asked for

        return start_in_background("resume", loop, request, show)
    limits = (args.max_iterations, before.run.limits.max_iterations, machine.max_iterations)
    limit = next(value for value in limits if value is not None)
    return carry_out(
        machine,
        name,
        show,
        lambda services: resume(loop, request, services, before),
        limit=limit,
    )


def request_of(
    args: ResumeArgs, root: str, loop: FSMLoop, before: StoredRun, *, ends: bool = False
) -> RunRequest:
    """Return the request for continuing the run; asks for consent if needed.

    `ends` says that no action will run, so no agent needs consent. Raises `UsageError` without
    consent.
    """
    context = context_overrides(args.context, loop)
    return RunRequest(
        root=root,
        name=before.files.name,
        context=context,
        limits=Limits(
            args.max_iterations,
            args.timeout,
            args.max_continuations,
            args.stall_after,
            max_cost_usd=args.max_cost,
            max_tokens=args.max_tokens,
        ),
        queue=args.queue,
        # If there is nothing to resume, do not ask.
        skip_permissions=not ends
        and not_resumable(loop, before.run) is None
        and skip_permissions(
            loop,
            {**before.run.context, **context},
            root,
            allowed=args.allow_skip_permissions,
            has_file="until" not in before.start,
        ),
        from_state=args.from_state,
        over_budget=args.over_budget,
    )


class Chosen(NamedTuple):
    """The current definition if that is to be used; None for the one the run was started with.

    `warnings` are those of the file, unless it differs from the original definition.
    """

    loop: FSMLoop | None = None
    warnings: tuple[Problem, ...] = ()


def chosen_definition(args: ResumeArgs, root: str, before: StoredRun) -> Chosen:
    """Decide which definition to continue with.

    Raises `UsageError` if the file has changed and `--definition` does not say which one to use.
    """
    if "until" in before.start:
        if args.definition is not None:
            raise UsageError(
                f"`{before.files.name}` has no loop file, so it always continues with its original definition",
                "leave out `--definition`",
            )
        return Chosen()
    if args.definition == "original":
        return Chosen()
    found = current_definition(
        root,
        before.start.get("with", before.loop.name),
        wanted=args.definition == "current",
        evidence=before.run.trees is None or before.run.trees.off is None,
    )
    if found is None:
        if args.definition == "current":
            raise UsageError(f"loop `{before.loop.name}` no longer exists")
        return Chosen()
    given = before.start.get("host", {})
    current = with_host(found, given, root).loop._replace(worktree=before.loop.worktree)
    changes = [c for c in differences(before.loop, current) if not _is_from_settings(found, c)]
    if args.definition == "current":
        return Chosen(current, found.warnings)
    if not changes:
        return Chosen(None, found.warnings)
    raise UsageError(
        f"the definition of `{before.loop.name}` has changed since the run started: "
        + "; ".join(changes),
        "to continue with the original definition, use `--definition original`; "
        "with the current file, `--definition current`",
    )


def current_definition(root: str, name: str, *, wanted: bool, evidence: bool) -> LoopFile | None:
    """Load the loop's current file; None if it is gone, or invalid and not `wanted`.

    Raises `DefinitionError` if it is invalid and `wanted`; otherwise that is printed as a warning.
    """
    # YAML, and only where it is needed.
    from little_loops.definitions.loading import load_loop, load_variant

    try:
        # A fork may have a definition of its own, with the name of another one.
        load = load_variant if "/" in name else load_loop
        return load(name, root, evidence=evidence)
    except DefinitionError as error:
        if wanted:
            raise
        talk(f"warning: the definition of `{name}` is invalid now: {error.message}")
        return None
    except UsageError:
        return None


def _is_from_settings(found: LoopFile, change: str) -> bool:
    """Return whether a change, such as "`timeout` changed", comes from a setting or variable, not
    from the file."""
    from little_loops.definitions.settings import SETTINGS  # as late as the file itself

    name = change.split("`")[1]
    if change != f"`{name}` changed" or name not in SETTINGS:
        return False
    return not found.definition.places.has(name) or f"LL_{name.upper()}" in os.environ


def differences(before: FSMLoop, now: FSMLoop) -> list[str]:
    """Describe what has changed; comments, layout and descriptions do not count."""
    old, new = _comparable(before), _comparable(now)
    states_before, states_now = old.pop("states"), new.pop("states")
    changes = []
    for words, names in (
        ("added", states_now.keys() - states_before.keys()),
        ("removed", states_before.keys() - states_now.keys()),
        (
            "changed",
            {
                n
                for n in states_before.keys() & states_now.keys()
                if states_before[n] != states_now[n]
            },
        ),
    ):
        changes += [f"state `{name}` {words}" for name in sorted(names)]
    fields = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return changes + [f"`{name}` changed" for name in fields]


def _comparable(loop: FSMLoop) -> dict[str, dict[str, object]]:
    """Return the machine as a dict without what makes no difference."""
    if loop.paradigm == "relay":
        from little_loops.authoring.paradigms.relay_v1 import as_compiled_now  # rarely asked for

        loop = as_compiled_now(loop)
    plain = loop.to_dict()
    for name in ("description", "paradigm"):
        plain.pop(name, None)
    for state in plain["states"].values():
        state.pop("check", None)  # earlier versions did not write it when they compiled a loop
        state.pop("label", None)  # only screens show it
    return plain
