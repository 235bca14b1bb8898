"""The checks of `ll-loop doctor` for a project's loops, agents, consent and runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from little_loops.authoring.load import load_data
from little_loops.cli.crashes import report_crashes
from little_loops.cli.setup.checkup import CheckupInputs, CheckupResult, Loops
from little_loops.cli.setup.detect import read_environment
from little_loops.cli.setup.init import has_module
from little_loops.cli.setup.python_sources import copy_tested_by, editable, imports_copy
from little_loops.definitions.agent_checks import agent_problems
from little_loops.definitions.consent import actions_needing_consent
from little_loops.definitions.evidence_checks import evidence_problems
from little_loops.definitions.loading import read_definition
from little_loops.definitions.settings import SETTINGS, project_config, user_config, with_settings
from little_loops.definitions.trust import trust_of
from little_loops.engine.kept_worktrees import sizes
from little_loops.engine.tree_space import cap_of, existing_store
from little_loops.errors import StoreError, UsageError
from little_loops.fsm.actions import action_of, is_agents
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.turn_hosts import hosts_of, judge_host
from little_loops.fsm.values import author_context
from little_loops.hosts.base import HOST_NAMES, host_named
from little_loops.reporting.amounts import size_text
from little_loops.runs.layout import PID, RUNNING
from little_loops.runs.project import LOOPS, loop_files
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView
from little_loops.trees.git import find_git
from little_loops.trees.merging import check_git
from little_loops.trees.upkeep import disk_use

MOST_NAMES = 5
FOR_GIT = "needed for evidence and relays"
ANY_LOOP = {"name": "any", "initial": "end", "states": {"end": {"terminal": True}}}


def read_loops(inputs: CheckupInputs) -> Loops:
    """Read all loop files, and sort them into valid and invalid ones."""
    valid, invalid = [], []
    for path in loop_files(inputs.root):
        loop = _valid(path, inputs)
        if loop is None:
            invalid.append(os.path.basename(path))
        else:
            valid.append(loop)
    return Loops(tuple(valid), tuple(invalid))


def _valid(path: str, inputs: CheckupInputs) -> FSMLoop | None:
    """Return the loop in a file, with settings; None if it is invalid or unreadable.

    If the settings are invalid, the loop is returned without them.
    """
    try:
        definition = read_definition(path)
    except UsageError:  # it cannot be read
        return None
    if definition.loop is None:
        return None
    problems = agent_problems(definition, inputs.root)
    problems += evidence_problems(definition, inputs.root, inputs.environ)
    if any(problem.severity == "error" for problem in problems):
        return None
    try:
        return with_settings(definition, inputs.root, inputs.environ)
    except UsageError:  # `settings` says what is wrong with them
        return definition.loop


def loops(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report the project, its loop files, git and the shells they need."""
    here = "project"
    if not os.path.isdir(os.path.join(inputs.root, ".loops")):
        yield CheckupResult("project", "note", "no loops here yet", inputs.root, "ll-loop init")
        return
    found = inputs.loops
    count = len(found.valid) + len(found.invalid)
    yield CheckupResult("project", "ok", f"project: {inputs.root}", together=here)
    text = f"{count} loop{'' if count == 1 else 's'}"
    if found.invalid:
        text = f"{text}, {len(found.invalid)} invalid"
        yield CheckupResult("loops", "warning", text, listed(found.invalid), "ll-loop validate")
    else:
        yield CheckupResult("loops", "ok", text, together=here)
    yield from _git(inputs, here)
    yield from _shells(inputs, found.valid)


def _git(inputs: CheckupInputs, here: str) -> Iterator[CheckupResult]:
    """Report whether git is installed, and whether the project is a repository."""
    if inputs.which("git") is None:
        yield CheckupResult("git", "note", "git not found", FOR_GIT)
    elif os.path.lexists(os.path.join(inputs.root, ".git")):
        yield CheckupResult("git", "ok", "git", together=here)
        yield from _worktrees(inputs)
        yield from _snapshots(inputs)
    else:
        yield CheckupResult("git", "note", "no git repository here", FOR_GIT, "git init")


