"""`ll-loop worker`: work on a fleet's runs on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL, fleet_of
from little_loops.cli.options import OutputArgs, flag, positive, seconds, value
from little_loops.errors import OK, UsageError
from little_loops.runs.project import find_project
from little_loops.system.user_state import cache_home

SHORTEST_HEARTBEAT_S = 1.0


class WorkerArgs(
    OutputArgs,
    verb="worker",
    summary="Work on a fleet's runs on this machine, until stopped.\n"
    "Anybody who can use the fleet can run commands here, so give the worker\n"
    "its own account.",
    examples=[
        ("ll-loop worker --repos 'git@host:team/*'", "runs of these repositories"),
        ("ll-loop worker --repos URL --max-actions 8", "eight actions at once"),
        ("ll-loop worker --repos URL --labels gpu,linux", "also loops with `runs_on`"),
    ],
):
    fleet: str | None = FLEET
    local: bool = LOCAL
    repos: Sequence[str] = value(
        "repositories it may run, as URLs or patterns; required",
        metavar="PATTERN",
        many=True,
        default=(),
    )
    labels: Sequence[str] = value(
        "what it has that a loop may ask for with `runs_on`; at most 6",
        metavar="LABELS",
        many=True,
        default=(),
    )
    max_actions: int = value(
        "how many actions to run at once; default: 4", convert=positive, metavar="N", default=4
    )
    heartbeat: float = value(
        "after how much silence it counts as lost; default: 30s",
        convert=seconds,
        metavar="TIME",
        default=30.0,
    )
    allow_skip_permissions: bool = flag("let agents skip permission prompts")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop worker`: work until SIGTERM or Ctrl-C. Return 0. Raises `UsageError`."""
    args = WorkerArgs.read(argv)
    address = fleet_of(args, find_project(os.getcwd()))
    if address is None:
        raise UsageError("no fleet is given", "add `--fleet temporal://host:7233`, or set LL_FLEET")
    if not args.repos:
        raise UsageError(
            "a worker needs to know which repositories it may run",
            "add `--repos 'git@host:team/*'`",
        )
    if args.heartbeat < SHORTEST_HEARTBEAT_S:
        raise UsageError("`--heartbeat` must be at least 1s")
    from little_loops.cli.on_fleet import needs_extra  # everything below needs it

    with needs_extra():
        import asyncio

        from little_loops.fleet.worker import WorkerOptions, labels_of, patterns_of, work
    options = WorkerOptions(
        patterns_of(args.repos),
        os.path.join(cache_home(os.environ), "fleet", "work"),
        max_actions=args.max_actions,
        heartbeat_s=args.heartbeat,
        skip_permissions=args.allow_skip_permissions,
        labels=labels_of(args.labels),
    )
    asyncio.run(work(address, options))
    return OK
