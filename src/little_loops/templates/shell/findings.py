"""Note what is found out about a script: the place of each value, and where it is carried from there.

A value that is harmless where it stands can end up where it is not: what a `$(…)` prints stands
where that stands, a pipe carries it into a command, a variable anywhere.  The first two are refused
as if the value stood there itself.  A variable may have been looked at before it is used, so that
is for a warning only.

All of it is put together at the end (`follow`), because a script may say first what it does with a
variable and then what is in it.

Not here: reading the script (`shell_quotes`, `shell_flow`, `script`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from little_loops.templates.shell.positions import HOLE, Place, Reason, Use
from little_loops.templates.shell.roles import PRINTED, PROCESS, UNKNOWN, Finding
from little_loops.templates.shell.tokens import Reach, Word

SUBSTITUTION = "`$(…)`"


class Notes:
    def __init__(self, script: str) -> None:
        self.script = script
        self.places: dict[int, Place] = {}
        self.reaches: list[Reach] = []
        self.evaluated: dict[str, Use] = {}
        self.expanded_at: list[int] = []
        self.expanded: list[str] = []
        self.sources: dict[str, set[tuple[int, int]]] = {}
        self.declared: dict[str, set[tuple[int, int]]] = {}
        self.arrays: set[str] = set()
        self.counted: list[tuple[int, int]] = []

    # Places

    def settle_all(self, start: int, stop: int, place: Place) -> None:
        at = self.script.find(HOLE, start, stop)
        while at >= 0:
            self.places[at] = place
            at = self.script.find(HOLE, at + 1, stop)

    def settle(self, word: Word, refused: Reason = "", of: str = "", splits: bool = False) -> None:
        for at, place in word.holes:
            if not place.refused:
                place = place._replace(refused=refused, of=of)
            self.places[at] = place._replace(splits=splits and place.quote == "bare")
        if refused:
            self.refuse_inside(word.start, word.stop, refused, of)

    def settle_test(self, word: Word) -> None:
        """A word of `[[ … ]]`: its operators say whether what a variable holds is evaluated."""
        for at, place in word.holes:
            self.places[at] = place if place.refused else place._replace(refused="test")
        self.reaches.append(Reach(word.start, word.stop, "test", "", SUBSTITUTION))

    def refuse_inside(self, start: int, stop: int, refused: Reason, of: str = "") -> None:
        """Whatever a substitution here prints is evaluated, and so is what a variable holds."""
        self.reaches.append(Reach(start, stop, refused, of, SUBSTITUTION))
        self.evaluate(self.names_in(start, stop), refused, of)

    def evaluate(self, names: Iterable[str], reason: Reason, of: str = "") -> None:
        for name in names:
            self.evaluated.setdefault(name, Use(name, reason, of))

    def names_in(self, start: int, stop: int) -> list[str]:
        """The variables that are expanded in a stretch of the script."""
        first, last = bisect_left(self.expanded_at, start), bisect_left(self.expanded_at, stop)
        return self.expanded[first:last]

    def expand(self, at: int, name: str) -> None:
        self.expanded_at.append(at)
        self.expanded.append(name)

    def settle_as(self, word: Word, finding: Finding) -> None:
        """Settle the values in a word by what the word is."""
        match finding.role:
            case ("command" | "vanishing" | "program" | "name" | "variable" | "operator") as reason:
                self.settle(word, reason, finding.of, splits=True)
            case "option":
                self.settle_option(word, finding.of)
            case "script":
                self.settle_option(word, finding.of)
                self.settle_file(word, finding.of)
            case "file":
                self.settle(word)
                self.settle_file(word, finding.of)
            case role:
                self.settle(word, splits=role == "argument")
                if finding.of in ("[", "test") and word.bare:
                    self.evaluate(self.names_in(word.start, word.stop), "operator", finding.of)

    def settle_option(self, word: Word, of: str) -> None:
        self.settle(word, splits=True)
        leading = len(word.text) - len(word.text.lstrip(HOLE))
        for at, _ in word.holes[:leading]:
            self.places[at] = self.places[at]._replace(option_of=of)
        if word.text.startswith(UNKNOWN):
            self.evaluate(self.names_in(word.start, word.stop), "option", of)
        if word.text.lstrip(HOLE + UNKNOWN).startswith(PRINTED):
            # What stands in the word itself is looked at when it is filled in.
            edges = word.start - 1, *(at for at, _ in word.holes), word.stop
            for before, after in pairwise(edges):
                self.refuse_inside(before + 1, after, "option", of)

    def settle_file(self, word: Word, of: str) -> None:
        for at, _ in word.holes:
            self.places[at] = self.places[at]._replace(file_of=of)
        if PROCESS in word.text:
            self.reaches.append(Reach(word.start, word.stop, "program", of, "`<(…)`"))

    def numbers(self, start: int, stop: int) -> None:
        """What stands in this stretch is only counted: no value gets out of it."""
        self.counted.append((start, stop))
        first = bisect_left(self.expanded_at, start)
        del self.expanded_at[first:], self.expanded[first:]

    # Variables

    def given(self, names: Iterable[str], start: int, stop: int) -> None:
        for name in names:
            self.sources.setdefault(name, set()).add((start, stop))

    def declare(self, name: str, word: Word) -> None:
        self.declared.setdefault(name, set()).add((word.start, word.stop))

    # At the end

    def follow(self) -> None:
        """Refuse what reaches a place where it may not stand, and note what comes near one."""
        for name in self.arrays & self.declared.keys():
            # `declare` reads a list of words out of a value where the variable is an array.
            spans = self.declared[name]
            self.reaches += (Reach(*span, "name", "", "") for span in spans)
        self.counted.sort()
        holes = _Holes(self.script)
        for reach in self.reaches:
            for at in self.uncounted(holes, reach.start, reach.stop):
                self.refuse(at, reach)
        holes = _Holes(self.script)
        for use, start, stop in self.uses():
            for at in self.uncounted(holes, start, stop):
                if at in self.places:
                    self.places[at] = self.places[at]._replace(evaluated=use)

    def uncounted(self, holes: _Holes, start: int, stop: int) -> Iterator[int]:
        """The holes of a stretch, less those in a part of it that are only counted."""
        each = bisect_left(self.counted, (start, 0))
        while each < len(self.counted) and self.counted[each][0] < stop:
            inner, end = self.counted[each]
            if start <= inner and end <= stop:
                yield from holes.left(start, inner)
                start = end
            each += 1
        yield from holes.left(start, stop)

    def refuse(self, at: int, reach: Reach) -> None:
        place = self.places.get(at, Place("comment"))
        if not place.refused and place.quote != "comment":
            _, _, reason, of, through = reach
            self.places[at] = place._replace(refused=reason, of=of, through=through)

    def uses(self) -> Iterator[tuple[Use, int, int]]:
        """Where the variables that are evaluated get their values, also from each other."""
        left = list(self.evaluated.values())
        seen = {use.name for use in left}
        while left:
            use = left.pop()
            for start, stop in sorted(self.sources.get(use.name, ())):
                yield use, start, stop
                others = set(self.names_in(start, stop)) - seen
                seen |= others
                left += (use._replace(name=name) for name in sorted(others))


class _Holes:
    """The holes of a script, each to be visited once however many stretches it lies in."""

    def __init__(self, script: str) -> None:
        self.at = [at for at, char in enumerate(script) if char == HOLE]
        self.next = list(range(len(self.at) + 1))

    def left(self, start: int, stop: int) -> Iterator[int]:
        each = self._unvisited(bisect_left(self.at, start))
        while each < len(self.at) and self.at[each] < stop:
            self.next[each] = each + 1
            yield self.at[each]
            each = self._unvisited(each + 1)

    def _unvisited(self, each: int) -> int:
        while self.next[each] != each:
            self.next[each] = self.next[self.next[each]]
            each = self.next[each]
        return each