def _worktrees(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report whether git can merge worktrees, and how many of them there are."""
    try:
        check_git(find_git(inputs.root, inputs.environ))
    except StoreError as error:
        yield CheckupResult(
            "worktrees", "note", error.message, "needed for `worktree`", error.help or ""
        )
    found = sizes(inputs.root, inputs.environ)
    if found:
        count = f"{len(found)} worktree{'' if len(found) == 1 else 's'}"
        text = (
            f"{count} of runs hold{'s' if len(found) == 1 else ''} {size_text(sum(found.values()))}"
        )
        yield CheckupResult("worktrees", "note", text, "", "ll-loop worktrees --prune")


def _snapshots(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report how much disk space the snapshots and clean copies of the project use."""
    store = existing_store(inputs.root, inputs.environ)
    if store is not None:
        used, cap = disk_use(store), cap_of(inputs.root, inputs.environ)
        copies = f", clean copies {size_text(used.copies)}" if used.copies else ""
        text = f"snapshots use {size_text(used.store)} of at most {size_text(cap)}{copies}"
        yield CheckupResult("snapshots", "ok", text)


def _shells(inputs: CheckupInputs, found: Sequence[FSMLoop]) -> Iterator[CheckupResult]:
    """Report shells that loops need, but that are not installed."""
    asking = {
        loop.name: {loop.shell, *(state.shell or loop.shell for state in loop.states.values())}
        for loop in found
    }
    for shell in ("sh", "bash"):
        names = [name for name, shells in asking.items() if shell in shells]
        if names and inputs.which(shell) is None:
            yield CheckupResult(
                "shell", "problem", f"{shell} not found", f"needed by {listed(names)}"
            )


# ── what checks need ───────────────────────────────────────────────────────────────────────────


def tools(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report programs that are not installed, but that a loop's check runs."""

    def has(python: str, module: str) -> bool:
        # Do not run a Python that comes with the project, which may be an untrusted clone.
        inside = os.path.realpath(python).startswith(os.path.realpath(inputs.root) + os.sep)
        return inside or has_module(python, module)

    for check in read_environment(inputs.root, inputs.which, has).checks:
        if check is not None and not check.is_installed:
            names = [loop.name for loop in inputs.loops.valid if _runs(loop, check.command)]
            if names:
                text, why = f"{check.program} is not installed", f"needed by {listed(names)}"
                yield CheckupResult("tool", "problem", text, why)


def imports(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Warn about Python tests that import an installed copy instead of the project's files."""
    copies = {
        loop.name: copy
        for loop in inputs.loops.valid
        if (copy := copy_tested_by(loop, inputs.root, inputs.environ)) is not None
    }
    if copies:
        copy, why = next(iter(copies.values())), f"{listed(list(copies))} would not see a fix"
        yield CheckupResult("imports", "warning", imports_copy(copy), why, editable(copy))


def _runs(loop: FSMLoop, words: str) -> bool:
    """Return whether an action of the loop contains these words."""
    return any(words in (state.action or "") for state in loop.states.values())


def settings(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report where settings come from besides loop files.

    Raises `UsageError` for a mistake there, which would stop every run.
    """
    with_settings(load_data(ANY_LOOP, "any"), inputs.root, inputs.environ)
    files = (user_config(inputs.environ), project_config(inputs.root))
    given = [path for path in files if os.path.exists(path)]
    given += [f"LL_{name.upper()}" for name in SETTINGS if f"LL_{name.upper()}" in inputs.environ]
    if given:
        yield CheckupResult("settings", "ok", f"settings from {listed(given)}")


# ── agents ─────────────────────────────────────────────────────────────────────────────────────


def agents(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report for each agent CLI whether it is installed; a missing one matters only if a loop needs
    it."""
    asked = _loops_by_host(inputs.loops.valid)
    for name in HOST_NAMES:
        if name != "command":
            yield from _agent(inputs, name, asked.get((name, ()), []))
    for (name, command), names in asked.items():
        if name == "command" and inputs.which(command[0]) is None:
            why = f"needed by {listed(names)}"
            yield CheckupResult("agent:command", "problem", f"{command[0]} not found", why)


def _agent(inputs: CheckupInputs, name: str, needed_by: Sequence[str]) -> Iterator[CheckupResult]:
    """Report whether one agent CLI is installed and works."""
    probe = host_named(name).probe(inputs.which, inputs.run)
    text = f"agent:{name}"
    if probe.ok:
        yield CheckupResult(text, "ok", f"{name} {probe.version} on PATH")
    elif probe.path is not None:
        yield CheckupResult(
            text, "problem", f"{name} does not respond", probe.why, "install it again"
        )
    elif needed_by:
        yield CheckupResult(
            text, "problem", f"{name} not found", f"needed by {listed(needed_by)}", _hint(probe.why)
        )
    else:
        yield CheckupResult(text, "note", f"{name} not found", f"only needed for host: {name}")


def _hint(why: str) -> str:
    """Return the second part of a probe's message, which says what to do."""
    return why.partition("; ")[2]


def _loops_by_host(found: Sequence[FSMLoop]) -> Mapping[tuple[str, tuple[str, ...]], list[str]]:
    """Map (host, command) to the names of the loops whose agent actions use it."""
    asked: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for loop in found:
        for state in loop.states.values():
            for options in _agents_of(loop, state):
                key = (options.host, tuple(options.command or ()))
                names = asked.setdefault(key, [])
                if loop.name not in names:
                    names.append(loop.name)
    return asked


def _agents_of(loop: FSMLoop, state: StateConfig) -> Iterator[HostOptions]:
    """Yield the agents that run the action of a state, or judge it."""
    if state.action is None:
        return
    if is_agents(action_of(state, author_context(loop.context, state))):
        yield from hosts_of(loop, state)
    if state.judge is not None:
        yield judge_host(loop, state)


def consent(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report whether the user has agreed to agents that skip permission prompts."""
    wanted = {
        action: None
        for loop in inputs.loops.valid
        for action in actions_needing_consent(loop, {}, inputs.root)
    }
    if not wanted:
        return
    trust = trust_of(inputs.root, inputs.environ)
    missing = [action for action in wanted if action not in trust.actions]
    count = f"{len(wanted)} agent action{'' if len(wanted) == 1 else 's'}"
    if not missing:
        yield CheckupResult("consent", "ok", f"consent: {count} without permission prompts")
    elif inputs.environ.get("LL_ALLOW_SKIP_PERMISSIONS") == "1":
        yield CheckupResult("consent", "ok", "consent: LL_ALLOW_SKIP_PERMISSIONS=1")
    else:
        why = f"needed for {len(missing)} of {count}; `ll-loop run` will ask"
        yield CheckupResult("consent", "note", "no consent yet", why, "ll-loop trust")
    of_claude = any(action.host == "claude" for action in wanted)
    if of_claude and inputs.euid == 0 and inputs.environ.get("IS_SANDBOX") != "1":
        fix = "run as another user, or set IS_SANDBOX=1 if this machine is a sandbox"
        why = "claude refuses to skip permission prompts when run as root"
        yield CheckupResult("root", "problem", why, fix=fix)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def runs(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report crashed and damaged runs, and leftover pid files."""
    project = Runs(inputs.root)
    with project.frozen():
        views, pids = project.list(), project.pid_files()
    crashed = [view for view in views if view.is_crashed]
    for view in crashed:
        yield _crashed(view, pids.get(view.name))
    report_crashes(project, crashed)
    for view in views:
        if view.status == "damaged":
            fix = (
                f"ll-loop resume {view.name} repairs it if its log is complete;"
                f" ll-loop run {view.name} --fresh moves it to the history"
            )
            why = view.damage or ""
            yield CheckupResult("damaged", "problem", f"run {view.name} is damaged", why, fix)
    for name in sorted(pids.keys() - {view.name for view in views}):
        path = os.path.join(LOOPS, RUNNING, name + PID)
        why = "no process holds it, so the next run will take it over"
        yield CheckupResult("pid", "warning", f"{path} is left over", why, f"rm {path}")
    if views and not crashed:
        yield CheckupResult("runs", "ok", f"runs: {_counted(views)}")


def _crashed(view: RunView, pid: int | None) -> CheckupResult:
    """Return the finding about a run whose process is gone; `pid` is the one it had, if known."""
    who = f"{view.name} (pid {pid})" if pid else view.name
    fix = f"ll-loop resume {view.name}    or    ll-loop run {view.name} --fresh"
    text = f"{who} is marked as running, but its process no longer exists"
    return CheckupResult("runs", "problem", text, fix=fix)


def _counted(views: Sequence[RunView]) -> str:
    """Return how many runs have each status: `1 running, 2 failed`."""
    counts: dict[str, int] = {}
    for view in views:
        word = view.status.replace("_", " ")
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
