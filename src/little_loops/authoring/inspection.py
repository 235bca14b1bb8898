"""A loop under inspection: what every check looks at, and how it says what it found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from little_loops.authoring.filling import Filling
from little_loops.authoring.flow import Flow, flow_of
from little_loops.authoring.messages import did_you_mean
from little_loops.authoring.nodes import Entry, Map
from little_loops.authoring.places import Part, Places
from little_loops.authoring.texts import Path, Text
from little_loops.errors import Problem, Severity
from little_loops.fsm.schema import FSMLoop

MOST_COMPARED = 1_000_000
"""Letters with letters: about a fifth of a second."""
MOST_LISTED = 200_000
SHOWN_NAMES = 8


class Inspection(Filling):
    """One loop, its places, and what several checks need to know of it."""

    def __init__(self, loop: FSMLoop, places: Places) -> None:
        super().__init__(loop)
        self.places = places
        self._compared = 0
        self._listed = 0
        self._entries: dict[str, Mapping[str, Entry]] = {}

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.loop, self.agents)

    @cached_property
    def results(self) -> Mapping[str, str]:
        """The names under which results are captured, in order, each with a state that does it."""
        captures = {name: self.loop.states[name].capture for name in self.kinds}
        named = {capture: name for name, capture in captures.items() if capture is not None}
        return {**named, **{name: name for name in self.kinds}}

    @cached_property
    def all_context(self) -> Mapping[str, Any]:
        """The loop's variables and those of any state."""
        together: dict[str, Any] = {}
        for state in self.loop.states.values():
            together.update(state.context)
        return {**together, **self.loop.context}

    def meant(self, name: str, names: Collection[str]) -> str | None:
        """The help for a name that is not among `names`: the nearest of them, or all.

        Comparing every name with every other would let a hostile file take minutes, so after a
        while there is less help, and then none.
        """
        letters = sum(map(len, names)) if self._listed < MOST_LISTED else 0
        self._listed += len(names)
        self._compared += len(name) * letters
        if self._listed > MOST_LISTED:
            return None
        nearest = did_you_mean(name, names) if self._compared < MOST_COMPARED else None
        return nearest or known(names)

    def error(
        self,
        code: str,
        message: str,
        *path: str | int,
        help: str | None = None,
        part: Part = "value",
    ) -> Problem:
        places, path = self._near(path)
        return Problem(code, message, places.at(*path, part=part), help)

    def warning(
        self,
        code: str,
        message: str,
        *path: str | int,
        help: str | None = None,
        part: Part = "key",
    ) -> Problem:
        return self.error(code, message, *path, help=help, part=part)._replace(severity="warning")

    def inside(
        self,
        code: str,
        message: str,
        text: Text,
        snippet: str,
        help: str | None = None,
        severity: Severity = "error",
    ) -> Problem:
        """A problem of a piece of a text."""
        places, path = self._near(text.path)
        return Problem(code, message, places.within(snippet, *path), help, severity)

    def _near(self, path: Path) -> tuple[Places, Path]:
        """The places of one state or variable alone, so that it is not looked for among thousands
        for each of its problems."""
        if len(path) < 2:
            return self.places, path
        entry = self._section(str(path[0])).get(str(path[1]))
        if entry is None:
            return self.places, path
        return self.places._replace(root=Map((entry,), entry.value.mark)), path[1:]

    def _section(self, name: str) -> Mapping[str, Entry]:
        if name not in self._entries:
            root = self.places.root
            found = root.get(name) if isinstance(root, Map) else None
            entries = found.entries if isinstance(found, Map) else ()
            self._entries[name] = {entry.key.text: entry for entry in reversed(entries)}
        return self._entries[name]


def known(names: Collection[str]) -> str:
    """The names there are, or the first of them."""
    if not names:
        return "there is none"
    shown = ", ".join(f"`{name}`" for name in sorted(names)[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"known: {shown}" + (f" and {more} more" if more > 0 else "")
