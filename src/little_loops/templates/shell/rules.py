"""Which words of a command are code: its name, and program text among its arguments.

The list of programs is fixed: eval, sh, bash and dash -c, python -c, perl -e, awk, sed, jq, and the
builtins whose operands bash evaluates (`let`, `trap`, names like `a[$(id)]`, `test -v`). What other
programs do with their arguments is up to the author.

Not here: parsing a script (`reader`), messages (`refusals`).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence

from little_loops.light_typing import Literal, TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.words import UNKNOWN, ArgumentRole, Role, Word

Option: TypeAlias = Literal[
    "program",  # its value is program text
    "final",  # the same, and all following words are arguments
    "module",  # its value names a program, and all following words are arguments
    "file",  # its value names a file with the program
    "value",  # its value is something else
    "glued",  # its value, if any, is in the same word
    "asks",  # no value; the first operand is the program
    "input",  # no value; the program is on the standard input
]


class Grammar(NamedTuple):
    """The options of a program, as far as they determine where its program text is."""

    letters: Mapping[str, Option]
    long: Mapping[str, Option] = {}
    long_values: Mapping[str, int] = {}
    operand: bool = False  # the first operand is the program unless an option gave it
    permutes: bool = False  # options may follow operands
    options_run: bool = True  # an option can contain a program
    reads_input: bool = False  # without an operand or a program, it runs its standard input
    signs: tuple[str, ...] = ("-",)


_SHELL = Grammar(
    {"c": "asks", "s": "input", "o": "value", "O": "value"},
    long_values={"--rcfile": 1, "--init-file": 1},
    reads_input=True,
    signs=("-", "+"),
)
_AWK = Grammar(
    {"e": "program", "f": "file", "E": "file", **dict.fromkeys("FvilW", "value")},
    long={"--source": "program", "--file": "file", "--exec": "file"},
    long_values={"--assign": 1, "--field-separator": 1, "--include": 1, "--load": 1},
    operand=True,
)
_SED = Grammar(
    {"e": "program", "f": "file", "l": "value", "i": "glued"},
    long={"--expression": "program", "--file": "file"},
    long_values={"--line-length": 1},
    operand=True,
    permutes=True,
)
_JQ = Grammar(
    {"f": "file", "L": "value"},
    long={"--from-file": "file"},
    long_values={"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2, "--indent": 1},
    operand=True,
    permutes=True,
    options_run=False,
)
_PYTHON = Grammar({"c": "final", "m": "module", "W": "value", "X": "value"}, reads_input=True)
_PERL = Grammar(
    {"e": "program", "E": "program", "I": "value", **dict.fromkeys("iMmF", "glued")},
    reads_input=True,
)

GRAMMARS: Mapping[str, Grammar] = {
    **dict.fromkeys(("sh", "bash", "dash"), _SHELL),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("sed", "gsed"), _SED),
    "jq": _JQ,
    "python": _PYTHON,
    "perl": _PERL,
}
# Their option clearly means that code follows, so they are also searched after other programs:
# `docker run image sh -c …`, `find . -exec sh -c … \;`.
_FOUND_ANYWHERE = ("sh", "bash", "dash", "python", "perl")
_NEAR = 100
_RUNS_NEXT = ("-exec", "-execdir", "-ok", "-okdir")
# Programs that pass their standard input on to a command among their arguments.
_CARRIES_INPUT = ("ssh", "docker", "podman", "kubectl", "su", "nsenter", "lxc", "incus")

# Programs that run the rest of their line, with the letters of options that take a word.
PREFIXES: Mapping[str, str] = {
    "env": "uCS",
    "exec": "a",
    "command": "",
    "builtin": "",
    "sudo": "ugpCDhRrtTU",
    "doas": "uC",
    "xargs": "nILPsdEa",
    "nohup": "",
    "setsid": "",
    "time": "fo",
    "nice": "n",
    "ionice": "cn",
    "stdbuf": "ioe",
    "busybox": "",
    "timeout": "sk",
    "flock": "wE",
    "chroot": "",
}
_OPERAND_FIRST = ("timeout", "flock", "chroot")  # the command begins after it

_TAKES_CODE = ("eval", "let", "trap", "alias", "compgen", "complete", "bind", "enable", "jobs")
_DECLARES = ("declare", "typeset", "local", "readonly", "export")
_TESTS = ("test", "[")
_EVERY_OPERAND: Mapping[str, Role] = {
    **dict.fromkeys(_TAKES_CODE, "program"),
    **dict.fromkeys(("read", "unset", "getopts", "mapfile", "readarray"), "name"),
    **dict.fromkeys(_TESTS, "value"),
}
_FIRST_OPERAND: Mapping[str, Role] = {"source": "program", "printf": "option"}
_AFTER_OPTION: Mapping[tuple[str, str], Role] = {
    ("read", "-p"): "value",
    ("wait", "-p"): "name",
    ("printf", "-v"): "name",
    **{(name, option): "name" for name in _TESTS for option in ("-v", "-R")},
}
EVALUATED = frozenset(
    (
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"),
        *("RANDOM", "SRANDOM", "OPTIND", "HISTCMD", "SECONDS", "LINENO"),
    )
)
"""Variables whose value the shell runs, or evaluates on assignment."""
_RUNS_CODE = (*GRAMMARS, *PREFIXES, *_TAKES_CODE)

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_PYTHON_NAME = re.compile(r"python[0-9.]*")
_INPUT_FILE = re.compile(r"(?:.*[=f])?(?:-|/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+)")
"""The name of the standard input as a file, or an option with it."""
# The rest of a word without its values, where these could make it `-v` or `-R`.
_NEARLY_OPERATOR = ("", "-", "v", "-v", "R", "-R")


def findings(words: Sequence[Word]) -> dict[int, ArgumentRole]:
    """Return what is special about the words of one simple command, by index.

    Of several findings for one word, the first counts.
    """
    found: dict[int, ArgumentRole] = {}
    for finding in _all_findings(words):
        found.setdefault(finding.at, finding)
    return found


def declared(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield the assignments among the arguments of `export`, `local` and the like."""
    if words and words[0].text in _DECLARES:
        for word in words[1:]:
            if found := _ASSIGNMENT.match(word.text):
                yield found[1], word


