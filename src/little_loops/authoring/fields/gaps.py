"""What of a document could not be read, so that nothing is said that only follows from it.

A gap hides what rests on it and nothing else: an action that could not be read hides the question
whether there is a result of it, never what is wrong with another state.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from little_loops.records import NamedTuple

ANYTHING = "*"
"""A gap in which any field may have stood."""


class Gaps(NamedTuple):
    """The fields that were meant to say something but could not be read.

    `states` has every state with a problem in it, also one that left no gap.  A variable is
    called `context.NAME` here.
    """

    loop: AbstractSet[str] = frozenset()
    states: Mapping[str, AbstractSet[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.loop or self.states)

    def in_loop(self, *fields: str) -> bool:
        """Is one of these fields of the loop a gap?"""
        return ANYTHING in self.loop or not self.loop.isdisjoint(fields)

    def in_state(self, name: str, *fields: str) -> bool:
        """Is one of these fields of the state a gap?"""
        own = self.states.get(name, frozenset())
        return ANYTHING in own or not own.isdisjoint(fields)

    def anywhere(self, field: str) -> bool:
        """Is this field a gap in some state, or may there be states that are not known?"""
        return self.in_loop("states") or any(self.in_state(name, field) for name in self.states)

    def unsure(self, name: str) -> bool:
        """Is there anything wrong with this state, or with what states there are?"""
        return name in self.states or self.in_loop("states")

    def hides_variable(self, name: str, state: str | None) -> bool:
        """May there be a variable of this name after all?  Without a state: in any of them."""
        wanted = ("context", f"context.{name}")
        if self.in_loop(*wanted):
            return True
        if state is not None:
            return self.in_state(state, *wanted)
        return any(self.anywhere(each) for each in wanted)


NO_GAPS = Gaps()
