"""Observers of a run: the screen, the log, and subscribers.

They get events and output. None of them can change a run: one that fails is dropped, and the run
continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from little_loops.fsm.codec import to_record
from little_loops.fsm.events import Entry
from little_loops.fsm.state import Children
from little_loops.light_typing import Any


class Observer:
    """An observer that ignores everything; override what is of interest."""

    def record(self, entry: Entry) -> None:
        """Take an event, as it is logged, with secrets masked."""

    def records(self, entries: Sequence[Entry]) -> None:
        """Take the events of one step, for observers that handle them together."""
        for entry in entries:
            self.record(entry)

    def continues(self, children: Children) -> None:
        """Take the runs that a state has started, and that a run continues when it is resumed."""

    def learn(self, environ: Mapping[str, str]) -> None:
        """Take the variables of the next action, to mask the secrets among them."""

    def printed(self, stream: str, chunk: bytes) -> None:
        """Take raw output of an action."""

    def below(self, child: str, text: str) -> None:
        """Take lines of a run that this one has started, by its name."""

    def below_used(self, child: str, cost_usd: float) -> None:
        """Take what a run that this one has started has spent so far, by its name."""

    def doing(self, text: str) -> None:
        """Take a description of what an agent is doing now."""

    def changed(self, paths: Sequence[str]) -> None:
        """Take the files that an agent's program reports as changed."""

    def used(self, tokens: int, cost_usd: float | None) -> None:
        """Take what an agent has used so far in this turn."""

    def tick(self) -> float | None:
        """Called while an action runs. Return the seconds until the next call, None for never."""
        return None


class Callback(Observer):
    """Passes each event to a function, in the form in which it is logged."""

    def __init__(self, function: Callable[[dict[str, Any]], None]) -> None:
        self._function = function

    def record(self, entry: Entry) -> None:
        self._function(to_record(entry))


class Observers(Observer):
    """Passes everything on to several observers, and drops one that raises."""

    def __init__(self, all_of_them: Iterable[Observer]) -> None:
        self._all = list(all_of_them)

    def record(self, entry: Entry) -> None:
        self._each(lambda one: one.record(entry))

    def records(self, entries: Sequence[Entry]) -> None:
        self._each(lambda one: one.records(entries))

    def continues(self, children: Children) -> None:
        self._each(lambda one: one.continues(children))

    def learn(self, environ: Mapping[str, str]) -> None:
        self._each(lambda one: one.learn(environ))

    def printed(self, stream: str, chunk: bytes) -> None:
        self._each(lambda one: one.printed(stream, chunk))

    def below(self, child: str, text: str) -> None:
        self._each(lambda one: one.below(child, text))

    def below_used(self, child: str, cost_usd: float) -> None:
        self._each(lambda one: one.below_used(child, cost_usd))

    def doing(self, text: str) -> None:
        self._each(lambda one: one.doing(text))

    def changed(self, paths: Sequence[str]) -> None:
        self._each(lambda one: one.changed(paths))

    def used(self, tokens: int, cost_usd: float | None) -> None:
        self._each(lambda one: one.used(tokens, cost_usd))

    def tick(self) -> float | None:
        """Return the shortest time until one of the observers wants to be called."""
        pauses: list[float | None] = []
        self._each(lambda one: pauses.append(one.tick()))
        return min((pause for pause in pauses if pause is not None), default=None)

    def _each(self, tell: Callable[[Observer], None]) -> None:
        """Call a function for each observer, and drop those for which it raises."""
        for one in tuple(self._all):
            try:
                tell(one)
            except Exception:  # an observer must never stop the run
                self._all.remove(one)
