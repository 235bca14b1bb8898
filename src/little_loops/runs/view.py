"""What a run looks like from outside, and what follows from it: one rule for everything that shows
runs.

A `RunView` is what the files of a run say at one moment, which process carries it out, and its
status. A run whose lock is held is alive, whatever its snapshot says.

Not here: reading the files (`reading`), the layout of screens (`terminal`), its path
(`path_taken`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from little_loops.errors import CONFLICT, FAILED, UsageError
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple

if TYPE_CHECKING:  # making their classes takes longer than listing runs
    from little_loops.fsm.events import Entry
    from little_loops.fsm.schema import FSMLoop
    from little_loops.fsm.state import RunSummary
    from little_loops.runs.holders import Holder
    from little_loops.runs.layout import RunFiles
    from little_loops.runs.run_texts import RunTexts

CRASH = "crash"
SIGTERM = 15


class RunView(NamedTuple):
    """A run: what its files say, which process carries it out, and its status.

    `status` is the manual's word, or `queued`, `damaged` or `newer` (written by a newer version);
    `summary` is None for those, and for a run so young that it has saved nothing yet. A run whose
    lock is held is alive.
    """

    files: RunFiles
    status: str
    reason: str | None = None
    summary: RunSummary | None = None
    damage: str | None = None
    holder: Holder | None = None
    has_file: bool = True  # False for a run of `until`
    path: str = ""  # of a run that another one has started

    @property
    def name(self) -> str:
        return f"{self.files.name}/{self.path}" if self.path else self.files.name

    @property
    def root_name(self) -> str:
        """The name of the run at the root: only that can be resumed."""
        return self.files.name

    @property
    def loop(self) -> str:
        return self.summary.loop if self.summary else self.files.name.partition("@")[0]

    @property
    def is_alive(self) -> bool:
        return self.status in ("running", "queued")

    @property
    def is_blank(self) -> bool:
        """Whether it is queued and has recorded nothing: the files of its name are another run's."""
        return self.status == "queued" and self.summary is None

    @property
    def is_crashed(self) -> bool:
        return self.status == "interrupted" and self.reason == CRASH

    @property
    def started_ms(self) -> int:
        """When it started: by its stem if its files cannot tell, and 0 if that is not known
        either."""
        if self.summary is not None:
            return wall_ms_of(self.summary.started_at)
        day, _, clock = (self.files.stem or "")[:19].partition("T")
        try:
            return wall_ms_of(f"{day}T{clock.replace('-', ':')}Z") if day else 0
        except ValueError:  # a file that someone else put there
            return 0

    @property
    def updated_ms(self) -> int:
        return wall_ms_of(self.summary.updated_at) if self.summary else 0

    def ran_ms(self, now_ms: int) -> int:
        """Return its running time so far, 0 if unknown; a running one has continued since its last
        event."""
        if self.summary is None:
            return 0
        since = now_ms - self.updated_ms if self.status == "running" else 0
        return self.summary.ran_ms + max(since, 0)


class Session(NamedTuple):
    """The session that was started to continue a run."""

    pid: int
    is_alive: bool


class RunDetail(NamedTuple):
    """A run with the end of its log, both from the same moment if possible.

    `machine`, `last_output_ms` and `session` are None if unknown; `worktree` is where it works, if
    that is not the project; `context` are the variables that it was started with.
    """

    view: RunView
    entries: Sequence[Entry] = ()
    machine: FSMLoop | None = None
    last_output_ms: int | None = None
    session: Session | None = None
    worktree: str | None = None
    context: Mapping[str, Any] = {}


def exit_code_of(view: RunView, last: Entry | None) -> int:
    """Return the exit code of its process; 5 while it is alive, as starting it again would give.

    `last` is its last event, which has the signal that interrupted it; without one, SIGTERM is
    assumed.
    """
    if view.is_alive:
        return CONFLICT
    if view.status in ("damaged", "newer") or view.is_crashed:
        return FAILED  # no one was left to record how it ended
    # Imported on demand.
    from little_loops.fsm.endings import exit_code_of_end
    from little_loops.fsm.events import LoopInterrupted

    by = last.event.signal if last and isinstance(last.event, LoopInterrupted) else SIGTERM
    return exit_code_of_end(view.status, view.reason, by)


def as_json(view: RunView, texts: RunTexts, now_ms: int) -> dict[str, Any]:
    """Return a run for programs; the keys are the same wherever a run is listed.

    Without a readable snapshot, only those that do not come from it.
    """
    summary = view.summary
    document: dict[str, Any] = {
        "name": view.name,
        "loop": view.loop,
        "no_file": not view.has_file,
        "status": view.status,
        "reason": view.reason,
        "pid": view.holder.pid if view.holder else None,
        "archived_as": view.files.stem,
        "damage": view.damage,
        "log": view.files.log,
    }
    if summary is None:
        return document
    return document | {
        "run": summary.run,
        "state": summary.current_state,
        "iteration": summary.iteration,
        "cycle": summary.cycle,
        "error": texts.error,
        "started_at": timestamp(view.started_ms),
        "updated_at": timestamp(view.updated_ms),
        "duration_ms": view.ran_ms(now_ms),
        "cost_usd": summary.cost_usd,
        "tokens": summary.tokens,
        "scope": list(summary.scope),
        "continuation_prompt": texts.continuation,
        "gate": _gate(summary),
        "forked_from": summary.fork and summary.fork._asdict(),
    }


def _gate(summary: RunSummary) -> dict[str, Any] | None:
    """Return the gate that a run waits at: its state, and the number of the event that opened
    it."""
    from little_loops.fsm.gates import open_gate  # few programs list runs

    seq = open_gate(summary)
    return None if seq is None else {"state": summary.current_state, "seq": seq}


def no_such_run(name: str) -> UsageError:
    return UsageError(f"`{name}` has not run yet", f"`ll-loop run {name}` starts it")
