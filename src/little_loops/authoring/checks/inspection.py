"""A loop being checked: what all checks need to know about it, and how they report problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property

from little_loops.authoring.checks.flow import Flow, flow_of
from little_loops.authoring.checks.references import Read, beginning, read
from little_loops.authoring.fields.gaps import Gaps
from little_loops.authoring.filling import MOST_REFERENCES, Filling
from little_loops.authoring.messages import did_you_mean
from little_loops.authoring.texts import LocatedText, Path, values
from little_loops.authoring.yaml.nodes import Map, MapEntry, Mark
from little_loops.authoring.yaml.places import Part, Places, occurrences
from little_loops.errors import Place, Problem
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.errors import Severity

MOST_COMPARED = 1_000_000
"""The limit for comparisons of characters: about a fifth of a second."""
MOST_LISTED = 200_000
SHOWN_NAMES = 8


class Inspection(Filling):
    """One loop with its places, and facts that several checks need."""

    def __init__(self, loop: FSMLoop, places: Places, gaps: Gaps, *, compiled: bool) -> None:
        """Prepare the checks of a loop; `compiled` means that a paradigm produced its states."""
        super().__init__(loop)
        self.places = places
        self.gaps = gaps
        self.compiled = compiled
        self._read: dict[str, Read] = {}
        self._references_read = 0
        self._compared = 0
        self._listed = 0
        self._entries: dict[str, Mapping[str, MapEntry]] = {}
        self._spots: dict[tuple[Path, str], Mapping[int, Mark]] = {}

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.loop, self.agents)

    @cached_property
    def results(self) -> Mapping[str, str]:
        """The names of all captured results, each with a state that captures it."""
        captures = {name: self.loop.states[name].capture for name in self.actions}
        named = {capture: name for name, capture in captures.items() if capture is not None}
        own = {name: name for name in self.actions if "/" not in name}  # branches have none
        return {**named, **own}

    @cached_property
    def all_context(self) -> Mapping[str, Any]:
        """The variables of the loop and of all its states; the loop's value where both set one."""
        together: dict[str, Any] = {}
        for state in self.loop.states.values():
            together.update(state.context)
        return {**together, **self.loop.context}

    def read(self, text: str) -> Read:
        """Parse a text's references, up to a limit for the whole loop."""
        if text not in self._read:
            left = MOST_REFERENCES - self._references_read
            count = text.count("${")
            self._references_read += count
            if count > left:
                self.stop_at(MOST_REFERENCES, "references")
            self._read[text] = read(text if count <= left else beginning(text, left))
        return self._read[text]

    @cached_property
    def variables(self) -> tuple[LocatedText, ...]:
        """Every text in the loop's variables, with its path."""
        return tuple(values(self.loop.context, ()))

    @cached_property
    def refers_to(self) -> Mapping[str, Collection[str]]:
        """For each loop variable, the others that its texts refer to."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.variables:
            for reference in self.read(each.text).references:
                if reference.namespace == "context" and reference.path[0] in self.loop.context:
                    found[str(each.path[0])].append(reference.path[0])
        return found

    def may_be_captured(self, name: str) -> bool:
        """Return whether a result of this name may exist, in a part that could not be read."""
        return self.gaps.anywhere("capture") or self.gaps.in_state(name, "action", "loop")

    def suggest_name(self, name: str, names: Collection[str]) -> str | None:
        """Return the help for an unknown name: the nearest known name, or all.

        Comparing every name with every other would let a hostile file take minutes, so after a
        limit there is less help, and then none: None.
        """
        self._listed += len(names)
        if self._listed > MOST_LISTED:
            return None
        self._compared += len(name) * sum(map(len, names))
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
        """Return an error at the place of `path`, or of its key if `part` says so."""
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
        """Return a warning at the place of the key of `path`, or of its value if `part` says so."""
        return self.error(code, message, *path, help=help, part=part)._replace(severity="warning")

    def inside(
        self,
        code: str,
        message: str,
        text: LocatedText,
        span: tuple[int, int],
        help: str | None = None,
        severity: Severity = "error",
    ) -> Problem:
        """Return a problem with a part of a text, at the given span."""
        return Problem(code, message, self._place_in_text(text, span), help, severity)

    def _place_in_text(self, text: LocatedText, span: tuple[int, int]) -> Place | None:
        """Return the place of a part of a text in the file, or of the whole text if it is not
        found."""
        snippet = text.text[span[0] : span[1]]
        places, path = self._near(text.path)
        key = (text.path, snippet)
        if key not in self._spots:
            begins, spots = occurrences(snippet, text.text), places.spots(snippet, *path)
            same = snippet and len(begins) == len(spots)
            self._spots[key] = dict(zip(begins, spots, strict=True)) if same else {}
        mark = self._spots[key].get(span[0])
        return places.source.place(mark) if mark is not None else places.at(*path)

    def _near(self, path: Path) -> tuple[Places, Path]:
        """Return places restricted to one state or variable, and the path in it.

        This avoids searching thousands of states for every problem.
        """
        if len(path) < 2:
            return self.places, path
        entry = self._section(str(path[0])).get(str(path[1]))
        if entry is None:
            return self.places, path
        return self.places._replace(root=Map((entry,), entry.value.mark)), path[1:]

    def _section(self, name: str) -> Mapping[str, MapEntry]:
        """Return the entries of a top-level mapping, by name."""
        if name not in self._entries:
            root = self.places.root
            found = root.get(name) if isinstance(root, Map) else None
            entries = found.entries if isinstance(found, Map) else ()
            self._entries[name] = {entry.key.text: entry for entry in reversed(entries)}
        return self._entries[name]


def known(names: Collection[str]) -> str:
    """Return a hint that lists the known names, or the first of them."""
    if not names:
        return "there are none"
    shown = ", ".join(f"`{name}`" for name in sorted(names)[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"known: {shown}" + (f" and {more} more" if more > 0 else "")
