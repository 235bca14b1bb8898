"""The words that may come next on a command line: verbs, options and their values, names.

Names of loops, runs and states come from the names of files (`completion.names`), options from the
page of the verb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from little_loops.cli.commands import ALIASES, VERBS
from little_loops.cli.completion import names

if TYPE_CHECKING:
    from argparse import Action

ARGUMENTS = {
    **dict.fromkeys(("run", "validate", "compile", "show", "graph", "trust"), "loops"),
    **dict.fromkeys(("status", "logs", "history", "wait"), "all"),
    **dict.fromkeys(("stop", "attach"), "live"),
    "resume": "runs",
}
"""What kind of name each verb takes."""
STATES = ("--from", "--state")
"""The options whose value is a state of the run named before."""

Word = tuple[str, str]
"""A candidate, and what it is."""


def candidates(words: Sequence[str], root: str) -> Iterator[Word]:
    """What may stand in the place of the last word."""
    *before, current = words or [""]
    for word, text in _all(before, current, root):
        if word.startswith(current):
            yield word, text


def _all(before: Sequence[str], current: str, root: str) -> Iterator[Word]:
    named = [word for word in before if not word.startswith("-")]
    verb = named[0] if named else ""
    if verb == "help":
        from little_loops.cli.topics import TOPICS  # beside the verbs, only `help` knows them

        yield from ((topic, "a topic") for topic in TOPICS)
        yield from ((name, entry.summary) for name, entry in VERBS.items())
    elif not verb and current.startswith("-"):
        yield from (("--help", "show the verbs"), ("--version", "show the version"))
    elif not verb:
        yield from ((name, entry.summary) for name, entry in VERBS.items())
        yield from ((alias, f"ll-loop {' '.join(means)}") for alias, means in ALIASES.items())
        yield ("help", "explain a verb or a topic")
        yield from ((name, "a loop") for name in sorted(set(names("loops", root))))
    else:
        yield from _of_verb(verb, before, current, root)


def _of_verb(verb: str, before: Sequence[str], current: str, root: str) -> Iterator[Word]:
    name = ALIASES[verb][0] if verb in ALIASES else verb
    if name not in VERBS:
        name, before = "run", ("run", *before)  # `ll-loop LOOP`
    if name in ARGUMENTS and not current.startswith("-") and not before[-1].startswith("-"):
        yield from ((each, "") for each in sorted(set(names(ARGUMENTS[name], root))))
        return
    actions = import_module(f"little_loops.cli.{VERBS[name].module}").parser()._actions
    option = next((each for each in actions if before[-1] in each.option_strings), None)
    if option is not None and option.nargs not in (0, "?"):
        yield from _values(option, before, root)
    elif current.startswith("-"):
        yield from ((word, _help(each)) for each in actions for word in each.option_strings)
    else:
        operands = [each for each in actions if not each.option_strings]
        yield from ((str(word), "") for each in operands for word in each.choices or ())
        if name in ARGUMENTS:  # after a flag
            yield from ((each, "") for each in sorted(set(names(ARGUMENTS[name], root))))


def _values(option: Action, before: Sequence[str], root: str) -> Iterator[Word]:
    yield from ((str(word), "") for word in option.choices or ())
    if before[-1] in STATES:
        runs = [word for word in before[1:] if not word.startswith("-")]
        yield from ((each, "") for run in runs[:1] for each in names("states", root, run))


def _help(option: Action) -> str:
    text = (option.help or "").replace("%%", "%")
    return text if text != "==SUPPRESS==" else ""
