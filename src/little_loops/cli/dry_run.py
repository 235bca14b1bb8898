"""`ll-loop run --dry-run`: print what a run would do, and what blocks it. Runs and writes nothing.

Not here: what applies to every run of a loop (`description`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime

from little_loops.authoring.filling import Filling
from little_loops.cli.consent import ALLOW
from little_loops.cli.run import RunArgs, most_iterations
from little_loops.definitions.consent import actions_needing_consent
from little_loops.definitions.evidence_plan import EvidencePlan, evidence_plan
from little_loops.definitions.loading import LoopFile, context_overrides
from little_loops.definitions.trust import Trust, trust_of
from little_loops.engine.lifecycle import unfinished
from little_loops.errors import OK, LittleLoopsError
from little_loops.fsm import turn_hosts
from little_loops.fsm.schema import FSMLoop, HostOptions
from little_loops.fsm.state import UNFINISHED
from little_loops.fsm.values import written_env
from little_loops.hosts.base import host_named
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import resolve_scope, run_name, show_scope
from little_loops.runs.reading import Runs
from little_loops.runs.stored_run import read_stored
from little_loops.terminal import paint
from little_loops.terminal.console import ascii_only, print_json, say
from little_loops.terminal.description import (
    WIDEST,
    Described,
    described,
    environment_of,
    header,
    hooks_json,
    hooks_lines,
    limits_json,
    limits_text,
    notify_lines,
    result_lines,
    state_lines,
    states_json,
    widest_on,
    workspace_lines,
    worktree_lines,
)
from little_loops.terminal.evidence_lines import evidence_json, evidence_lines


class ConflictingRun(NamedTuple):
    """Another run that this one cannot run beside."""

    name: str
    pid: int
    scope: str
    doing: str

    def __str__(self) -> str:
        """Return which run it is, what it is doing and on which paths, to follow `taken:`."""
        match self.doing:
            case "killed":
                return f"'{self.name}' was killed, but its action is still working on {self.scope}"
            case "killed elsewhere":
                return f"'{self.name}' was killed on another machine and may still be working on {self.scope}"
            case _:
                return f"'{self.name}' is {self.doing} (pid {self.pid}) and works on {self.scope}"


class HostInfo(NamedTuple):
    name: str
    program: str
    path: str | None
    permissions: str


class DryRun(NamedTuple):
    """Everything that is known before a run."""

    loop: FSMLoop
    run: str
    states: list[Described]
    conflicts: list[ConflictingRun]
    hosts: list[HostInfo]
    before: str | None
    environment: Mapping[str, bool]
    warnings: int
    evidence: EvidencePlan

    @property
    def unknown(self) -> list[str]:
        return list(dict.fromkeys(name for state in self.states for name in state.unknown))


def dry_run(found: LoopFile, args: RunArgs, root: str) -> int:
    """Print the plan of a run, and return 0, even if something blocks the run."""
    plan = plan_run(found, args, root)
    if args.json:
        print_json(document(plan))
    else:
        lines = page(plan, ascii_only=ascii_only(sys.stdout), widest=widest_on(sys.stdout))
        say(visible("\n".join(lines)), paint.description)
    return OK


def plan_run(found: LoopFile, args: RunArgs, root: str) -> DryRun:
    """Collect everything that is known before a run."""
    loop = with_options(found, args)
    name = run_name(loop.name, args.id)
    runs = Runs(root)
    allowed = _allowed_by(args)
    names = environment_of(loop)
    return DryRun(
        loop=loop,
        run=name,
        states=described(loop, Masker({**os.environ, **written_env(loop)}).mask),
        conflicts=_conflicts(loop, name, runs),
        hosts=hosts_of(loop, trust_of(root, os.environ), allowed),
        before=None if args.fresh or runs.is_alive(name) == "running" else _unfinished(root, name),
        environment={variable: variable in os.environ for variable in names},
        warnings=sum(problem.severity == "warning" for problem in found.definition.problems),
        evidence=evidence_plan(
            found._replace(loop=loop), root, os.environ, wanted=not args.no_evidence
        ),
    )


def with_options(found: LoopFile, args: RunArgs) -> FSMLoop:
    """Return the loop with the overrides of the command line."""
    loop, places = found.loop, found.definition.places
    wanted = most_iterations(args, loop)
    return loop._replace(
        context={**loop.context, **context_overrides(args.context, loop, places)},
        max_iterations=loop.max_iterations if wanted is None else wanted,
        timeout=loop.timeout if args.timeout is None else args.timeout,
        max_cost_usd=loop.max_cost_usd if args.max_cost is None else args.max_cost,
        max_tokens=loop.max_tokens if args.max_tokens is None else args.max_tokens,
        scope=tuple(args.scope) if args.scope else loop.scope,
    )


def _conflicts(loop: FSMLoop, name: str, runs: Runs) -> list[ConflictingRun]:
    """Return the runs that block this one."""
    scope = resolve_scope(runs.root, loop.scope)
    return [
        ConflictingRun(other.name, other.pid, show_scope(runs.root, other.scope), doing)
        for other, doing, _ in runs.blockers(name, scope, os.environ)
    ]


def _unfinished(root: str, name: str) -> str | None:
    """Return the message about an unfinished run of this name; None if there is none."""
    try:
        before = read_stored(RunFiles(root, name))
    except LittleLoopsError as damage:
        return damage.message
    if before is None or before.run.status not in UNFINISHED:
        return None
    problem = unfinished(name, before.run, has_file="until" not in before.start)
    return f"{problem.message}; {problem.help}"


# Agents.


def hosts_of(loop: FSMLoop, trust: Trust, allowed: str | None) -> list[HostInfo]:
    """Return the agent CLIs that the loop needs, once per combination of options."""
    agents = Filling(loop).agents
    options = dict.fromkeys(
        _without_details(options)
        for name in loop.states
        if name in agents
        for options in turn_hosts.hosts_of(loop, loop.states[name])
    )
    judges = dict.fromkeys(_judges(loop))
    return [_host_info(loop, each, trust, allowed) for each in options | judges]


def _judges(loop: FSMLoop) -> Iterator[HostOptions]:
    """Yield the agents that judge, with the options with which they can only read."""
    from little_loops.hosts.base import host_named  # only where agents act

    for state in loop.states.values():
        if state.judge is not None:
            options = turn_hosts.judge_host(loop, state)
            reading = host_named(options.host).read_only(options)
            yield _without_details(reading or options)


def _without_details(options: HostOptions) -> HostOptions:
    """Return the options without those that make no difference here."""
    return HostOptions(
        name=options.host,
        permission_mode=options.permission_mode,
        command=options.command,
    )


def _host_info(loop: FSMLoop, options: HostOptions, trust: Trust, allowed: str | None) -> HostInfo:
    """Find the program of a host, and describe its permissions."""
    name = options.host
    program = options.command[0] if options.command else name
    # Only searched on PATH, never started.
    path = shutil.which(program)
    return HostInfo(name, program, path, _permissions(loop, options, trust, allowed))


def _permissions(loop: FSMLoop, options: HostOptions, trust: Trust, allowed: str | None) -> str:
    """Describe the permissions of a host: its mode, or who agreed to skip prompts."""
    name, mode = options.host, options.permission_mode
    if not host_named(name).needs_consent(mode):
        return mode or "the program's default"
    if allowed is not None:
        return f"skip, allowed by {allowed}"
    wanted = [
        action for action in actions_needing_consent(loop, {}, trust.project) if action.host == name
    ]
    if not trust.covers(wanted):
        return "skip, not agreed to yet: ll-loop trust"
    since = max(trust.actions[action] for action in wanted)
    return f"skip, trusted for this project since {_day(since)}"


def _allowed_by(args: RunArgs) -> str | None:
    """Return the flag or variable that allows skipping prompts; None without one."""
    if args.allow_skip_permissions:
        return "--allow-skip-permissions"
    return f"{ALLOW}=1" if os.environ.get(ALLOW) == "1" else None


def _day(stamp: str) -> str:
    day = datetime.fromisoformat(stamp).astimezone()
    return f"{day.day} {day:%b} {day.year}"


# As text and as JSON.


def page(plan: DryRun, *, ascii_only: bool = False, widest: int = WIDEST) -> Iterator[str]:
    """Yield the lines of the plan."""
    dot, to = ("-", "->") if ascii_only else ("·", "→")
    yield header(plan.loop, dot, to, "dry run")
    yield ""
    yield from state_lines(plan.loop, plan.states, dot, to, widest)
    yield ""
    yield f"limits   {limits_text(plan.loop, dot)}"
    yield from _scope_lines(plan)
    yield from worktree_lines(plan.loop, dot)
    yield from workspace_lines(plan.loop)
    home = os.environ.get("HOME", "")
    yield from evidence_lines(plan.evidence, plan.loop.evidence, home, widest)
    yield from hooks_lines(plan.loop)
    yield from notify_lines(plan.loop)
    yield from result_lines(plan.loop)
    for number, host in enumerate(plan.hosts):
        found = "found" if host.path else "not found on PATH"
        program = host.name if host.program == host.name else f"{host.name} ({host.program})"
        yield (
            f"{'' if number else 'host':<9}{program} {found} {dot} permissions: {host.permissions}"
        )
    if plan.before:
        yield f"before   {plan.before}"
    if plan.environment:
        variables = (
            f"{n}{'' if is_set else ' (not set)'}" for n, is_set in plan.environment.items()
        )
        yield f"from the environment: {', '.join(variables)}"
    if plan.unknown:
        yield f"known only at run time: {', '.join(plan.unknown)}"
    if plan.warnings:
        noun = "warning" if plan.warnings == 1 else "warnings"
        yield f"{plan.warnings} {noun}: ll-loop validate {plan.loop.name}"


def _scope_lines(plan: DryRun) -> Iterator[str]:
    """Yield the lines about the scope, and about runs that block it."""
    scope = ", ".join(plan.loop.scope)
    if not plan.conflicts:
        yield f"scope    {scope:<14}  free (no other run overlaps)"
        return
    yield f"scope    {scope:<14}  taken: {plan.conflicts[0]}"
    yield from (f"{'':<25}taken: {conflict}" for conflict in plan.conflicts[1:])


def document(plan: DryRun) -> dict[str, object]:
    """Return the plan as JSON data."""
    return {
        "schema": 1,
        "name": plan.loop.name,
        "run": plan.run,
        "paradigm": plan.loop.paradigm,
        "initial": plan.loop.initial,
        "states": states_json(plan.loop, plan.states),
        "limits": limits_json(plan.loop),
        "scope": list(plan.loop.scope),
        "evidence": evidence_json(plan.evidence, plan.loop.evidence),
        "hooks": hooks_json(plan.loop),
        "conflicts": [conflict._asdict() for conflict in plan.conflicts],
        "hosts": [host._asdict() for host in plan.hosts],
        "before": plan.before,
        "environment": dict(plan.environment),
        "unknown_until_run": plan.unknown,
        "warnings": plan.warnings,
    }
