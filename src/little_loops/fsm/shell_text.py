"""Find out where in a shell script a value would stand.

The script comes with `HOLE` wherever a value will be put, and is read once, as both `dash` and
`bash` read it.  Each hole gets a `Place`: how the shell will read a text there, and the reason if
no value may stand there at all.  Where the two shells read differently, or the reader cannot
follow, it does not guess: the place is refused.

What stands on this: a script only ever gets the name of a variable, never a value.  If the reader
were wrong about quotes, the worst would be a word split in the wrong place.

Not here: quotes and expansions (`shell_quotes`), which words of a command are code
(`shell_programs`), references and what is said about a refusal (`interpolation`).
"""

from __future__ import annotations

import re

from little_loops.fsm.shell_places import HOLE, Place
from little_loops.fsm.shell_programs import UNKNOWN, Finding, findings, makes_integers
from little_loops.fsm.shell_quotes import (
    NAMES,
    WORD_ENDS,
    Document,
    Lost,
    Reader,
    Seen,
    Word,
    unbalanced,
    unclear,
)

LONGEST = 128 * 1024
"""What a shell can be given with `-c`."""

_RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "select"),
        *("case", "esac", "{", "}", "!", "[[", "function", "coproc"),
    )
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]\s'\"\\$`\0]*\])?\+?=", re.ASCII)
_DESCRIPTOR = re.compile(r"\d+|\{[A-Za-z_]\w*\}", re.ASCII)
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|<>|[<>]&|[<>]\(|>>|>\||[<>]")
_ARGUMENT = Finding(0, "argument", "")
_BRANCH_END = re.compile(r";;&?|;&")
_IN = re.compile(r"in(?![^ \t\n;&|<>()])")
_EMPTY_PARENTHESES = re.compile(r"\([ \t]*\)")


def places(script: str, shell: str = "sh") -> tuple[Place, ...]:
    """Say for each `HOLE`, in order, where it stands."""
    reader = _Commands(script, shell)
    lost = Place("bare", "unclear", "a construct that is not understood")
    try:
        if len(script) > LONGEST:
            unclear(f"more than {LONGEST} characters")
        reader.commands("")
    except Lost as problem:
        lost = Place("bare", problem.reason, problem.what)
        if problem.reason == "unbalanced":
            reader.places.clear()
    for name in reader.evaluated & reader.assigned.keys():
        for at in reader.assigned[name] & reader.places.keys():
            reader.places[at] = reader.places[at]._replace(evaluated=name)
    holes = (at for at, char in enumerate(script) if char == HOLE)
    return tuple(reader.places.get(at, lost) for at in holes)


class _Command:
    """A simple command as far as it has been read."""

    __slots__ = ("begins", "documents", "strings", "words")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.words: list[Word] = []
        self.documents: list[Document] = []
        self.strings: list[Word] = []
        self.begins = True  # a reserved word or the name of a command may follow

    def add(self, word: Word) -> None:
        # `time -p if …`: behind `time` and its options a command begins anew.
        timed = word.text.startswith("-") if self.words else word.text == "time"
        self.begins = self.begins and timed
        self.words.append(word)


class _Commands(Reader):
    def __init__(self, script: str, shell: str) -> None:
        super().__init__(script, shell)
        self.assigned: dict[str, set[int]] = {}
        self.integers = False

    def commands(self, closer: str) -> str:
        """Read commands up to `closer`: `)`, `esac`, or nothing for the end of the script."""
        self.deeper()
        command = _Command()
        ended = ""
        while not ended:
            self.blanks()
            char = self.peek()
            if char and char not in WORD_ENDS:
                ended = self.word_of(command, closer)
            elif char in ("<", ">") or self.sees("&>"):
                self.redirection(command)
            elif char == "(":
                self.parenthesis(command)
            else:
                self.finish(command)
                ended = self.operator(char, closer)
        self.depth -= 1
        return ended

    def operator(self, char: str, closer: str) -> str:
        if not char:
            if closer or self.documents:
                unbalanced(f"no `{closer}`" if closer else "a here-document without its text")
            return "end"
        if char == ")":
            if closer != ")":
                unbalanced("a `)` too many")
            self.at += 1
            return ")"
        if char == "\n":
            self.newline()
            return ""
        branch = _BRANCH_END.match(self.script, self.at, self.end) if closer == "esac" else None
        self.at = branch.end() if branch else self.at + 1
        return ";;" if branch else ""

    def word_of(self, command: _Command, closer: str) -> str:
        start = self.at
        word = self.word()
        if self.peek() in ("<", ">") and _DESCRIPTOR.fullmatch(self.script, start, self.at):
            return ""
        if command.begins and word.bare and word.text in _RESERVED:
            self.finish(command)
            return self.reserved(word.text, command, closer)
        assignment = _ASSIGNMENT.match(self.script, start, self.at)
        if assignment and not command.words:
            self.assign(word, assignment[1])
        else:
            command.add(word)
        if assignment and assignment.end() == self.at and self.peek() == "(":
            self.array()
        return ""

    def finish(self, command: _Command) -> None:
        """Settle the words of a command that has been read to its end."""
        found = findings(command.words)
        for at, word in enumerate(command.words):
            self.settle_as(word, found.get(at, _ARGUMENT))
        program = found[-1].of if -1 in found else ""
        for word in command.strings:
            self.settle(word, "program" if program else "", program)
        for document in command.documents:
            document.program = program
        self.integers = self.integers or makes_integers(command.words)
        command.clear()

    def settle_as(self, word: Word, finding: Finding) -> None:
        match finding.role:
            case "command" | "program" | "name" as reason:
                self.settle(word, reason, finding.of, splits=True)
            case "option":
                self.settle_option(word, finding.of)
            case role:
                self.settle(word, splits=role == "argument")

    def settle_option(self, word: Word, of: str) -> None:
        self.settle(word, splits=True)
        leading = len(word.text) - len(word.text.lstrip(HOLE))
        for at, _ in word.holes[:leading]:
            self.places[at] = self.places[at]._replace(option_of=of)

    def assign(self, word: Word, name: str) -> None:
        self.settle(word, "arithmetic" if self.integers else "")
        self.assigned.setdefault(name, set()).update(at for at, _ in word.holes)

    def array(self) -> None:
        """Read the elements of `name=(…)`."""
        self.at += 1
        self.lines()
        while (char := self.peek()) != ")":
            if not char:
                unbalanced("no `)`")
            if char in WORD_ENDS:
                unclear(f"`{char}` in an array")
            word = self.word()
            # A subscript is arithmetic.
            self.settle(word, "arithmetic" if word.text.startswith("[") else "", splits=True)
            self.lines()
        self.at += 1

    def redirection(self, command: _Command) -> None:
        found = _REDIRECTION.match(self.script, self.at, self.end)
        assert found, "called at a redirection"
        operator = found[0]
        self.at = found.end()
        if operator.startswith("&") and self.shell != "bash":
            unclear("`&>`, which `sh` may read as `&` and `>`")
        if self.sees("\\\n"):
            unclear("a line that ends in the middle of a redirection")
        if operator.endswith("("):
            self.substitution()
            command.add(Word(UNKNOWN, (), False))
            return
        self.blanks()
        if operator in ("<<", "<<-"):
            command.documents.append(self.announce(tabs=operator == "<<-"))
        elif operator == "<<<":
            command.strings.append(self.word())
        else:
            self.settle(self.word())

    def parenthesis(self, command: _Command) -> None:
        if command.begins:
            self.finish(command)
            if self.sees("(("):
                self.arithmetic_command()
            else:
                self.at += 1
                self.commands(")")
            return
        function = _EMPTY_PARENTHESES.match(self.script, self.at, self.end)
        if not function:
            unclear("a `(` in the middle of a command")
        self.finish(command)
        self.at = function.end()

    # Compound commands

    def reserved(self, word: str, command: _Command, closer: str) -> str:
        match word:
            case "case":
                self.case()
            case "for" | "select":
                self.loop(command)
            case "function":
                self.blanks()
                self.settle(self.word(), "name")
            case "[[":
                self.test()
            case "coproc":
                unclear("`coproc`")
            case "esac" if closer == "esac":
                return "esac"
        return ""

    def loop(self, command: _Command) -> None:
        self.blanks()
        if self.sees("(("):
            return
        self.settle(self.word(), "name")
        self.lines()
        if word := _IN.match(self.script, self.at, self.end):
            self.at = word.end()
            command.add(Word("in", (), True))

    def case(self) -> None:
        self.blanks()
        self.settle(self.word())
        self.lines()
        word = _IN.match(self.script, self.at, self.end)
        if not word:
            unclear("a `case` without `in`")
        self.at = word.end()
        ended = ""
        while ended != "esac":
            self.lines()
            if self.peek() == "(":
                self.at += 1
            ended = self.patterns() or self.commands("esac")

    def patterns(self) -> str:
        """Read `a | b)`, or the `esac` that stands there instead."""
        while True:
            self.blanks()
            word = self.word()
            if word.bare and word.text == "esac":
                return "esac"
            self.settle(word)
            self.blanks()
            char = self.peek()
            if char not in ("|", ")"):
                unclear("a pattern of `case`")
            self.at += 1
            if char == ")":
                return ""

    def test(self) -> None:
        """Read `[[ … ]]`, in which bash evaluates operands."""
        start = self.at
        while True:
            self.lines()
            char = self.peek()
            if not char:
                unbalanced("no `]]`")
            if char in WORD_ENDS:
                self.at += 1
                continue
            word = self.word()
            self.settle(word, "test")
            if word.bare and word.text == "]]":
                self.evaluated.update(NAMES.findall(self.script, start, self.at))
                return

    def arithmetic_command(self) -> None:
        start, seen = self.at, Seen()
        self.arithmetic(seen, "((")
        # To dash this is a subshell in a subshell, where `<<` begins a here-document.
        if "<<" in self.script[start : self.at]:
            unclear("`<<` inside `((`")
        self.settle(seen.word())
