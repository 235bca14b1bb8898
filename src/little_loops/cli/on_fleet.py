"""The commands that act on runs of a fleet, and the runs of a fleet for the others.

Not here: whether a command is for a fleet (`fleet_choice`), the fleet itself (`fleet`).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from tempfile import TemporaryDirectory

from little_loops.cli.foreground import Show, carry_out
from little_loops.definitions.loading import LoopFile, context_overrides
from little_loops.definitions.run_names import run_named
from little_loops.engine.lifecycle import RunOutcome
from little_loops.engine.local_world import Services
from little_loops.errors import FAILED, OK, LittleLoopsError, UsageError
from little_loops.fsm.endings import ending
from little_loops.fsm.evidence import has_agent
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Answer, Limits
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.reporting.escape import visible
from little_loops.runs.history import old_runs
from little_loops.runs.layout import RunFiles
from little_loops.runs.playback import show as play
from little_loops.runs.project import loops_of
from little_loops.terminal.console import print_json, print_unchanged, say, talk

if TYPE_CHECKING:
    from little_loops.cli.answering import AnswerArgs
    from little_loops.cli.history import HistoryArgs
    from little_loops.cli.options import OutputArgs
    from little_loops.cli.resume import ResumeArgs
    from little_loops.cli.run import RunArgs
    from little_loops.cli.stop import StopArgs
    from little_loops.cli.tell import TellArgs
    from little_loops.engine.runtime import RunStatus
    from little_loops.fleet.outputs import Played
    from little_loops.fleet.runtime import FleetRuntime, StartingPoint

POLL_S = 0.1
PATIENCE_S = 2.0
GIT_S = 60.0
SHA = re.compile(r"[0-9a-f]{40}")


class NotInstalled(LittleLoopsError):
    """The extra for fleets is not installed."""


@contextmanager
def needs_extra() -> Iterator[None]:
    """Report packages that are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("little_loops"):
            raise
        raise NotInstalled(
            f"a fleet needs `{error.name}`, which is not installed", "pipx install '.[temporal]'"
        ) from error


def connect(root: str, address: str, source: StartingPoint | None = None) -> FleetRuntime:
    """Connect to a fleet, for the repository of a project. Raises `UsageError`, `FleetError`."""
    with needs_extra():
        from little_loops.fleet.runtime import FleetRuntime, StartingPoint
    from little_loops.fleet.address import Address

    own = source or StartingPoint(origin_of(root), "", prefix_of(root))
    return FleetRuntime(Address.of(address), own)


# ── the repository ─────────────────────────────────────────────────────────────────────────────


