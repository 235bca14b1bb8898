"""What could not be read in a document, so that no follow-up problems are reported.

A gap only hides what depends on it: an action that could not be read hides whether its result
exists, but never a problem in another state.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from little_loops.records import NamedTuple

ANYTHING = "*"
"""Stands for a field whose name could not be read, so it may be any field."""


class Gaps(NamedTuple):
    """The fields that were written, but could not be read.

    `states` has every state with a problem, even without a gap. A variable is called `context.NAME`
    here.
    """

    loop: AbstractSet[str] = frozenset()
    states: Mapping[str, AbstractSet[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.loop or self.states)

    def in_loop(self, *fields: str) -> bool:
        """Return whether one of these fields of the loop could not be read."""
        return ANYTHING in self.loop or not self.loop.isdisjoint(fields)

    def in_state(self, name: str, *fields: str) -> bool:
        """Return whether one of these fields of the state could not be read."""
        own = self.states.get(name, frozenset())
        return ANYTHING in own or not own.isdisjoint(fields)

    def anywhere(self, field: str) -> bool:
        """Return whether this field could not be read in some state, or states may be missing."""
        return self.in_loop("states") or any(self.in_state(name, field) for name in self.states)

    def unsure(self, name: str) -> bool:
        """Return whether anything is wrong with this state, or states may be missing."""
        return name in self.states or self.in_loop("states")

    def hides_variable(self, name: str, state: str | None) -> bool:
        """Return whether a variable of this name may exist after all; without a state, in any of
        them."""
        wanted = ("context", f"context.{name}")
        if self.in_loop(*wanted):
            return True
        if state is not None:
            return self.in_state(state, *wanted)
        return any(self.anywhere(each) for each in wanted)


NO_GAPS = Gaps()
