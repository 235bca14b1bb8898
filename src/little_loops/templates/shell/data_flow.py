"""Follow what a command prints through pipes and here-documents to the command that reads it.

A value that is harmless where it stands is refused all the same if a pipe carries it into a program
that runs its standard input.  What a command only counts (`| wc -l`) is carried nowhere: a number
is no code wherever it stands.

A pipeline is a stretch of the script up to its last `|`.  Pipelines nest: what is fed to a group of
commands is fed to each of them.

Not here: reading a script (`script`), variables (`shell_notes`).
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterator, Sequence

from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.quoting import Reader
from little_loops.templates.shell.roles import PRINTED, UNKNOWN
from little_loops.templates.shell.tokens import Document, Reach, Word

PIPE = "a pipe"

_COUNTS = re.compile(r"-[clmw]+")
_GREP_COUNTS = re.compile(r"-[EFGivwx]*c[EFGivwx]*")
_PLAIN_PATTERN = re.compile(r"[\w.:=^$][\w.:=^$\0-]*", re.ASCII)


def prints_numbers(words: Sequence[Word], reads_numbers: bool) -> bool:
    """Whether a command prints nothing but numbers, whatever else it reads."""
    match [word.text for word in words]:
        case ["wc", *options]:  # without a file's name, which it would print
            return all(_COUNTS.fullmatch(option) for option in options)
        case ["grep", options, pattern]:
            return bool(_GREP_COUNTS.fullmatch(options)) and _is_pattern(words[2], pattern)
        case ["echo", text]:
            return text.isdecimal()
        case ["tr", "-d", _]:
            return reads_numbers
        case ["true" | ":"]:
            return True
        case _:
            return False


def _is_pattern(word: Word, text: str) -> bool:
    """One word for sure, and no option."""
    if word.bare:
        return bool(_PLAIN_PATTERN.fullmatch(text))
    return not text.startswith(("-", HOLE)) and UNKNOWN not in text and PRINTED not in text


class Level:
    """A list of commands, while it is read."""

    __slots__ = (
        *("documents", "fed", "function", "group", "names", "numbers", "program", "start", "waits"),
        "only_numbers",
    )

    def __init__(self, at: int, group: bool = False, function: str = "") -> None:
        self.group = group  # begun by a reserved word, not by a parenthesis
        self.function = function  # its name, if this is the body of one
        self.program = ""  # what in it runs its standard input
        self.names: frozenset[str] = frozenset()  # the variables that are read from there
        self.only_numbers = self.numbers = True  # nothing else is printed, at all and so far
        self.begin(at)

    def begin(self, at: int) -> None:
        """A pipeline begins."""
        self.only_numbers = self.only_numbers and self.numbers
        self.numbers = True
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

    # Numbers

    def count(self, words: Sequence[Word]) -> None:
        """Note whether the command just read prints nothing but numbers."""
        level = self.levels[-1]
        reads_numbers = level.numbers and level.start < level.fed
        own = bool(words) and words[0].text in self.functions
        level.numbers = not own and prints_numbers(words, reads_numbers)

    def close(self, level: Level, start: int) -> None:
        """A substitution or subshell has been read to its end."""
        if level.only_numbers and level.numbers:
            self.numbers(start, self.at)

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
