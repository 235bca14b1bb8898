"""Say which operands of the shell's own words are code: eval, let, trap, `test -v`, declare, read …

bash evaluates more than it says: the subscript in a name (`a[$(id)]`), what is assigned to an
integer or to `OPTIND`, the operand of `-v`.

Not here: programs that are given a program (`shell_programs`), reading a script (`script`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.roles import PRINTED, VALUES, Finding, Role, Word

_DECLARES = ("declare", "typeset", "local", "readonly", "export")
_TAKES_NAMES = ("read", "unset", "getopts", "mapfile", "readarray")
TAKES_CODE = ("eval", "let", "alias", "compgen", "complete", "bind", "enable", "jobs")
_SOURCES = (".", "source")
EVALUATED = frozenset(
    (
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"),
        *("RANDOM", "SRANDOM", "OPTIND", "HISTCMD", "SECONDS", "LINENO"),
    )
)
"""Variables whose value the shell runs, or evaluates when it is assigned."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
INPUT_FILE = re.compile(r"(?:.*[=f])?(?:-|/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+)")
"""A file's name, or an option with one, that is the standard input or some open descriptor."""
# What is left of a word without its values, where these could make it `-v` or `-R`.
_NEARLY_OPERATOR = ("", "-", "v", "-v", "R", "-R")


POSITIONAL = "1"
"""Stands for `$1`, `$2`, `$@` … alike."""


class Effects(NamedTuple):
    """What a command does to variables, as far as later words depend on it."""

    given: tuple[tuple[str, int], ...] = ()  # a name, and the word that has its value
    read: frozenset[str] = frozenset()  # get what is on the standard input
    arrays: frozenset[str] = frozenset()
    integers: frozenset[str] = frozenset()
    makes_integers: bool = False  # these, or some whose names are not known
    makes_lists: bool = False  # what is given to an array is read as a list of words


def effects(words: Sequence[Word]) -> Effects:
    texts = [word.text for word in words]
    while texts and texts[0] in ("builtin", "command"):
        del texts[0]
    name = texts[0] if texts else ""
    if name in ("read", "mapfile", "readarray"):
        names = frozenset(filter(_NAME.fullmatch, texts[1:]))
        return Effects(read=names, arrays=names if name != "read" or "-a" in texts else frozenset())
    skipped = len(words) - len(texts)
    if name == "set":
        return Effects(tuple((POSITIONAL, at) for at in range(skipped + 1, len(words))))
    if name not in _DECLARES:
        return Effects()
    found = [(_NAME.match(text), at + skipped) for at, text in enumerate(texts)]
    given = tuple((each[0], at) for each, at in found[1:] if each)
    flags = "".join(text[1:] for text in texts[1:] if text.startswith("-"))
    names = frozenset(each for each, _ in given)
    return Effects(
        given,
        arrays=names if set("aA") & set(flags) else frozenset(),
        integers=names if set("in") & set(flags) else frozenset(),
        makes_integers=bool(set("in") & set(flags)),
        makes_lists=name not in ("readonly", "export"),
    )


def assigned(at: int, text: str, of: str) -> Finding:
    """`NAME=value` as an argument; some names make code of it."""
    name = text.partition("=")[0].rstrip("+")
    return Finding(at, "variable", name) if name in EVALUATED else Finding(at, "value", of)


def builtin(name: str, words: Sequence[Word], at: int) -> Iterator[Finding]:
    """The shell's own words that evaluate what they are given."""
    rest = range(at, len(words))
    if name in TAKES_CODE:
        yield from (Finding(each, "program", name) for each in rest)
    elif name == "trap":
        operands = (each for each in rest if words[each].text != "--")
        yield from (Finding(each, "program", name) for each in operands)
    elif name in _TAKES_NAMES:
        yield from (
            Finding(each, "value" if words[each - 1].text == "-p" else "name", name)
            for each in rest
        )
    elif name in _DECLARES:
        yield from _declared(name, words, at)
    elif name in ("test", "["):
        yield from (Finding(each, _tested(words, at, each), name) for each in rest)
    elif name in _SOURCES:
        yield from _sourced(words, at)
    elif name == "wait":
        named = (each for each in rest if words[each - 1].text == "-p")
        yield from (Finding(each, "name", name) for each in named)
    elif name == "printf" and at < len(words):
        yield from _printf(words, at)


def _tested(words: Sequence[Word], first: int, at: int) -> Role:
    """bash evaluates the operand of `-v`, and the operator may be a value itself."""
    word = words[at]
    if words[at - 1].text in ("-v", "-R"):
        return "name"
    behind = at > first and _may_be_operator(words[at - 1]) and _has_value(word)
    before = at + 1 < len(words) and _may_be_operator(word) and _has_value(words[at + 1])
    splits = word.bare and PRINTED in word.text
    return "operator" if behind or before or splits else "value"


def _has_value(word: Word) -> bool:
    return any(mark in word.text for mark in VALUES)


def _may_be_operator(word: Word) -> bool:
    rest = word.text.replace(HOLE, "").replace(PRINTED, "")
    return rest != word.text and rest in _NEARLY_OPERATOR


def _sourced(words: Sequence[Word], at: int) -> Iterator[Finding]:
    at += at < len(words) and words[at].text == "--"
    if at < len(words):
        yield Finding(at, "program", "source")
        if INPUT_FILE.fullmatch(words[at].text):
            yield Finding(-1, "input", "source")


def _declared(name: str, words: Sequence[Word], at: int) -> Iterator[Finding]:
    rest = range(at, len(words))
    # With -a, -A, -i or -n bash evaluates the value as well; export never evaluates a name.
    evaluates = any(re.match(r"-\w*[aAin]", words[each].text) for each in rest)
    for each in rest:
        plain = name == "export" or _ASSIGNMENT.match(words[each].text)
        if plain and not evaluates:
            yield assigned(each, words[each].text, name)
        else:
            yield Finding(each, "name", name)


def _printf(words: Sequence[Word], at: int) -> Iterator[Finding]:
    text = words[at].text
    if text.startswith("-v"):
        yield Finding(at if len(text) > 2 else at + 1, "name", "printf")
    else:
        yield Finding(at, "option", "printf")
