"""`ll-loop stop`: ask a run to stop, and wait until it is gone.

What is said afterwards is what its files say: a run that came to its end in that very moment was
not stopped, and one that only waited for its turn has nothing to resume.  One that does not answer
is told once more, as a second Ctrl-C would, and killed in the end: `resume` goes on from there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from little_loops.cli.parsing import Args, Parser, add_output_options
from little_loops.definitions.run_names import run_named
from little_loops.errors import OK, UsageError
from little_loops.fsm.values import duration_text
from little_loops.reporting.escape import visible
from little_loops.runs.claims import alive, waiting
from little_loops.runs.history import newest
from little_loops.runs.holders import Holder, send
from little_loops.runs.inspect import Seen, newest_seen
from little_loops.runs.project import find_project
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import next_step, since

LOOK_EACH_S = 0.02
KILL_GRACE_S = 5.0
AT_ONCE_AFTER_S = 15.0
"""Beyond all that its action may take to end: a disk that is slow, a machine under load."""
KILL_AFTER_S = 10.0

Plan = Sequence[tuple[int, float]]
"""Signals in turn, each with the seconds the run is given."""


def parser() -> Parser:
    it = Parser(
        "stop",
        "Stop a running loop: its action is ended, its state saved.",
        [("ll-loop stop fix-types", "and `ll-loop resume fix-types` later")],
    )
    it.add_argument("loop", help="a loop's name, or NAME@ID")
    add_output_options(it)
    return it


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    root = find_project(os.getcwd())
    name = run_named(args.loop, root)
    asked_ms = now_ms()
    is_in_queue = alive(root, name) is None
    holder = _holder(root, name)
    if holder is None:
        ended = _end_orphans(root, name)
        one = newest_seen(root, name)
        line = f"{name} is not running ({_how(one)})" + (f"; ended {ended}" if ended else "")
        _answer(args, name, one, stopped=False, line=line)
        return OK
    began = time.monotonic()
    was_killed = stop(root, holder, plan_for(newest_seen(root, name)))
    if was_killed:
        _end_orphans(root, name)
    took = duration_text(round((time.monotonic() - began) * 1000))
    one = newest_seen(root, name)
    if is_in_queue and not _has_begun(one, asked_ms):
        one = None  # what is there is an earlier run, or what it was to go on with
    was_stopped = one is None or one.status == "interrupted"
    became = "it did not answer and was killed" if was_killed else outcome(one)
    line = f"{name}: asked to stop (pid {holder.pid}), {became}   {took}"
    _answer(args, name, one, stopped=was_stopped, line=line)
    return OK


def _end_orphans(root: str, name: str) -> str:
    """What a killed runner left of its action, ended and named."""
    run = newest(root, name)
    if run is None or run.state is None or run.state.get("status") != "running":
        return ""
    from little_loops.system.process_tree import sweep  # only after a crash

    return ", ".join(f"{one.name} (pid {one.pid})" for one in sweep(str(run.state.get("run"))))


def _how(one: Seen | None) -> str:
    return "has not run yet" if one is None else since(one, now_ms())


def _has_begun(one: Seen | None, asked_ms: int) -> bool:
    """Whether it came out of the queue after all, when it was asked to stop."""
    return one is not None and one.facts is not None and one.facts.updated_ms >= asked_ms


def outcome(one: Seen | None) -> str:
    """What became of it, by its files."""
    if one is None:
        return "it was still waiting for its turn"
    if one.status == "interrupted" and one.reason != "crash":
        return "action ended, state saved"
    return f"but it had ended: {since(one, now_ms())}"


def plan_for(one: Seen | None) -> Plan:
    """An agent is told twice before it is killed, and what actions left behind once."""
    grace_s = KILL_GRACE_S if one is None else longest_grace_s(one)
    return (
        (signal.SIGTERM, 3 * grace_s + AT_ONCE_AFTER_S),
        (signal.SIGTERM, KILL_AFTER_S),
        (signal.SIGKILL, KILL_AFTER_S),
    )


def longest_grace_s(one: Seen) -> float:
    from little_loops.terminal.status_page import details  # only a run that is there has a machine

    machine = details(one).machine
    states = machine.get("states")
    places = [machine, *(states.values() if isinstance(states, dict) else ())]
    given = [place.get("kill_grace") for place in places if isinstance(place, dict)]
    return max([KILL_GRACE_S, *(each for each in given if isinstance(each, int | float))])


def stop(root: str, holder: Holder, plan: Plan) -> bool:
    """Returns when it is gone; true if it had to be killed."""
    for signum, seconds in plan:
        if not send(holder, signum) and _is_there(root, holder):
            where = f" on {holder.host}" if holder.host not in ("", os.uname().nodename) else ""
            raise UsageError(
                f"`{holder.name}` is held by a process that cannot be reached from here{where}",
                "stop it where it runs",
            )
        send(holder, signal.SIGCONT)  # what stands still cannot obey
        until = time.monotonic() + seconds
        while _is_there(root, holder):
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_EACH_S)
        else:
            return signum == signal.SIGKILL
    raise UsageError(
        f"`{holder.name}` (pid {holder.pid}) does not end, not even when it is killed",
        "it waits for the system, a disk or a network most likely",
    )


def _holder(root: str, name: str) -> Holder | None:
    queued = (holder for holder in waiting(root) if holder.name == name)
    return alive(root, name) or next(queued, None)


def _is_there(root: str, holder: Holder) -> bool:
    now = _holder(root, holder.name)
    return now is not None and (now.pid, now.created) == (holder.pid, holder.created)


def _answer(args: Args, name: str, one: Seen | None, *, stopped: bool, line: str) -> None:
    if args.json:
        status = None if one is None else one.status
        print_json({"schema": 1, "name": name, "stopped": stopped, "status": status})
        return
    if args.quiet < 2:
        say(visible(line, newlines=False))
    if not args.quiet and stopped and one is not None and (hint := next_step(one)):
        talk(f"next: {hint}")
