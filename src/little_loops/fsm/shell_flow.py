"""Follow what a command prints through pipes and here-documents to the command that reads it.

A value that is harmless where it stands is refused all the same if a pipe carries it into a program
that runs its standard input.

A pipeline is a stretch of the script up to its last `|`.  Pipelines nest: what is fed to a group of
commands is fed to each of them.

Not here: reading a script (`shell_text`), variables (`shell_notes`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator

from little_loops.fsm.shell_quotes import Reader
from little_loops.fsm.shell_words import Document, Reach

PIPE = "a pipe"


class Level:
    """A list of commands, while it is read."""

    __slots__ = ("documents", "fed", "function", "group", "names", "program", "start", "waits")

    def __init__(self, at: int, group: bool = False, function: str = "") -> None:
        self.group = group  # begun by a reserved word, not by a parenthesis
        self.function = function  # its name, if this is the body of one
        self.program = ""  # what in it runs its standard input
        self.names: frozenset[str] = frozenset()  # the variables that are read from there
        self.begin(at)

    def begin(self, at: int) -> None:
        """A pipeline begins."""
        self.start = self.fed = at
        self.documents: list[tuple[int, int]] = []
        self.waits = False

    def pipe(self, at: int) -> None:
        self.fed, self.waits = at, True

    def feeds(self) -> list[tuple[int, int]]:
        """What stands in the pipeline so far, its here-documents included."""
        return [(self.start, self.fed), *self.documents] if self.start < self.fed else []


class Flow(Reader, ABC):
    def __init__(self, script: str, shell: str) -> None:
        super().__init__(script, shell)
        self.levels: list[Level] = []
        self.functions: dict[str, Level] = {}

    # Pipes

    def run_input(self, program: str) -> None:
        """The command just read runs what is on its standard input."""
        for level in self.levels:
            for start, stop in level.feeds():
                self.reaches.append(Reach(start, stop, "program", program, PIPE))
                for document in self.announced(start, stop):
                    document.program = program
            level.start = level.fed  # what is refused once need not be looked at again
            level.program = program

    def read_input(self, names: frozenset[str]) -> None:
        """The command just read puts its standard input into variables."""
        for level in self.levels:
            for start, stop in level.feeds():
                self.given(names, start, stop)
                for document in self.announced(start, stop):
                    document.names |= names
            level.names |= names

    def announced(self, start: int, stop: int) -> Iterator[Document]:
        return (each for each in self.documents if start <= each.at < stop)

    def passed(self, document: Document, start: int, stop: int) -> None:
        self.given(document.names, start, stop)
        for level in self.levels:
            if level.start <= document.at < level.fed:
                level.documents.append((start, stop))
