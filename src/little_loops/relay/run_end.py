"""Clean up when the run of a relay has ended, however it ended.

Marker and guard are removed, and the metadata file is moved to the run's directory; the task is no
longer marked as being implemented; and if no state of the relay has printed the report, it is
returned for display. Nothing here makes a run fail: a failure is only a warning.

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
    """What to print at the end of a run."""

    report: str = ""
    warnings: tuple[str, ...] = ()


def close_relay(loop: str, project: str, run_dir: str, ending: Ending) -> RunEndReport:
    """Clean up after a run, and return what to print.

    A run that is only paused is left as it is, for whoever continues it.
    """
    if ending.status not in ENDED:
        return RunEndReport()
    try:
        relay = record.load(run_dir)
        if not relay.metadata:  # no turn was prepared
            return RunEndReport()
        _remove_files(relay, project, run_dir)
        if ending.reason == "terminal":  # a state of the relay's own has done the rest
            return RunEndReport()
        text = _final_report(loop, run_dir, relay, ending)
        return RunEndReport(text, _release_task(relay, project))
    except LittleLoopsError as problem:
        return RunEndReport(warnings=(f"the relay's files were not cleaned up: {problem.message}",))


def _remove_files(relay: Relay, project: str, run_dir: str) -> None:
    """Move the metadata to the run's directory, and remove marker and guard."""
    move_away(relay.metadata, record.kept_metadata(run_dir, relay.prepared), project)
    record.unmark(relay.metadata, project)


def _release_task(relay: Relay, project: str) -> tuple[str, ...]:
    """Write the task's status `partial`, because nobody works on it any more. Return warnings."""
    try:
        write_status(relay.task, "partial", rules.artifacts_of(relay.turns), project)
    except LittleLoopsError as problem:
        return (f"could not write the status of task {relay.task.id}: {problem.message}",)
    return ()


def _final_report(loop: str, run_dir: str, relay: Relay, ending: Ending) -> str:
    """Return the report, and save it; empty without a settled turn.

    If the run ended at the turn limit, a pending check has failed.
    """
    if not relay.turns:
        return ""
    at_limit = ending.reason == "max_iterations"
    turns = rules.with_check_result(relay.turns, "failed" if at_limit else "pending")
    text = report(loop, relay.session, turns)
    record.write_atomically(os.path.join(run_dir, record.REPORT), text)
    return text
