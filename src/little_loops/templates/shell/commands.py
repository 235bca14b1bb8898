"""List the simple commands of a script in order, including those of scripts nested in it.

Not here: what the words of a command mean to it (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.reader import read_script
from little_loops.templates.shell.rules import findings
from little_loops.templates.shell.words import UNKNOWN, Word

Command = tuple[Word, ...]
DEEPEST = 5
_RUNS_TEXT = ("sh", "bash", "dash", "eval")


def commands_in(script: str, shell: str = "sh", depth: int = 0) -> Iterator[Command]:
    """Yield the words of each command, as far as the script can be parsed; `HOLE` marks values.

    Commands in `sh -c` and `eval` follow the one that runs them; `depth` is how many of these are
    around the script.
    """
    for words in read_script(script, shell).commands:
        yield words
        for at, finding in findings(words).items() if depth < DEEPEST else ():
            if at >= 0 and finding.role == "program" and finding.of in _RUNS_TEXT:
                yield from commands_in(words[at].text, shell, depth + 1)


def is_known(word: Word) -> bool:
    """Return whether the script itself contains all of this word."""
    return HOLE not in word.text and UNKNOWN not in word.text
