"""Read a command line that needs no parser: names and a few flags without values.

The commands people and programs repeat most, `status` and `list --running`, then cost no argparse.
Whatever is not that plain goes to the real parser, which knows everything else, also the mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence


def plain(
    argv: Sequence[str], flags: Sequence[str], most_names: int
) -> tuple[list[str], set[str]] | None:
    """The names and the flags; None if a parser has to read it."""
    names = [word for word in argv if not word.startswith("-")]
    given = {word for word in argv if word.startswith("-")}
    if len(names) > most_names or not given.issubset(flags):
        return None
    return names, given
