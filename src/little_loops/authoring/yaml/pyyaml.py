"""What is used of PyYAML, imported without compiling its patterns.

PyYAML compiles ten patterns when it is imported, which takes a sixth of `ll-loop validate`. The parser
in C uses none of them. Here they are compiled when they are first used, so that PyYAML still works for
everybody else in this process.

Not here: what the parser's events mean (`source`). Nothing else imports yaml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from little_loops.light_typing import Any


class LazyPattern:
    """A regular expression that is compiled when one of its methods is first used."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._arguments), name)
        setattr(self, name, found)  # so that the next use does not come here
        return found


@contextmanager
def compiling_later() -> Iterator[None]:
    """Give the modules of PyYAML that are imported meanwhile lazy patterns."""
    compile_now = re.compile

    def compile_later(*arguments: Any) -> Any:
        # Another thread may compile a pattern of its own meanwhile.
        asking = sys._getframe(1).f_globals.get("__name__", "")
        return (LazyPattern if asking.startswith("yaml.") else compile_now)(*arguments)

    re.compile = compile_later  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = compile_now


with compiling_later():
    from yaml.error import YAMLError as YAMLError
    from yaml.events import AliasEvent as AliasEvent
    from yaml.events import DocumentStartEvent as DocumentStartEvent
    from yaml.events import MappingEndEvent as MappingEndEvent
    from yaml.events import MappingStartEvent as MappingStartEvent
    from yaml.events import ScalarEvent as ScalarEvent
    from yaml.events import SequenceEndEvent as SequenceEndEvent
    from yaml.events import SequenceStartEvent as SequenceStartEvent
    from yaml.events import StreamEndEvent as StreamEndEvent
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner


class PureParser(Reader, Scanner, Parser):
    """PyYAML's pure Python parser, for systems without the one in C."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


FASTEST: Any = PureParser
try:
    from yaml._yaml import CParser

    FASTEST = CParser
except ImportError:  # pragma: no cover - every wheel has it
    pass