def makes_integers(words: Sequence[Word]) -> bool:
    """Return whether a command makes variables evaluate what is assigned to them from then on."""
    declares = any(word.text in _DECLARES for word in words[:2])
    return declares and any(re.match(r"-\w*[in]", word.text) for word in words)


def _all_findings(words: Sequence[Word]) -> Iterator[ArgumentRole]:
    """Yield all findings for the words of one simple command."""
    first = yield from _prefixes(words)
    if first >= len(words):
        return
    name = _name(words[first].text)
    yield ArgumentRole(first, "command", "")
    yield from _builtin(name, words, first + 1)
    if name in GRAMMARS:
        yield from _program_text(words, first + 1, name)
    for start, end, other in _inner_commands(words, first + 1):
        for each in _program_text(words[start:end], 0, other):
            if each.role in ("program", "value"):
                yield each._replace(at=start + each.at)
            elif each.role == "input" and name in _CARRIES_INPUT:
                yield each


def _inner_commands(words: Sequence[Word], at: int) -> Iterator[tuple[int, int, str]]:
    """Yield commands among the arguments of another: start and end of their arguments, and the
    name."""
    taken = at
    for each in range(at, len(words)):
        name = _name(words[each].text)
        if name in _FOUND_ANYWHERE:
            yield each + 1, each + 1 + _NEAR, name
        elif name in GRAMMARS and words[each - 1].text in _RUNS_NEXT and each >= taken:
            ends = (end for end in range(each, len(words)) if words[end].text in (";", "+"))
            taken = next(ends, len(words))
            yield each + 1, taken, name


def _name(text: str) -> str:
    """Return the name of a program without its directory; `source` for `.`, `python` for `python3`."""
    base = text.rpartition("/")[2]
    if base == ".":
        return "source"
    return "python" if _PYTHON_NAME.fullmatch(base) else base


# Before the command


def _prefixes(words: Sequence[Word]) -> Generator[ArgumentRole, None, int]:
    """Skip prefixes such as `sudo -u me env A=b`. Return the index of the command that they run."""
    at = 0
    while at < len(words):
        name = _name(words[at].text)
        if after := _after_expansions(words, at):
            yield ArgumentRole(at, "command", "")
            at = after
            yield ArgumentRole(at, "vanishing", "")
        elif name not in PREFIXES or _only_looks_up(words, at):
            return at
        else:
            at = yield from _prefix_options(words, at + 1, name)
            if name in _OPERAND_FIRST:
                yield ArgumentRole(at, "value", name)
                at += 1
    return at


