"""Say which words of a command are code: its name, and the program text some commands take.

The list of programs is closed (eval, sh, bash and dash -c, python -c, perl -e, awk, sed, jq), plus
the shell's own words (`shell_builtins`).  What other programs do with their arguments is the
author's affair.

Not here: reading a script (`script`), what is said about it (`shell_refusals`).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from little_loops.records import NamedTuple
from little_loops.templates.shell.builtins import INPUT_FILE, TAKES_CODE, assigned, builtin
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.roles import PRINTED, UNKNOWN, VALUES, Finding, Role, Word

Option: TypeAlias = Literal[
    "program",  # its value is program text
    "final",  # the same, and whatever follows is an argument
    "module",  # its value names a program, and whatever follows is an argument
    "file",  # its value names a file with the program
    "value",  # its value is something else
    "glued",  # its value, if any, is in the same word
    "asks",  # no value; the first operand is the program
    "input",  # no value; the program is on the standard input
]


class Grammar(NamedTuple):
    """The options of a program, as far as they decide where its program text is."""

    letters: Mapping[str, Option]
    long: Mapping[str, Option] = {}
    long_values: Mapping[str, int] = {}
    operand: bool = False  # the first operand is the program unless an option gave it
    permutes: bool = False  # options are also looked for behind operands
    options_run: bool = True  # an option can bring a program along
    reads_input: bool = False  # without operand and program it runs its standard input
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
# Their option says plainly that code follows, so they are found behind any other program too:
# `docker run image sh -c …`, `find . -exec sh -c … \;`.
_FOUND_ANYWHERE = ("sh", "bash", "dash", "python", "perl")
_NEAR = 100
_RUNS_NEXT = ("-exec", "-execdir", "-ok", "-okdir")

# Programs that hand their standard input on to a command among their arguments.
_CARRIES_INPUT = ("ssh", "docker", "podman", "kubectl", "su", "chroot", "nsenter", "lxc", "incus")

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
_OPERAND_FIRST = ("timeout", "flock", "chroot")  # behind it the command begins
_RUNS_CODE = (*GRAMMARS, *PREFIXES, *TAKES_CODE)

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_PYTHON_NAME = re.compile(r"python[0-9.]*")


def findings(words: Sequence[Word]) -> dict[int, Finding]:
    """What is special about the words of one simple command; the first finding counts."""
    found: dict[int, Finding] = {}
    for finding in _all(words):
        found.setdefault(finding.at, finding)
    return found


def _all(words: Sequence[Word]) -> Iterator[Finding]:
    first = yield from _prefixes(words)
    yield from _fed_by_xargs(words, first)
    if first >= len(words):
        return
    name = _name(words[first].text)
    yield Finding(first, "command", "")
    yield from builtin(name, words, first + 1)
    if name in GRAMMARS:
        yield from _operands(words, first + 1, name)
    for start, end, other in _inner_commands(words, first + 1):
        for each in _operands(words[start:end], 0, other):
            if each.role in ("program", "value"):
                yield each._replace(at=start + each.at)
            elif each.role == "input" and name in _CARRIES_INPUT:
                yield each


class _Piped(NamedTuple):
    """A word with what `xargs` reads in it."""

    text: str
    bare: bool = False


def _fed_by_xargs(words: Sequence[Word], first: int) -> Iterator[Finding]:
    """`xargs` puts what it reads behind a command, or with `-I` wherever its mark stands."""
    names = [_name(word.text) for word in words[:first]]
    if "xargs" not in names:
        return
    at = len(names) - names[::-1].index("xargs")
    begins = _end_of_options(words, at)
    mark = _xargs_mark([word.text for word in words[at:begins]])
    line: list[Word] = list(words[begins:])
    piped = [each for each, word in enumerate(line) if mark and mark in word.text]
    for each in piped:
        line[each] = _Piped(line[each].text.replace(mark, PRINTED))
    if not mark and line:
        piped = [len(line)]
        line.append(_Piped(PRINTED))
    found = findings(line)
    for each in piped:
        if each in found and found[each].role in ("command", "vanishing", "program", "name"):
            yield Finding(-1, "input", found[each].of or "xargs")


def _end_of_options(words: Sequence[Word], at: int) -> int:
    options = _prefix_options(words, at, "xargs")
    while True:
        try:
            next(options)
        except StopIteration as end:
            return int(end.value)


def _xargs_mark(options: Sequence[str]) -> str:
    for at, text in enumerate(options):
        if text == "-I":
            return options[at + 1] if at + 1 < len(options) else ""
        if text.startswith(("-I", "--replace=")):
            return text.removeprefix("-I").removeprefix("--replace=")
        if text in ("-i", "--replace"):
            return "{}"
    return ""


def _inner_commands(words: Sequence[Word], at: int) -> Iterator[tuple[int, int, str]]:
    """Commands among the arguments of another: where their arguments begin and end."""
    taken = at
    for each in range(at, len(words)):
        name = _name(words[each].text)
        if name in _FOUND_ANYWHERE:
            yield each + 1, min(len(words), each + 1 + _NEAR), name
        elif name in GRAMMARS and words[each - 1].text in _RUNS_NEXT and each >= taken:
            ends = (end for end in range(each, len(words)) if words[end].text in (";", "+"))
            taken = next(ends, len(words))
            yield each + 1, taken, name


def _name(text: str) -> str:
    base = text.rpartition("/")[2]
    return "python" if _PYTHON_NAME.fullmatch(base) else base


def _prefixes(words: Sequence[Word]) -> Generator[Finding, None, int]:
    """Skip `sudo -u me env A=b` and the like; gives the index of the command they run."""
    at = 0
    while at < len(words):
        name = _name(words[at].text)
        if after := _behind_what_may_vanish(words, at):
            if PRINTED in words[at].text:
                yield Finding(at, "command", "")
            at = after
            yield Finding(at, "vanishing", "")
        elif name not in PREFIXES or _only_asks(words, at):
            return at
        else:
            at = yield from _prefix_options(words, at + 1, name)
            if name in _OPERAND_FIRST:
                yield Finding(at, "value", name)
                at += 1
    return at


def _behind_what_may_vanish(words: Sequence[Word], at: int) -> int:
    """Unquoted, `$SUDO $TIME` may be empty: then the word behind them is the command."""
    if not _is_expansion(words[at]):
        return 0
    after = at + 1
    while after < len(words) and _is_expansion(words[after]) and PRINTED not in words[after].text:
        after += 1
    following = words[after].text if after < len(words) else ""
    return after if following.startswith(VALUES) or _name(following) in _RUNS_CODE else 0


def _is_expansion(word: Word) -> bool:
    return word.bare and bool(word.text) and set(word.text) <= {UNKNOWN, PRINTED}


def _only_asks(words: Sequence[Word], at: int) -> bool:
    """`command -v name` looks a command up and runs nothing."""
    following = words[at + 1].text if at + 1 < len(words) else ""
    return words[at].text == "command" and following in ("-v", "-V")


def _prefix_options(words: Sequence[Word], at: int, name: str) -> Generator[Finding, None, int]:
    while at < len(words):
        text = words[at].text
        if text == "--":
            return at + 1
        if text.startswith("-"):
            if name == "env" and text.startswith(("-S", "--split-string")):
                yield Finding(at, "command", name)
                yield Finding(at + 1, "command", name)
            if len(text) == 2 and text[1] in PREFIXES[name]:
                yield Finding(at + 1, "value", name)
                at += 1
        elif _ASSIGNMENT.match(text):
            yield assigned(at, text, name)
        else:
            return at
        at += 1
    return at


def _operands(words: Sequence[Word], at: int, name: str) -> Iterator[Finding]:
    """Walk over a program's options to the words that are its program."""
    grammar = GRAMMARS[name]
    wanted, given, reads = grammar.operand, False, False
    while at < len(words):
        word = words[at]
        if word.text == "--":
            following = words[at + 1].text if at + 1 < len(words) else "-"
            if wanted:
                yield Finding(at + 1, "program", name)
            given = given or following != "-"
            break
        if _is_expansion(word):  # `sed $FLAGS …`: none, one or many options, or the program
            yield Finding(at, "program", name)
            at += 1
        elif word.text == "-" or not word.text.startswith(grammar.signs):
            yield from _operand(word, at, name, wanted, given or reads)
            wanted = wanted and not word.text
            given = given or not INPUT_FILE.fullmatch(word.text)
            if not grammar.permutes:
                break
            at += 1
        else:
            step = _option(word.text, at, name, grammar)
            yield from step.findings
            wanted = (wanted or step.asks) and not step.given
            given, reads = given or step.given, reads or step.reads or _reads(step, words)
            at = step.next
            if step.last:
                break
    if reads or (grammar.reads_input and not given):
        yield Finding(-1, "input", name)


