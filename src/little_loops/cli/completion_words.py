"""The candidates for the next word of a command line: verbs, options and their values, names.

Names of loops, runs and states come from file names (`completion.names`), options from the
declarations of a verb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from little_loops.cli.commands import ALIASES, VERBS
from little_loops.cli.completion import names
from little_loops.cli.options import Option, args_of

Word = tuple[str, str]
"""A candidate and its description."""


def candidates(words: Sequence[str], root: str) -> Iterator[Word]:
    """Yield the candidates for the last word."""
    *before, current = words or [""]
    for word, text in _all(before, current, root):
        if word.startswith(current):
            yield word, text


def _all(before: Sequence[str], current: str, root: str) -> Iterator[Word]:
    """Yield all candidates for this position, whatever is already typed of the word."""
    verb = next((word for word in before if not word.startswith("-")), "")
    if verb == "help":
        from little_loops.cli.topics import TOPICS  # beside the verbs, only `help` knows them

        yield from ((topic, "a topic") for topic in TOPICS)
        yield from _verbs()
    elif not verb and current.startswith("-"):
        yield from (("--help", "show the verbs"), ("--version", "show the version"))
    elif not verb:
        yield from _verbs()
        yield from ((alias, f"ll-loop {' '.join(means)}") for alias, means in ALIASES.items())
        yield ("help", "explain a verb or a topic")
        yield from ((name, "a loop") for name, _ in _named("loops", root))
    else:
        yield from _after_verb(verb, before, current, root)


def _verbs() -> Iterator[Word]:
    return ((name, entry.summary) for name, entry in VERBS.items())


def _after_verb(verb: str, before: Sequence[str], current: str, root: str) -> Iterator[Word]:
    """Yield the candidates after a verb: names, options, or the values of an option."""
    name = ALIASES[verb][0] if verb in ALIASES else verb
    if name not in VERBS:
        name, before = "run", ("run", *before)  # `ll-loop LOOP`
    if VERBS[name].names and not current.startswith("-") and not before[-1].startswith("-"):
        yield from _named(
            VERBS[name].names, root
        )  # the most frequent case, so without loading the verb's module
        return
    options = args_of(name).table.values()
    option = next((each for each in options if before[-1] in each.flags), None)
    if option is not None and option.kind == "value" and not option.optional:
        yield from _values(option, before, root)
    elif current.startswith("-"):
        shown = (each for each in options if not each.hidden)
        yield from ((flag, each.help) for each in shown for flag in each.flags)
        yield from (("-h", "show this help"), ("--help", "show this help"))
    else:
        yield from ((word, "") for each in options if not each.flags for word in each.choices)
        yield from _named(VERBS[name].names, root)


def _values(option: Option, before: Sequence[str], root: str) -> Iterator[Word]:
    """Yield the candidates for the value of an option; states are those of the run named before."""
    yield from ((word, "") for word in option.choices)
    runs = [word for word in before[1:] if not word.startswith("-")]
    if option.names and runs:
        yield from _named(option.names, root, runs[0])


def _named(kind: str, root: str, argument: str = "") -> Iterator[Word]:
    return ((each, "") for each in sorted(set(names(kind, root, argument))))