def _after_expansions(words: Sequence[Word], at: int) -> int:
    """Return the index of the word after unquoted expansions, if that could be the command; else 0.

    In `$SUDO $TIME sh -c …`, both may be empty.
    """
    after = at
    while after < len(words) and _is_expansion(words[after]):
        after += 1
    following = words[after].text if at < after < len(words) else ""
    return after if following.startswith(HOLE) or _name(following) in _RUNS_CODE else 0


def _is_expansion(word: Word) -> bool:
    """Return whether a word is nothing but an unquoted expansion."""
    return word.bare and set(word.text) == {UNKNOWN}


def _only_looks_up(words: Sequence[Word], at: int) -> bool:
    """Return whether this is `command -v name`, which runs nothing."""
    following = words[at + 1].text if at + 1 < len(words) else ""
    return words[at].text == "command" and following in ("-v", "-V")


def _prefix_options(
    words: Sequence[Word], at: int, name: str
) -> Generator[ArgumentRole, None, int]:
    """Skip the options and assignments of a prefix. Return the index of the word after them."""
    while at < len(words):
        text = words[at].text
        if text == "--":
            return at + 1
        if text.startswith("-"):
            if name == "env" and text.startswith(("-S", "--split-string")):
                yield ArgumentRole(at, "command", name)
                yield ArgumentRole(at + 1, "command", name)
            if len(text) == 2 and text[1] in PREFIXES[name]:
                yield ArgumentRole(at + 1, "value", name)
                at += 1
        elif _ASSIGNMENT.match(text):
            yield _assigned(at, text, name)
        else:
            return at
        at += 1
    return at


# Builtins


def _builtin(name: str, words: Sequence[Word], at: int) -> Iterator[ArgumentRole]:
    """Yield the operands of a builtin that bash evaluates."""
    if name in _DECLARES:
        yield from _declared(name, words, at)
        return
    every = _EVERY_OPERAND.get(name)
    first = at + (name == "source" and at < len(words) and words[at].text == "--")
    for each in range(at, len(words)):
        role = _AFTER_OPTION.get((name, words[each - 1].text), every)
        if each == first and role is None:
            role = _FIRST_OPERAND.get(name)
        if name in _TESTS and role == "value" and _may_be_operation(words, at, each):
            role = "operator"
        if name == "printf" and each == at and words[at].text.startswith("-v"):
            role = "name"
        if role is not None:
            yield ArgumentRole(each, role, name)
    if name == "source" and first < len(words) and _INPUT_FILE.fullmatch(words[first].text):
        yield ArgumentRole(-1, "input", name)


def _may_be_operation(words: Sequence[Word], first: int, at: int) -> bool:
    """Return whether two adjacent values may be an operator and its operand, which bash evaluates
    for `-v`."""
    after = at > first and _may_be_operator(words[at - 1]) and HOLE in words[at].text
    before = at + 1 < len(words) and _may_be_operator(words[at]) and HOLE in words[at + 1].text
    return after or before


def _may_be_operator(word: Word) -> bool:
    return HOLE in word.text and word.text.replace(HOLE, "") in _NEARLY_OPERATOR


def _declared(name: str, words: Sequence[Word], at: int) -> Iterator[ArgumentRole]:
    """Yield findings for the arguments of `export`, `local` and the like."""
    rest = range(at, len(words))
    # With -a, -A, -i or -n, bash also evaluates the value; `export` never evaluates a name.
    evaluates = any(re.match(r"-\w*[aAin]", words[each].text) for each in rest)
    for each in rest:
        plain = name == "export" or _ASSIGNMENT.match(words[each].text)
        if plain and not evaluates:
            yield _assigned(each, words[each].text, name)
        else:
            yield ArgumentRole(each, "name", name)


def _assigned(at: int, text: str, of: str) -> ArgumentRole:
    """Return the finding for `NAME=value` as an argument; the shell runs the value of some names."""
    name = text.partition("=")[0].rstrip("+")
    return (
        ArgumentRole(at, "variable", name) if name in EVALUATED else ArgumentRole(at, "value", of)
    )


# Programs with a program among their arguments