def _reads(step: _Step, words: Sequence[Word]) -> bool:
    """`awk -f -`: the program is on the standard input."""
    files = (each.at for each in step.findings if each.role == "file" and each.at < len(words))
    return any(INPUT_FILE.fullmatch(words[at].text) for at in files)


def _operand(word: Word, at: int, name: str, wanted: bool, given: bool) -> Iterator[Finding]:
    grammar = GRAMMARS[name]
    if wanted and word.text:  # `sed -i '' …`: there the empty word is a suffix
        yield Finding(at, "program", name)
    elif grammar.reads_input and not given:
        yield Finding(at, "script", name)
    elif grammar.options_run:
        yield Finding(at, "option", name)


class _Step(NamedTuple):
    """What one option did, and where to go on."""

    next: int
    findings: tuple[Finding, ...] = ()
    given: bool = False
    asks: bool = False
    reads: bool = False
    last: bool = False


def _option(text: str, at: int, name: str, grammar: Grammar) -> _Step:
    if text.startswith("--"):
        return _long_option(text, at, name, grammar)
    asks = reads = False
    for place, letter in enumerate(text[1:], start=2):
        if letter in (HOLE, UNKNOWN, PRINTED):
            return _Step(at + 1, (Finding(at, "program", name),))
        option = grammar.letters.get(letter)
        if option == "glued":
            break
        if option not in (None, "asks", "input"):
            return _valued(option, at if place < len(text) else at + 1, name)
        asks, reads = asks or option == "asks", reads or option == "input"
    return _Step(at + 1, asks=asks, reads=reads)


def _long_option(text: str, at: int, name: str, grammar: Grammar) -> _Step:
    option, glued, _ = text.partition("=")
    if not {HOLE, UNKNOWN, PRINTED}.isdisjoint(option):
        return _Step(at + 1, (Finding(at, "program", name),))
    for full, kind in grammar.long.items():
        if len(option) > 3 and full.startswith(option):  # `--expr` is enough for GNU programs
            return _valued(kind, at if glued else at + 1, name)
    count = 0 if glued else grammar.long_values.get(option, 0)
    values = tuple(Finding(at + 1 + each, "value", name) for each in range(count))
    return _Step(at + 1 + count, values)


def _valued(option: Option | None, at: int, name: str) -> _Step:
    """An option with a value, which is in the word `at`."""
    roles: Mapping[Option | None, Role] = {"program": "program", "final": "program", "file": "file"}
    role = roles.get(option, "value")
    return _Step(
        at + 1,
        (Finding(at, role, name),),
        given=option != "value",
        last=option in ("final", "module"),
    )