def git(root: str, *words: str) -> str:
    """Run git in a project, and return what it prints. Raises `UsageError`."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=GIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise UsageError(f"`git {words[0]}` did not finish within {GIT_S:g} s") from late
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise UsageError(f"`git {words[0]}` failed: {why[-1]}")
    return done.stdout.rstrip("\n")


def origin_of(root: str) -> str:
    try:
        return git(root, "remote", "get-url", "origin")
    except UsageError:
        raise UsageError(
            "a run on a fleet needs a repository, but this project has no remote `origin`",
            "name it with `--repo URL`",
        ) from None


def prefix_of(root: str) -> str:
    """Return the path of a project in its repository."""
    try:
        return git(root, "rev-parse", "--show-prefix").rstrip("/")
    except UsageError:
        return ""


def source_of(root: str, repo: str | None, ref: str | None) -> StartingPoint:
    """Return the repository and the commit that a run begins with. Raises `UsageError` if what is
    here is not there."""
    from little_loops.fleet.runtime import StartingPoint

    url = repo or origin_of(root)
    if ref is not None:
        return StartingPoint(url, _commit_of(root, url, ref), prefix_of(root))
    how = "commit and push it, or name another place to start from, such as `--ref main`"
    if git(root, "status", "--porcelain"):
        raise UsageError("this project has uncommitted changes, which a fleet cannot see", how)
    commit = git(root, "rev-parse", "HEAD")
    if not git(root, "branch", "-r", "--contains", commit):
        raise UsageError("the last commit here has not been pushed, so a fleet cannot see it", how)
    return StartingPoint(url, commit, prefix_of(root))


def _commit_of(root: str, url: str, ref: str) -> str:
    """Return the commit that a name stands for in a repository. Raises `UsageError`."""
    if SHA.fullmatch(ref):
        return ref
    found = git(root, "ls-remote", url, ref).split()
    if not found:
        raise UsageError(f"`{url}` has no `{ref}`")
    return found[0]


# ── acting ─────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """A run on a fleet that is shown from now on: events above `after`."""

    def __init__(self, runtime: FleetRuntime, show: Show, name: str, after: int = 0) -> None:
        self._runtime = runtime
        self._show_as = show
        self._name = name
        self._after = after

    def report(self, loop: FSMLoop, limit: int, *, background: bool) -> int:
        """Show the run until it ends, or print how to. Return the exit code."""
        name, show = self._name, self._show_as
        if not background:
            with (
                TemporaryDirectory() as folder,
                closing(self._runtime.played(folder, loop, folder)) as played,
            ):
                follow = partial(self._follow, played)
                return carry_out(loop, name, show, follow, limit=limit)
        if show.json:
            print_json({"schema": 1, "name": name, "run": self._details()["run"]})
        elif not show.quiet:
            say(f"{name} is running on the fleet")
            talk(f"next: ll-loop logs {name} -f   or   ll-loop stop {name}")
        return OK

    def _details(self) -> Mapping[str, Any]:
        found = self._runtime.details(self._name)
        assert found is not None, "it was started"
        return found

    def _follow(self, played: Played, services: Services) -> RunOutcome:
        """Pass events to the screen until the run ends; a stop stops it. Raises `UsageError` if it
        could not be carried out."""
        is_stopped, waits_for = False, ""
        since: float | None = None
        while True:
            details = self._details()
            entries = self._runtime.events(self._name, self._after)
            played.bring(entries, lambda: self._runtime.files(self._name))
            items = list(played.items(entries))
            for observer in services.onlookers:
                play(items, observer)
                observer.tick()
            self._after = entries[-1].seq if entries else self._after
            if details["exit_code"] is not None and not entries:
                return self._ended(details, services)
            if details["waits_for"] != waits_for:
                waits_for, since = details["waits_for"], time.monotonic()
            elif waits_for and since is not None and time.monotonic() - since > PATIENCE_S:
                services.say(f"waiting for {visible(waits_for)}")
                since = None
            if not is_stopped and services.stop is not None and services.stop.wait(POLL_S):
                self._runtime.stop(self._name)
                is_stopped = True

    def _ended(self, details: Mapping[str, Any], services: Services) -> RunOutcome:
        """Say where the work is, and return how the run ended. Raises `UsageError` if it was not
        carried out."""
        for path in details["left_out"]:
            services.warn(f"warning: `{visible(path)}` was not pushed")
        if branch := details["branch"]:
            services.say(f"The work is on branch {branch}: git fetch origin {branch}")
        if problem := details["problem"]:
            by = f"worker `{problem['worker']}`: " if problem.get("worker") else ""
            error = UsageError(f"{by}{problem['error']}", problem.get("help"))
            error.exit_code = problem["exit_code"]
            raise error
        _, run = self._runtime.state(self._name)
        assert run is not None, "it has run"
        final = ending(run.status, run.reason or "", "")._replace(exit_code=details["exit_code"])
        return RunOutcome(run, final, RunFiles("", self._name))


def start_run(args: RunArgs, root: str, address: str, found: LoopFile, name: str) -> int:
    """Start a run on a fleet, and show it. Return its exit code. Raises `UsageError`."""
    _refuse(args, "queue", "fresh", "scope", "no_evidence", "worktree", "merge", "host", "model")
    from little_loops.cli.run import most_iterations  # it imports this module, too

    runtime = connect(root, address, source_of(root, args.repo, args.ref))
    limits = Limits(
        most_iterations(args, found.loop),
        args.timeout,
        max_cost_usd=args.max_cost,
        max_tokens=args.max_tokens,
    )
    context = context_overrides(args.context, found.loop, found.definition.places)
    watched = Watched(runtime, _show(args), name)
    runtime.start(found.loop, context=context, limits=limits, name=name)
    limit = limits.max_iterations or found.loop.max_iterations
    return watched.report(found.loop, limit, background=args.background)


def resume_run(args: ResumeArgs, root: str, address: str) -> int:
    """Continue a run on a fleet, and show it. Return its exit code. Raises `UsageError`."""
    _refuse(args, "over_budget", "queue", "definition")
    runtime = connect(root, address)
    name = _named(args.loop, root, runtime)
    loop, run = runtime.state(name)
    if args.from_state is not None and args.from_state not in loop.states:
        raise UsageError(f"the loop has no state `{args.from_state}`")
    limits = Limits(
        args.max_iterations,
        args.timeout,
        args.max_continuations,
        args.stall_after,
        max_cost_usd=args.max_cost,
        max_tokens=args.max_tokens,
    )
    watched = Watched(runtime, _show(args), name, 0 if run is None else run.seq)
    context = context_overrides(args.context, loop)
    runtime.resume(name, context=context, limits=limits, from_state=args.from_state)
    limit = limits.max_iterations or loop.max_iterations
    return watched.report(loop, limit, background=args.background)


def answer_run(args: AnswerArgs, root: str, address: str, answer: Answer) -> int:
    """Answer the gate of a run on a fleet, and show how it continues. Raises `UsageError`."""
    _refuse(args, "no_resume", "definition")
    runtime = connect(root, address)
    name = _named(args.loop, root, runtime)
    loop, run = runtime.state(name)
    watched = Watched(runtime, _show(args), name, 0 if run is None else run.seq)
    if answer.verdict == "rejected":
        runtime.reject(name, answer.text)
    else:
        runtime.approve(name, answer.text, answer.to)
    return watched.report(loop, loop.max_iterations, background=args.background)


def _refuse(args: OutputArgs, *words: str) -> None:
    """Raise `UsageError` for options that have no meaning on a fleet."""
    for word in words:
        if getattr(args, word):
            flag = word.replace("_", "-")
            raise UsageError(
                f"`--{flag}` does not work on a fleet", "leave it out, or add `--local`"
            )


def _show(args: OutputArgs) -> Show:
    return Show(args.json, args.quiet, args.verbose, args.color)


def _named(given: str | None, root: str, runtime: FleetRuntime) -> str:
    """Return the name of a run; without one, that of the only unfinished run. Raises `UsageError`."""
    if given is not None:
        name = run_named(given, root)
        if runtime.status(name) is None:
            raise UsageError(f"`{name}` has no run on the fleet")
        return name
    names = [each.name for each in runtime.list() if each.exit_code is not None]
    if len(names) != 1:
        listed = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"name the run to continue; unfinished on the fleet: {listed}")
    return names[0]


def stop_runs(args: StopArgs, root: str, address: str) -> int:
    """Stop a run on a fleet, or all of this project, and print what became of them."""
    _refuse(args, "gone")
    runtime = connect(root, address)
    if args.loop is None:
        names = [each.name for each in runtime.list() if each.exit_code is None]
    else:
        names = [_named(args.loop, root, runtime)]
    found = []
    for name in names:
        was_running = (before := runtime.status(name)) is not None and before.exit_code is None
        runtime.stop(name)
        status = runtime.status(name)
        found.append({"name": name, "stopped": was_running, "status": status and status.status})
        if not args.json and args.quiet < 2:
            say(_stop_line(name, status, was_running=was_running))
    if args.json:
        print_json({"schema": 1, **(found[0] if args.loop else {"runs": found})})
    elif not found and args.quiet < 2:
        say("no running runs")
    return OK


def _stop_line(name: str, status: RunStatus | None, *, was_running: bool) -> str:
    if status is None or not was_running:
        return f"{name} is not running"
    return f"{name}: asked to stop, {status.status.replace('_', ' ')} in state '{status.state}'"


def tell_run(args: TellArgs, root: str, address: str, text: str) -> int:
    """Send a note to a run on a fleet, and return 0. Raises `UsageError`."""
    runtime = connect(root, address)
    name = _named(args.loop, root, runtime)
    loop, _ = runtime.state(name)
    if not has_agent(loop):
        raise UsageError(f"`{name}` has no agent that could receive a note")
    runtime.tell(name, text)
    if args.json:
        print_json({"schema": 1, "name": name})
    elif not args.quiet:
        say(f"{name}: the next agent turn will receive this note")
    return OK


def diff_run(root: str, address: str, loop: str | None, part: str | None) -> int:
    """Print what a run has changed in all, like `git diff`. Raises `UsageError`."""
    if part is not None:
        raise UsageError(
            "on a fleet, `diff` shows all of a run's changes, not those of single steps"
        )
    runtime = connect(root, address)
    name = _named(loop, root, runtime)
    details = runtime.details(name)
    assert details is not None, "it was there"
    git(root, "fetch", "-q", details["repository"], f"refs/ll/{details['run']}")
    text = git(root, "diff", details["commit"], "FETCH_HEAD")
    if text:
        print_unchanged(text)
    return OK


def check_fleet(args: OutputArgs, root: str, address: str) -> int:
    """Print what of a fleet can be reached, and return 1 if something cannot. Raises `FleetError` if
    nothing can."""
    workers = connect(root, address).workers()
    why_not = _cannot_push(root)
    if args.json:
        print_json({"schema": 1, "workers": workers, "cannot_push": why_not})
        return FAILED if why_not or not workers else OK
    say(f"{address} can be reached")
    for worker in workers or ["no worker is listening"]:
        say(f"  {visible(worker)}")
    say(
        f"checkpoints cannot be pushed: {visible(why_not)}"
        if why_not
        else "refs/ll/* can be pushed"
    )
    return FAILED if why_not or not workers else OK


def _cannot_push(root: str) -> str | None:
    """Return why checkpoints cannot be pushed from here to `origin`; None if they can."""
    try:
        git(root, "push", "-q", "--dry-run", origin_of(root), "HEAD:refs/ll/doctor")
    except UsageError as error:
        return error.message
    return None


def prune_runs(args: HistoryArgs, root: str, address: str, before_ms: int | None) -> int:
    """Delete old runs of a fleet, with their checkpoints, and print which. Raises `UsageError`."""
    from little_loops.cli.history import deleted_lines  # it imports this module, too

    runtime = connect(root, address)
    name = None if args.loop is None else run_named(args.loop, root)
    with needs_extra():
        from little_loops.fleet.mirror import Mirror, new_folder
    mirror = Mirror(
        new_folder(os.environ, os.path.join(root, loops_of(root))), runtime, printed=False
    )
    for details in runtime.past(None):
        mirror.add(details)
    old = old_runs(mirror.root, before_ms=before_ms, keep=args.keep, name=name)
    refs = runtime.delete_past([mirror.past[files] for files in old])
    if args.json:
        deleted = [{"name": files.name, "archived_as": files.stem} for files in old]
        print_json({"schema": 1, "deleted": deleted, "refs": refs})
    elif args.quiet < 2:
        lines = [f"deleted {refs} ref{'' if refs == 1 else 's'} below refs/ll"] if refs else []
        say("\n".join([*deleted_lines(old, args.verbose), *lines]))
    return OK


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def mirrored(
    root: str, address: str, given: str | None, *, follow: bool, past: bool, printed: bool
) -> str:
    """Return a directory that has the runs of a fleet, or one of them, like a project. Raises
    `UsageError` if there is none of that name."""
    runtime = connect(root, address)
    from little_loops.fleet.mirror import Mirror, new_folder  # as above

    folder = new_folder(os.environ, os.path.join(root, loops_of(root)))
    mirror = Mirror(folder, runtime, printed=printed)
    if given is not None:
        one = runtime.details(_named(given, root, runtime))
        found = [] if one is None else [one]
    else:
        found = [*(runtime.past() if past else ()), *runtime.details_of_all()]
    for details in found:
        mirror.add(details)
        if details["waits_for"]:
            talk(f"{visible(details['name'])} is waiting for {visible(details['waits_for'])}")
    if follow:
        mirror.follow()
    return mirror.root
