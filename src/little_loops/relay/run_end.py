"""Tidy up when the run of a relay has ended, however it ended.

Marker, guard and metadata file go, the metadata to the run's directory; a task that was being
implemented no longer is; and where no state of the relay reported what it did, the report is given
back to be shown.  Nothing here makes an ending fail: what cannot be done is a warning.

Not here: what happens before and after each turn (`turns`).
"""

from __future__ import annotations

import os

from little_loops.errors import LittleLoopsError
from little_loops.fsm.commands import Ending
from little_loops.records import NamedTuple
from little_loops.relay import record, rules
from little_loops.relay.metadata import move_away
from little_loops.relay.record import Relay
from little_loops.relay.report import report
from little_loops.relay.tasks import write_status

ENDED = ("completed", "failed", "stopped")


class RunEndReport(NamedTuple):
    """What there is to say at the end of a run."""

    report: str = ""
    warnings: tuple[str, ...] = ()


def close_relay(loop: str, project: str, run_dir: str, ending: Ending) -> RunEndReport:
    """`ending` may be a pause: then everything stays for whoever continues."""
    if ending.status not in ENDED:
        return RunEndReport()
    try:
        relay = record.load(run_dir)
        if not relay.metadata:  # no turn was prepared
            return RunEndReport()
        _clear_away(relay, project, run_dir)
        if ending.reason == "terminal":  # a state of the relay's own has done the rest
            return RunEndReport()
        text = _final_report(loop, run_dir, relay, ending)
        return RunEndReport(text, _release_task(relay, project))
    except LittleLoopsError as problem:
        return RunEndReport(warnings=(f"the relay's files were not cleaned up: {problem.message}",))


def _clear_away(relay: Relay, project: str, run_dir: str) -> None:
    move_away(relay.metadata, record.kept_metadata(run_dir, relay.prepared), project)
    record.unmark(relay.metadata, project)


def _release_task(relay: Relay, project: str) -> tuple[str, ...]:
    """Nobody implements it any more; no turn has said more about it than that it is unfinished."""
    try:
        write_status(relay.task, "partial", rules.artifacts_of(relay.turns), project)
    except LittleLoopsError as problem:
        return (f"the status of task {relay.task.id} was not written: {problem.message}",)
    return ()


def _final_report(loop: str, run_dir: str, relay: Relay, ending: Ending) -> str:
    """Empty without a settled turn.  At the limit of turns a check that was run has failed."""
    if not relay.turns:
        return ""
    at_limit = ending.reason == "max_iterations"
    turns = rules.checked(relay.turns, "failed" if at_limit else "pending")
    text = report(loop, relay.session, turns)
    record.write_whole(os.path.join(run_dir, record.REPORT), text)
    return text
