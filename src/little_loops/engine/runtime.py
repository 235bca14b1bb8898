"""What a program may ask of whatever carries out runs: this computer, or another runtime.

Every runtime gives a run the same endings, events and exit codes; the contract suite in
`tests/contract` checks that.

Not here: carrying out runs on this computer (`local_runtime`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from little_loops.fsm.events import Entry
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits
from little_loops.light_typing import Any, Literal, Protocol
from little_loops.records import NamedTuple

NO_LIMITS = Limits()
Stream = Literal["stdout", "stderr"]


class RunStatus(NamedTuple):
    """A run at one moment. `exit_code` is None while it is running."""

    name: str
    run: str
    status: str
    reason: str | None
    state: str
    iteration: int
    exit_code: int | None


class Runtime(Protocol):
    """Carries out the runs of one project. A run is named as on the command line.

    What cannot be done raises the `LittleLoopsError` that the command would report.
    """

    def start(
        self,
        loop: FSMLoop,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        skip_permissions: bool = False,
    ) -> str:
        """Start a run, and return its id once it has started."""
        ...

    def resume(
        self,
        name: str,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = NO_LIMITS,
        from_state: str | None = None,
    ) -> None:
        """Continue a run, and return once it runs."""
        ...

    def approve(self, name: str, text: str = "", to: str | None = None) -> None:
        """Approve a run that waits at a gate, and continue it, in the state `to` if given."""
        ...

    def reject(self, name: str, text: str = "") -> None:
        """Reject a run that waits at a gate, and continue it."""
        ...

    def tell(self, name: str, text: str) -> None:
        """Send a note to a run's next agent turn."""
        ...

    def stop(self, name: str) -> None:
        """Stop a run, and wait until it has ended; one that is not running is left alone."""
        ...

    def wait(self, name: str, timeout_s: float | None = None) -> RunStatus | None:
        """Wait until a run is not running, and return it; None if that takes longer."""
        ...

    def status(self, name: str) -> RunStatus | None:
        """Return a run; None if there is none of that name."""
        ...

    def list(self) -> Sequence[RunStatus]:
        """Return the runs that are running or unfinished, by name."""
        ...

    def events(self, name: str, after: int = 0) -> Sequence[Entry]:
        """Return the events of a run that are numbered above `after`."""
        ...

    def output(self, name: str, step: int, attempt: int, stream: Stream) -> bytes:
        """Return what an action has printed."""
        ...
