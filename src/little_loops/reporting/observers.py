"""Those who look on while a run goes: screen, log, whoever subscribes.

They are told what happened and what is printed.  None of them can change a run: one that fails is
let go, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from little_loops.fsm.codec import to_record
from little_loops.fsm.events import Entry


class Observer:
    """Sees nothing, says nothing; override what is of interest."""

    def record(self, entry: Entry) -> None:
        """An event, as it stands in the log: secrets are masked."""

    def records(self, entries: Sequence[Entry]) -> None:
        """The events of one step; for those who would rather tell them all at once."""
        for entry in entries:
            self.record(entry)

    def learn(self, environ: Mapping[str, str]) -> None:
        """The next action is given these variables; what is secret among them is to be masked."""

    def printed(self, stream: str, chunk: bytes) -> None:
        """An action printed this, raw."""

    def doing(self, text: str) -> None:
        """What an agent is doing just now."""

    def changed(self, paths: Sequence[str]) -> None:
        """An agent's program says that it has changed these files."""

    def used(self, tokens: int, cost_usd: float | None) -> None:
        """What an agent has used so far in this turn."""

    def tick(self) -> float | None:
        """Called while an action runs; gives the seconds to the next call, none for never."""
        return None


class Callback(Observer):
    """A function that wants the events as they are written."""

    def __init__(self, function: Callable[[dict[str, Any]], None]) -> None:
        self._function = function

    def record(self, entry: Entry) -> None:
        self._function(to_record(entry))


class Observers(Observer):
    """All of them as one."""

    def __init__(self, all_of_them: Iterable[Observer]) -> None:
        self._all = list(all_of_them)

    def record(self, entry: Entry) -> None:
        self._each(lambda one: one.record(entry))

    def records(self, entries: Sequence[Entry]) -> None:
        self._each(lambda one: one.records(entries))

    def learn(self, environ: Mapping[str, str]) -> None:
        self._each(lambda one: one.learn(environ))

    def printed(self, stream: str, chunk: bytes) -> None:
        self._each(lambda one: one.printed(stream, chunk))

    def doing(self, text: str) -> None:
        self._each(lambda one: one.doing(text))

    def changed(self, paths: Sequence[str]) -> None:
        self._each(lambda one: one.changed(paths))

    def used(self, tokens: int, cost_usd: float | None) -> None:
        self._each(lambda one: one.used(tokens, cost_usd))

    def tick(self) -> float | None:
        pauses: list[float | None] = []
        self._each(lambda one: pauses.append(one.tick()))
        return min((pause for pause in pauses if pause is not None), default=None)

    def _each(self, tell: Callable[[Observer], None]) -> None:
        for one in tuple(self._all):
            try:
                tell(one)
            except Exception:  # whatever it was, it is not the run's business
                self._all.remove(one)
