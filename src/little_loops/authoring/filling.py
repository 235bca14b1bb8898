"""Fill in the author's own values in a loop's texts, and determine the kinds of its actions.

Values may refer to each other, so a small file can stand for a very large text. The work is
bounded, far beyond any real loop; mistakes beyond that are reported by a run, in the same words.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import cached_property

from little_loops.authoring.texts import values
from little_loops.fsm.actions import Action, is_agents, parse_action
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any
from little_loops.templates.render import TemplateError, Unresolved
from little_loops.templates.splice import LONGEST, Spliced, spliced, written

MOST_SPLICED = 2_000_000
MOST_REFERENCES = 25_000
"""Each reference takes a few microseconds, however short it is."""

Filled = tuple[Spliced, ...] | TemplateError | Unresolved | None
"""The text with the author's values filled in, or the error; None if a limit was reached."""


class Filling:
    """Fills in the texts of one loop, each once."""

    def __init__(self, loop: FSMLoop) -> None:
        """Prepare to fill in the texts of a loop; results are cached and counted against its
        limits."""
        self.loop = loop
        self._spliced = 0
        self._references = 0
        self.unchecked: dict[str, None] = {}
        """What exceeded a limit, so that not everything was checked, in words."""
        self._filled: dict[tuple[str, str], Filled] = {}

    def filled(self, name: str, text: str) -> Filled:
        """Return a text of the state `name` with the author's values filled in, or the error; None
        once a limit for the whole loop is exceeded."""
        key = (text, name if self.loop.states[name].context else "")
        if key not in self._filled:
            self._filled[key] = self._fill(text, self.context_of(name))
        return self._filled[key]

    def as_text(self, name: str, text: str) -> str:
        """Return a text with the author's values filled in; unchanged if that fails."""
        found = self.filled(name, text)
        return "".join(map(written, found)) if isinstance(found, tuple) else text

    def context_of(self, name: str) -> Mapping[str, Any]:
        """Return the variables that a state sees: its own, and the loop's."""
        own = self.loop.states[name].context
        if not own:
            return self.loop.context
        return ChainMap(own, self.loop.context)  # type: ignore[arg-type] # it is only read

    def _fill(self, text: str, context: Mapping[str, Any]) -> Filled:
        """Fill in a text, and return the pieces or the error. None if a limit for the whole loop is
        exceeded, which is recorded."""
        self._references += text.count("${")
        if "${context." in text:
            self._references += self._in_context
        if self._references > MOST_REFERENCES:
            self.stop_at(MOST_REFERENCES, "references")
            return None
        if self._spliced > MOST_SPLICED:
            self.stop_at(MOST_SPLICED, "characters once its values are filled in")
            return None
        try:
            found = spliced(text, context)
        except (TemplateError, Unresolved) as problem:
            too_long = "longer than" in str(problem)
            self._spliced += LONGEST if too_long else len(text)
            return problem
        self._spliced += sum(len(written(piece)) for piece in found)
        return found

    def stop_at(self, most: int, of_what: str) -> None:
        """Record that a limit stopped a check early."""
        self.unchecked[f"more than {most:,} {of_what}"] = None

    @cached_property
    def _in_context(self) -> int:
        """The number of references in the loop's variables if that is very large, else 0."""
        count = sum(each.text.count("${") for each in values(self.loop.context, ()))
        return count if count > MOST_REFERENCES else 0

    @cached_property
    def actions(self) -> Mapping[str, Action]:
        """The action of each state that has one, with the author's values filled in."""
        return {
            name: parse_action(self._text(name, state.action), state.action_type)
            for name, state in self.loop.states.items()
            if state.action is not None
        }

    def _text(self, name: str, action: str) -> str:
        return self.as_text(name, action) if "${" in action else action

    @cached_property
    def agents(self) -> frozenset[str]:
        """The states whose action an agent runs."""
        return frozenset(name for name, action in self.actions.items() if is_agents(action))
