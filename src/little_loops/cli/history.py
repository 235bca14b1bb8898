"""`ll-loop history`: print how earlier runs ended; only `--prune` deletes old ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of, project_of
from little_loops.cli.options import (
    BadValue,
    OutputArgs,
    age,
    count,
    flag,
    operand,
    positive,
    value,
)
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, UsageError
from little_loops.reporting.amounts import size_text
from little_loops.reporting.escape import visible
from little_loops.runs.history import old_runs
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.tables import style_for

EXAMPLES = (
    ("ll-loop history", "the latest runs of every loop"),
    ("ll-loop history fix-types --last 7d", "its runs from the last week"),
    ("ll-loop history --prune 30d", "delete runs older than 30 days"),
    ("ll-loop history fix-types --prune --keep 10", "delete all but its last ten runs"),
)
SHOWN = 20
BY_COUNT = 0.0
"""The value of `--prune` without an age."""


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise BadValue(f"{text!r} is not a number of runs")
    return int(text)


class HistoryArgs(
    OutputArgs, verb="history", summary="Show how past runs ended.", examples=EXAMPLES
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: all", optional=True)
    last: float | None = value(
        "only runs from the last TIME, such as 12h or 7d", convert=age, metavar="TIME"
    )
    limit: int = value(
        "show at most N runs; default: 20", convert=positive, metavar="N", default=SHOWN
    )
    prune: float | None = value(
        "delete runs older than this, such as 30d",
        convert=age,
        metavar="AGE",
        optional=True,
        implied=BY_COUNT,
    )
    keep: int | None = value(
        "with --prune: keep the last N of each loop", convert=_count, metavar="N"
    )
    reindex: bool = flag("rebuild the index of past runs from their files")
    utc: bool = flag("show times in UTC instead of your time zone")
    verbose: int = count("with --prune: name each deleted run", "-v")
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop history`: print past runs, or delete some with `--prune`. Return 0."""
    args = HistoryArgs.read(argv)
    if args.prune is not None and (address := fleet_of(args, find_project(os.getcwd()))):
        from little_loops.cli.on_fleet import prune_runs  # few users have a fleet

        return prune_runs(args, find_project(os.getcwd()), address, _before_ms(args.prune))
    root = project_of(args, args.loop, past=args.prune is None)
    name = None if args.loop is None else run_named(args.loop, root)
    if args.prune is not None:
        if name is not None and "/" in name:
            raise UsageError(
                f"`{name}` cannot be deleted separately, only with the run that started it"
            )
        return _prune(args, args.prune, root, name)
    if args.keep is not None:
        raise UsageError("`--keep` only works with `--prune`", "add `--prune`")
    if args.reindex:
        return _reindex(args, root, name)
    return _show(args, root, name)


def _reindex(args: HistoryArgs, root: str, name: str | None) -> int:
    """Write the index of past runs again, and return the exit code."""
    from little_loops.runs.past_runs import reindex  # rarely asked for

    if name is not None:
        raise UsageError("`--reindex` always covers all past runs", "leave out the name")
    count = reindex(root)
    if args.json:
        print_json({"schema": 1, "indexed": count})
    elif args.quiet < 2:
        say(f"indexed {count} run{'' if count == 1 else 's'}")
    return OK


def _show(args: HistoryArgs, root: str, name: str | None) -> int:
    """Print the past runs, and return the exit code."""
    from little_loops.terminal.history_table import document, gather, lines  # pruning shows none

    runs, now = Runs(root), now_ms()
    files = runs.past_files(
        name and name.partition("/")[0], None if args.last is None else now - args.last * 1000
    )
    views = runs.views(files)
    if name is not None and "/" in name:
        views = runs.past_children(views, name)
    past = gather(views, args.limit, len(files))
    if args.json:
        print_json({"schema": 1, **document(runs, past, now)})
        return OK
    if args.quiet < 2:
        style = style_for(sys.stdout, args.color)
        shown = lines(runs, past, style, utc=args.utc) if past.shown else [_none(args, name)]
        say("\n".join(shown))
    if name is not None and not args.quiet:
        _mention_current(runs, name)
    return OK


def _none(args: HistoryArgs, name: str | None) -> str:
    """Return the line for no past runs."""
    of = "" if name is None else f" of {visible(name)}"
    when = "" if args.last is None else " in that time"
    return f"no past runs{of}{when}"


def _mention_current(runs: Runs, name: str) -> None:
    """Print a hint if there is a current run, too."""
    view = runs.view(name)
    if view is not None and view.files.stem is None:
        talk(f"next: ll-loop status {name}   (a run that has not ended)")


# ── deleting ───────────────────────────────────────────────────────────────────────────────────


def _before_ms(age_s: float) -> int | None:
    """Return when the runs started before which are pruned; None if age does not count."""
    return None if age_s == BY_COUNT else now_ms() - round(age_s * 1000)


def _prune(args: HistoryArgs, age_s: float, root: str, name: str | None) -> int:
    """Delete old runs, print which, and return the exit code."""
    before_ms = _before_ms(age_s)
    from little_loops.engine.tree_space import delete_past  # printing needs no snapshots

    old = old_runs(root, before_ms=before_ms, keep=args.keep, name=name)
    gone, freed = delete_past(root, os.environ, old)
    trees = _removed_worktrees(root)
    if args.json:
        deleted = [{"name": files.name, "archived_as": files.stem} for files in gone]
        more = {"worktrees": trees} if trees else {}
        print_json({"schema": 1, "deleted": deleted, **more, "freed_bytes": freed})
    elif args.quiet < 2:
        lines = [f"removed {visible(path, newlines=False)}" for path in trees]
        room = [f"freed {size_text(freed)} of snapshots and clean copies"] if freed else []
        say("\n".join([*deleted_lines(gone, args.verbose), *room, *lines]))
    return OK


def _removed_worktrees(root: str) -> list[str]:
    """Remove the worktrees that no run needs and whose content is committed. Return their paths."""
    from little_loops.engine.kept_worktrees import prune as prune_worktrees  # few projects have any

    removed, _ = prune_worktrees(root, os.environ)
    return [each.path for each in removed]


def deleted_lines(gone: Sequence[RunFiles], verbose: int) -> list[str]:
    """Return the lines about deleted runs: one per run if `verbose`, and a summary."""
    if not gone:
        return ["nothing to delete"]
    each = [f"deleted {files.name} {files.stem}" for files in gone] if verbose else []
    names = sorted({files.name for files in gone})
    counts = {name: sum(files.name == name for files in gone) for name in names}
    listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return [*each, f"deleted {len(gone)} run{'' if len(gone) == 1 else 's'}: {listed}"]
