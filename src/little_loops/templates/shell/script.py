"""Find out where in a shell script a value would stand.

The script comes with `HOLE` wherever a value will be put, and is read once, as both `dash` and
`bash` read it.  Each hole gets a `Place`: how the shell will read a text there, and the reason if
no value may stand there at all.  Where the two shells read differently, or the reader cannot
follow, it does not guess: the place is refused.

What stands on this: a script only ever gets the name of a variable, never a value.  If the reader
were wrong about quotes, the worst would be a word split in the wrong place.

Not here: quotes and expansions (`shell_quotes`), which words of a command are code
(`shell_programs`), where pipes and variables carry a value (`shell_flow`), what is said about a
refusal (`shell_refusals`).
"""

from __future__ import annotations

import re

from little_loops.templates.shell.builtins import EVALUATED, POSITIONAL, effects
from little_loops.templates.shell.command_words import findings
from little_loops.templates.shell.data_flow import Flow, Level
from little_loops.templates.shell.positions import HOLE, Place
from little_loops.templates.shell.quoting import NAMES, WORD_ENDS, unbalanced, unclear
from little_loops.templates.shell.roles import PROCESS, UNKNOWN, Finding
from little_loops.templates.shell.tokens import Document, Lost, Reach, Seen, Word

LONGEST = 128 * 1024
"""What a shell can be given with `-c`."""

_RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "select"),
        *("case", "esac", "{", "}", "!", "[[", "function", "coproc"),
    )
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^]\s'\"\\$`\0]*\])?\+?=", re.ASCII)
_MOST_GROUPS = 100
_BEGINS_GROUP = frozenset(("{", "if", "while", "until", "for", "select"))
_ENDS_GROUP = frozenset(("}", "fi", "done"))
_BEGINS_ANEW = frozenset(("then", "else", "elif", "do"))
_DESCRIPTOR = re.compile(r"\d+|\{[A-Za-z_]\w*\}", re.ASCII)
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|<>|[<>]&|[<>]\(|>>|>\||[<>]")
_ARGUMENT = Finding(0, "argument", "")
_EVALUATING_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"))
_BRANCH_END = re.compile(r";;&?|;&")
_IN = re.compile(r"in(?![^ \t\n;&|<>()])")
_BRACE = re.compile(r"\{(?=[ \t\n])")
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
        # Where what is under way leads to cannot be told any more.
        under_way = reader.levels[0].start if reader.levels else 0
        reader.reaches.append(Reach(under_way, len(script), problem.reason, problem.what, ""))
    reader.follow()
    holes = (at for at, char in enumerate(script) if char == HOLE)
    return tuple(reader.places.get(at, lost) for at in holes)


class _Command:
    """A simple command as far as it has been read."""

    __slots__ = ("begins", "documents", "loop", "names", "program", "strings", "words")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.words: list[Word] = []
        self.documents: list[Document] = []
        self.strings: list[Word] = []  # here-strings, and the names of files on its input
        self.begins = True  # a reserved word or the name of a command may follow
        self.loop = ""  # the variable that gets the words, behind `for name in`
        self.program, self.names = "", frozenset[str]()

    def add(self, word: Word) -> None:
        # `time -p if …`: behind `time` and its options a command begins anew.
        timed = word.text.startswith("-") if self.words else word.text == "time"
        self.begins = self.begins and timed
        self.words.append(word)

    def feed(self, level: Level) -> None:
        """What follows is put on the standard input of a group of commands."""
        self.program, self.names = level.program, level.names


class _Commands(Flow):
    def __init__(self, script: str, shell: str) -> None:
        super().__init__(script, shell)
        self.integers = False

    def commands(self, closer: str) -> str:
        """Read commands up to `closer`: `)`, `esac`, or nothing for the end of the script."""
        self.deeper()
        start, outer = self.at, len(self.levels)
        self.levels.append(Level(self.at))
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
        if ended == ")":
            self.close(self.levels[outer], start)
        del self.levels[outer:]
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
            if not self.levels[-1].waits:
                self.levels[-1].begin(self.at)
            return ""
        if char == "|" and not self.sees("||"):
            self.at += 2 if self.sees("|&") else 1
            self.levels[-1].pipe(self.at)
            return ""
        branch = _BRANCH_END.match(self.script, self.at, self.end) if closer == "esac" else None
        self.at = branch.end() if branch else self.at + (2 if char == "|" else 1)
        self.levels[-1].begin(self.at)
        return ";;" if branch else ""

    def word_of(self, command: _Command, closer: str) -> str:
        start = self.at
        self.levels[-1].waits = False
        word = self.word()
        if self.peek() in ("<", ">") and _DESCRIPTOR.fullmatch(self.script, start, self.at):
            return ""
        if command.begins and word.bare and word.text in _RESERVED:
            self.finish(command)
            return self.reserved(word.text, command, closer)
        assignment = _ASSIGNMENT.match(self.script, start, self.at)
        if assignment and not command.words:
            self.assign(word, assignment[1], assignment[2] or "")
        else:
            command.add(word)
        if assignment and assignment.end() == self.at and self.peek() == "(":
            self.array(assignment[1])
        return ""

    def finish(self, command: _Command) -> None:
        """Settle the words of a command that has been read to its end."""
        found = findings(command.words)
        for at, word in enumerate(command.words):
            self.settle_as(word, found.get(at, _ARGUMENT))
        self.call(command)
        if command.words or command.strings or command.documents:
            self.count(command.words)
        if -1 in found:
            command.program = found[-1].of
        if command.program and command.words:
            self.run_input(command.program)
        self.variables(command)
        for word in command.strings:
            self.settle(word, "program" if command.program else "", command.program)
            self.given(command.names, word.start, word.stop)
        for document in command.documents:
            document.program = document.program or command.program
            document.names |= command.names
        command.clear()

    def call(self, command: _Command) -> None:
        """A function of the script's own reads and evaluates what its body does."""
        words = command.words
        if words and words[0].text in self.functions:
            command.feed(self.functions[words[0].text])
            self.given((POSITIONAL,), words[0].stop, words[-1].stop)

    def variables(self, command: _Command) -> None:
        """Note what a command does to variables."""
        words, done = command.words, effects(command.words)
        if command.loop:
            self.given((command.loop,), words[0].start, words[-1].stop)
        command.names |= done.read
        if words and command.names:
            self.read_input(command.names)
        for name, at in done.given:
            self.given((name,), words[at].start, words[at].stop)
            if done.makes_lists:
                self.declare(name, words[at])
        self.arrays |= done.arrays
        self.integers = self.integers or done.makes_integers
        self.evaluate(done.integers, "arithmetic")

    def assign(self, word: Word, name: str, subscript: str) -> None:
        if name in EVALUATED:
            self.settle(word, "variable", name)
        else:
            self.settle(word, "arithmetic" if self.integers else "")
        self.given((name,), word.start, word.stop)
        self.evaluate(NAMES.findall(subscript), "arithmetic")

    def array(self, name: str) -> None:
        """Read the elements of `name=(…)`."""
        start = self.at
        self.at += 1
        self.lines()
        while (char := self.peek()) != ")":
            if not char:
                unbalanced("no `)`")
            if char in WORD_ENDS:
                unclear(f"`{char}` in an array")
            word = self.word()
            subscript = word.text.startswith("[")  # which is arithmetic
            self.settle(word, "arithmetic" if subscript else "", splits=True)
            if subscript:
                self.evaluate(NAMES.findall(word.text.partition("]")[0]), "arithmetic")
            self.lines()
        self.at += 1
        self.arrays.add(name)
        self.given((name,), start, self.at)

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
            command.add(self.process(operator))
            return
        self.blanks()
        if operator in ("<<", "<<-"):
            command.documents.append(self.announce(tabs=operator == "<<-"))
            return
        word = self.target()
        if operator in ("<<<", "<"):
            command.strings.append(word)
        else:
            self.settle(word)

    def target(self) -> Word:
        if self.sees("<(") or self.sees(">("):
            self.at += 2
            return self.process(self.script[self.at - 2 : self.at])
        return self.word()

    def process(self, operator: str) -> Word:
        """Read the commands of `<(…)` or `>(…)`, after the parenthesis."""
        start, level = self.at, self.levels[-1]
        fed, level.only_numbers = level.fed, False
        if operator == ">(":
            level.fed = start  # these commands read what this one prints
        text = PROCESS if self.substitution() else UNKNOWN
        level.fed = fed
        return Word(text, (), False, start, self.at)

    def parenthesis(self, command: _Command) -> None:
        self.levels[-1].waits = self.levels[-1].only_numbers = False
        if command.begins:
            self.finish(command)
            if self.sees("(("):
                self.arithmetic_command()
            else:
                self.at += 1
                self.levels.append(Level(self.at))
                self.commands(")")
                command.feed(self.levels.pop())
            return
        function = _EMPTY_PARENTHESES.match(self.script, self.at, self.end)
        if not function:
            unclear("a `(` in the middle of a command")
        name = command.words[0].text
        self.finish(command)
        self.at = function.end()
        self.body(name)

    def body(self, name: str) -> None:
        """Read the brace that begins the body of a function, if it is one."""
        self.lines()
        if brace := _BRACE.match(self.script, self.at, self.end):
            self.at = brace.end()
            self.levels.append(Level(self.at, group=True, function=name))

    # Compound commands

    def reserved(self, word: str, command: _Command, closer: str) -> str:
        self.levels[-1].only_numbers = False
        self.group(word, command)
        match word:
            case "case":
                self.levels.append(Level(self.at))
                self.case()
                command.feed(self.levels.pop())
            case "for" | "select":
                self.loop(command)
            case "function":
                self.function()
            case "[[":
                self.test()
            case "coproc":
                unclear("`coproc`")
            case "esac" if closer == "esac":
                return "esac"
        return ""

    def function(self) -> None:
        """Read `function name`, with or without parentheses."""
        self.blanks()
        name = self.word()
        self.settle(name, "name")
        self.blanks()
        if parentheses := _EMPTY_PARENTHESES.match(self.script, self.at, self.end):
            self.at = parentheses.end()
        self.body(name.text)

    def group(self, word: str, command: _Command) -> None:
        """Keep track of what is one command to a pipe: `while … done`."""
        if word in _BEGINS_GROUP:
            if len(self.levels) > _MOST_GROUPS:
                unclear(f"more than {_MOST_GROUPS} levels of nesting")
            self.levels.append(Level(self.at, group=True))
        elif word in _ENDS_GROUP and self.levels[-1].group:
            level = self.levels.pop()
            command.feed(level)
            if level.function:
                self.functions[level.function] = level
        elif word in _BEGINS_ANEW:
            self.levels[-1].begin(self.at)

    def loop(self, command: _Command) -> None:
        self.blanks()
        if self.sees("(("):
            return
        name = self.word()
        self.settle(name, "name")
        self.lines()
        if word := _IN.match(self.script, self.at, self.end):
            self.at = word.end()
            command.add(Word("in", (), True, word.start(), self.at))
            command.loop = name.text

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
        """Read `[[ … ]]`, in which bash evaluates the operands of some operators."""
        start, evaluates = self.at, False
        while True:
            self.lines()
            char = self.peek()
            if not char:
                unbalanced("no `]]`")
            if char in WORD_ENDS:
                self.at += 1
                continue
            word = self.word()
            evaluates = evaluates or (word.bare and word.text in _EVALUATING_TESTS)
            self.settle_test(word)
            if word.bare and word.text == "]]":
                if evaluates:
                    self.evaluate(NAMES.findall(self.script, start, self.at), "test")
                return

    def arithmetic_command(self) -> None:
        start, seen = self.at, Seen()
        self.arithmetic(seen, "((")
        # To dash this is a subshell in a subshell, where `<<` begins a here-document.
        if "<<" in self.script[start : self.at]:
            unclear("`<<` inside `((`")
        self.settle(seen.word(start, self.at))