def _program_text(words: Sequence[Word], at: int, name: str) -> Iterator[ArgumentRole]:
    """Walk over a program's options, and yield what is its program: words with its text, scripts, and
    the standard input (at -1). Words that could be one, or an option with one, are yielded too."""
    grammar = GRAMMARS[name]
    wanted, given, reads = grammar.operand, False, False
    while at < len(words):
        word = words[at]
        if word.text == "--":
            following = words[at + 1].text if at + 1 < len(words) else "-"
            if wanted:
                yield ArgumentRole(at + 1, "program", name)
            given = given or following != "-"
            break
        if _is_expansion(word):  # `sed $FLAGS …`: none, one or many options, or the program
            yield ArgumentRole(at, "program", name)
            at += 1
        elif word.text == "-" or not word.text.startswith(grammar.signs):
            yield from _operand(word, at, name, wanted, given or reads)
            wanted = wanted and not word.text
            given = given or not _INPUT_FILE.fullmatch(word.text)
            if not grammar.permutes:
                break
            at += 1
        else:
            step = _option(word.text, at, name, grammar)
            yield from step.findings
            wanted = (wanted or step.asks) and not step.given
            given, reads = given or step.given, reads or step.reads or _reads_input(step, words)
            at = step.next
            if step.last:
                break
    if reads or (grammar.reads_input and not given):
        yield ArgumentRole(-1, "input", name)


def _reads_input(step: _Step, words: Sequence[Word]) -> bool:
    """Return whether an option reads the program from the standard input, as in `awk -f -`."""
    files = (each.at for each in step.findings if each.role == "file" and each.at < len(words))
    return any(_INPUT_FILE.fullmatch(words[at].text) for at in files)


def _operand(word: Word, at: int, name: str, wanted: bool, given: bool) -> Iterator[ArgumentRole]:
    """Yield the finding for an operand: a program, a script, or possibly an option."""
    grammar = GRAMMARS[name]
    if wanted and word.text:  # in `sed -i '' …`, the empty word is a suffix
        yield ArgumentRole(at, "program", name)
    elif grammar.reads_input and not given:
        yield ArgumentRole(at, "script", name)
    elif grammar.options_run:
        yield ArgumentRole(at, "option", name)


class _Step(NamedTuple):
    """The effect of one option, and the index of the next word."""

    next: int
    findings: tuple[ArgumentRole, ...] = ()
    given: bool = False
    asks: bool = False
    reads: bool = False
    last: bool = False


def _option(text: str, at: int, name: str, grammar: Grammar) -> _Step:
    """Return the effect of an option word, which may combine several letters."""
    if text.startswith("--"):
        return _long_option(text, at, name, grammar)
    asks = reads = False
    for place, letter in enumerate(text[1:], start=2):
        if letter in (HOLE, UNKNOWN):
            return _Step(at + 1, (ArgumentRole(at, "program", name),))
        option = grammar.letters.get(letter)
        if option == "glued":
            break
        if option not in (None, "asks", "input"):
            return _valued(option, at if place < len(text) else at + 1, name)
        asks, reads = asks or option == "asks", reads or option == "input"
    return _Step(at + 1, asks=asks, reads=reads)


def _long_option(text: str, at: int, name: str, grammar: Grammar) -> _Step:
    """Return the effect of an option with two dashes; GNU programs accept abbreviations."""
    option, glued, _ = text.partition("=")
    if HOLE in option or UNKNOWN in option:
        return _Step(at + 1, (ArgumentRole(at, "program", name),))
    for full, kind in grammar.long.items():
        if len(option) > 3 and full.startswith(option):  # `--expr` is enough for GNU programs
            return _valued(kind, at if glued else at + 1, name)
    count = 0 if glued else grammar.long_values.get(option, 0)
    values = tuple(ArgumentRole(at + 1 + each, "value", name) for each in range(count))
    return _Step(at + 1 + count, values)


def _valued(option: Option | None, at: int, name: str) -> _Step:
    """Return the effect of an option whose value is in the word `at`."""
    roles: Mapping[Option | None, Role] = {"program": "program", "final": "program", "file": "file"}
    role = roles.get(option, "value")
    return _Step(
        at + 1,
        (ArgumentRole(at, role, name),),
        given=option != "value",
        last=option in ("final", "module"),
    )
