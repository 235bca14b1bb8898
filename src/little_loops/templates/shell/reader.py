"""Parse a shell script to find out in which place each value would be.

The script has `HOLE` wherever a value will be inserted. It is read once, as both `dash` and `bash`
would. Each hole gets a `ScriptPosition`: how the shell reads text there, and the reason if no value is
allowed. If the two shells differ, or the script cannot be parsed, the reader does not guess: the
place is refused.

Only names of variables are ever written into a script, never values. If the reader were wrong about
quotes, the worst outcome would be a word that is split in the wrong place.

The second result is a simple search for names: which variables the script uses in places that the
shell evaluates. Data flow is not followed: what functions, pipes, `read` or a chain of variables do
with a value is up to the author.

Not here: which words of a command are code (`rules`), messages (`refusals`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from little_loops.light_typing import Literal, NoReturn, TypeAlias
from little_loops.records import NamedTuple
from little_loops.templates.shell.positions import HOLE, Reason, ScriptPosition, Use
from little_loops.templates.shell.rules import EVALUATED, declared, findings, makes_integers
from little_loops.templates.shell.words import UNKNOWN, ArgumentRole, Word

LONGEST = 128 * 1024
"""The longest script that can be passed with `-c`."""
_DEEPEST = 40

Expanding: TypeAlias = Literal["bare", "double", "document"]

WORD_ENDS = " \t\n;&|<>()"
_RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "select"),
        *("case", "esac", "{", "}", "!", "[[", "function", "coproc"),
    )
)
_OPENS = frozenset(("if", "while", "until", "for", "select", "{"))
_CLOSES = frozenset(("fi", "done", "}"))
_BASH_COMMANDS = frozenset(("declare", "let", "mapfile", "readarray", "shopt", "source", "typeset"))
_PLAIN = re.compile(r"[^ \t\n;&|<>()'\"\\$`\0]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`\0]+")
_PLAIN_DOCUMENT = re.compile(r"[^\\$`\0]+")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_DOLLAR_QUOTES = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
# Quoted text that ends at the same place whether or not its quotes are special there.
_HARMLESS_QUOTES = re.compile(r"'[^'\"\\$`(){}\0\n]*'|\"[^'\"\\`(){}\0\n]*\"")
_NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EXPANDED = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]\s'\"\\$`\0]*\])?\+?=", re.ASCII)
_DESCRIPTOR = re.compile(r"\d+|\{[A-Za-z_]\w*\}", re.ASCII)
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|<>|[<>]&|[<>]\(|>>|>\||[<>]")
_BRANCH_END = re.compile(r";;&?|;&")
_IN = re.compile(r"in(?![^ \t\n;&|<>()])")
_EMPTY_PARENTHESES = re.compile(r"\([ \t]*\)")
_ARGUMENT = ArgumentRole(0, "argument", "")
_NUMERIC_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
# Here `$(…)` mostly prints a count, so a value inside it is only worth a warning.
_OFTEN_NUMBERS: tuple[Reason, ...] = ("arithmetic", "test", "operator", "option")
_NO_WORD = Word("")
_PROCESS = "/dev/fd"
"""The text of a word `<(…)`, which the command sees as a file."""


class Reading(NamedTuple):
    """The place of each hole, and other facts about the script.

    `uses`: variables used where the shell evaluates them. `bash_only`: constructs that not every
    `sh` has, with start, end and name. `negated`: positions of each `!` that affects the script's
    exit code. `commands`: the words of each simple command.
    """

    places: tuple[ScriptPosition, ...]
    uses: Mapping[str, Use] = {}
    bash_only: tuple[tuple[int, int, str], ...] = ()
    negated: tuple[int, ...] = ()
    commands: tuple[tuple[Word, ...], ...] = ()


def read_script(script: str, shell: str = "sh") -> Reading:
    """Parse a script; never raises. Holes in parts that cannot be parsed get a refused place."""
    reader = _Reader(script, shell)
    unparsed = ScriptPosition("bare", "unclear", "a construct that is not understood")
    try:
        if len(script) > LONGEST:
            _unclear(f"more than {LONGEST} characters")
        reader.commands("")
    except _CannotParse as problem:
        unparsed = ScriptPosition("bare", problem.reason, problem.what)
        if problem.reason == "unbalanced":
            return Reading((unparsed,) * script.count(HOLE))
    uses = reader.find_uses()
    holes = (at for at, char in enumerate(script) if char == HOLE)
    places = tuple(reader.places.get(at, unparsed) for at in holes)
    return Reading(
        places, uses, tuple(reader.bash_only), tuple(reader.negated), tuple(reader.simple)
    )


class _CannotParse(Exception):
    """The rest of the script cannot be parsed."""

    def __init__(self, reason: Reason, what: str) -> None:
        self.reason, self.what = reason, what


def _unbalanced(what: str) -> NoReturn:
    raise _CannotParse("unbalanced", what)


def _unclear(what: str) -> NoReturn:
    raise _CannotParse("unclear", what)


class _PartialWord:
    """A word, as far as it has been read."""

    __slots__ = ("bare", "holes", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.holes: list[tuple[int, ScriptPosition]] = []
        self.bare = True

    def word(self, start: int, stop: int) -> Word:
        return Word("".join(self.text), self.bare, tuple(self.holes), start, stop)

    def add(self, inner: _PartialWord, refused: Reason) -> None:
        """Add the holes inside an expansion, refused for this reason unless they already are."""
        self.text.append(UNKNOWN)
        for at, place in inner.holes:
            self.holes.append((at, place if place.refused else place._replace(refused=refused)))


class _Document:
    """A here-document whose text starts on the next line."""

    __slots__ = ("delimiter", "literal", "program", "tabs")

    def __init__(self, delimiter: str, literal: bool, tabs: bool) -> None:
        self.delimiter, self.literal, self.tabs, self.program = delimiter, literal, tabs, ""


class _Command:
    """A simple command, as far as it has been read."""

    __slots__ = ("begins", "documents", "inputs", "loop", "words")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin a new command."""
        self.words: list[Word] = []
        self.documents: list[_Document] = []
        self.inputs: list[Word] = []  # here-strings, and files to read from
        self.begins = True  # whether a reserved word or a command name may follow
        self.loop = ""  # after `for name in`: the loop variable

    def add(self, word: Word) -> None:
        """Add a word to the command."""
        # `time -p if …`: a command may begin after `time` and its options.
        timed = word.text.startswith("-") if self.words else word.text == "time"
        self.begins = self.begins and timed
        self.words.append(word)


class _Reader:
    """A recursive-descent parser over the script; `at` is the current position."""

    def __init__(self, script: str, shell: str) -> None:
        """Prepare to read `script`, in which `HOLE` marks each value; `shell` is `sh` or `bash`."""
        self.script, self.shell = script, shell
        self.at, self.end, self.depth = 0, len(script), 0
        self.documents: list[_Document] = []
        self.integers = False
        self.places: dict[int, ScriptPosition] = {}
        self.code: list[tuple[int, int, Use]] = []  # start, end and use of each evaluated range
        self.expanded_at: list[int] = []
        self.expanded: list[str] = []
        self.assigned: dict[str, list[int]] = {}  # the holes in values assigned to each variable
        self.programs: list[str] = []  # literal shell scripts inside this one
        self.bash_only: list[tuple[int, int, str]] = []
        self.negated: list[int] = []
        self.simple: list[tuple[Word, ...]] = []
        self.compound = 0  # how many `if`, `while`, `{` … are open
        self.joined = self.ended = False  # whether `&&` or `|`, or an end, comes before the command

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.script[at] if at < self.end else ""

    def sees(self, text: str) -> bool:
        return self.script.startswith(text, self.at, self.end)

    def deeper(self) -> None:
        """Enter a nested construct. Raises `_CannotParse` if there are too many levels."""
        self.depth += 1
        if self.depth > _DEEPEST:
            _unclear(f"more than {_DEEPEST} levels of nesting")

    # Results

    def settle(self, word: Word, refused: Reason = "", of: str = "", splits: bool = False) -> None:
        """Record the place of each value in a word; if `refused`, the shell evaluates the word."""
        for at, place in word.holes:
            if not place.refused:
                place = place._replace(refused=refused, of=of)
            self.places[at] = place._replace(splits=splits and place.quote == "bare")
        if refused:
            self.evaluate(word, refused, of)

    def settle_all(self, start: int, stop: int, place: ScriptPosition) -> None:
        for at in self.holes_in(start, stop):
            self.places[at] = place

    def settle_as(self, word: Word, finding: ArgumentRole) -> None:
        """Record the place of each value in a word, according to the word's role."""
        match finding.role:
            case ("command" | "vanishing" | "program" | "name" | "variable" | "operator") as reason:
                self.settle(word, reason, finding.of, splits=True)
                if reason == "program" and finding.of in ("sh", "bash", "dash", "eval", "trap"):
                    self.programs.append(word.text)
            case "option" | "script" | "file":
                self.settle(word, splits=finding.role != "file")
                self.settle_file(word, finding)
            case role:
                self.settle(word, splits=role == "argument")
                if finding.of in ("[", "test") and word.bare:
                    self.evaluate(word, "operator", finding.of)

    def settle_file(self, word: Word, finding: ArgumentRole) -> None:
        """Record for a word that it may be read as an option, or names a file that is run."""
        leading = len(word.text) - len(word.text.lstrip(HOLE)) if finding.role != "file" else 0
        for number, (at, _) in enumerate(word.holes):
            self.places[at] = self.places[at]._replace(
                option_of=finding.of if number < leading else "",
                file_of=finding.of if finding.role != "option" else "",
            )
        if word.text == _PROCESS and finding.role != "option":
            self.evaluate(word, "program", finding.of)
        elif finding.role != "file" and word.text.startswith(UNKNOWN):
            self.evaluate(word, "option", finding.of)

    def evaluate(self, word: Word, reason: Reason, of: str = "") -> None:
        """Record that the shell evaluates a word, and with it the output of each `$(…)` in it."""
        use, own = Use("", reason, of), {at for at, _ in word.holes}
        self.code.append((word.start, word.stop, use))
        inside = (at for at in self.holes_in(word.start, word.stop) if at not in own)
        if reason in _OFTEN_NUMBERS:
            self.mark_used(inside, use)
            return
        for at in inside:
            place = self.places[at]
            if not place.refused and place.quote != "comment":
                self.places[at] = place._replace(refused=reason, of=of)

    def assign(self, name: str, word: Word) -> None:
        self.assigned.setdefault(name, []).extend(at for at, _ in word.holes)

    def find_uses(self) -> Mapping[str, Use]:
        """Return the variables used in evaluated code, and mark the values assigned to them."""
        uses: dict[str, Use] = {}
        for start, stop, use in self.code:
            for name in self.names_in(start, stop, use):
                uses.setdefault(name, use._replace(name=name))
        for text in self.programs:
            if HOLE not in text and UNKNOWN not in text:
                uses = {**read_script(text, "bash").uses, **uses}
        for name in uses.keys() & self.assigned.keys():
            self.mark_used(self.assigned[name], uses[name])
        return uses

    def names_in(self, start: int, stop: int, use: Use) -> list[str]:
        """Return the variables used in a range; in arithmetic, also those without a dollar sign."""
        if use.reason in ("arithmetic", "test") or use.of == "let":
            return _NAMES.findall(self.script, start, stop)
        first, last = bisect_left(self.expanded_at, start), bisect_left(self.expanded_at, stop)
        return self.expanded[first:last]

    def holes_in(self, start: int, stop: int) -> Iterator[int]:
        """Yield the positions of the holes in a range."""
        at = self.script.find(HOLE, start, stop)
        while at >= 0:
            yield at
            at = self.script.find(HOLE, at + 1, stop)

    def mark_used(self, holes: Iterable[int], use: Use) -> None:
        """Record how the script evaluates the values in these holes later, unless that is known."""
        for at in holes:
            if self.places[at].used is None:
                self.places[at] = self.places[at]._replace(used=use)

    # Between words

    def blanks(self) -> None:
        """Skip blanks, continued lines and comments."""
        while True:
            found = _BLANKS.match(self.script, self.at, self.end)
            self.at = found.end() if found else self.at
            if self.peek() != "#":
                return
            stop = self.script.find("\n", self.at, self.end)
            stop = self.end if stop < 0 else stop
            self.settle_all(self.at, stop, ScriptPosition("comment"))
            self.at = stop

    def lines(self) -> None:
        """Skip blanks, comments and line ends."""
        self.blanks()
        while self.peek() == "\n":
            self.newline()
            self.blanks()

    def newline(self) -> None:
        """Skip a line ending and read the here-documents that start after it."""
        self.at += 1
        documents, self.documents = self.documents, []
        for document in documents:
            self.document(document)

    # Words

    def word(self) -> Word:
        """Read a word up to the next blank or operator."""
        part, start = _PartialWord(), self.at
        while (char := self.peek()) and char not in WORD_ENDS:
            if char == HOLE:
                self.hole(part, ScriptPosition("bare"))
            elif char in "'\"`":
                part.bare = part.bare and char == "`"
                self.quotes(part, char)
            elif char == "\\":
                part.bare = False
                self.backslash(part, "bare")
            elif char == "$":
                self.dollar(part, "bare")
            else:
                self.plain(part, _PLAIN)
        return part.word(start, self.at)

    def hole(self, part: _PartialWord, place: ScriptPosition) -> None:
        """Read a hole: add it to the part, with its place."""
        part.text.append(HOLE)
        part.holes.append((self.at, place))
        self.at += 1

    def plain(self, part: _PartialWord, pattern: re.Pattern[str]) -> None:
        """Read characters without special meaning, which match the pattern."""
        found = pattern.match(self.script, self.at, self.end)
        assert found, "only called at a plain character"
        part.text.append(found[0])
        self.at = found.end()

    def quotes(self, part: _PartialWord, char: str) -> None:
        """Read a quoted string or backticks, starting at the opening character."""
        if char == "'":
            self.single(part)
        elif char == '"':
            self.at += 1
            self.expanding(part, "double")
        else:
            self.backticks(part)

    def single(self, part: _PartialWord) -> None:
        """Read a single-quoted string."""
        stop = self.script.find("'", self.at + 1, self.end)
        if stop < 0:
            _unbalanced("a `'` that is not closed")
        part.text.append(self.script[self.at + 1 : stop])
        part.holes += ((at, ScriptPosition("single")) for at in self.holes_in(self.at + 1, stop))
        self.at = stop + 1

    def expanding(self, part: _PartialWord, quote: Literal["double", "document"]) -> None:
        """Read the content of double quotes, or of a here-document with expansions."""
        while char := self.peek():
            if char == '"' and quote == "double":
                self.at += 1
                return
            if char == HOLE:
                self.hole(part, ScriptPosition(quote))
            elif char == "\\":
                self.backslash(part, quote)
            elif char == "$":
                self.dollar(part, quote)
            elif char == "`":
                self.backticks(part)
            else:
                self.plain(part, _PLAIN_DOCUMENT if quote == "document" else _PLAIN_QUOTED)
        if quote == "double":
            _unbalanced('a `"` that is not closed')

    def backslash(self, part: _PartialWord, quote: Expanding) -> None:
        """Read a backslash and the character that it escapes."""
        self.at += 1
        char = self.peek()
        if char == HOLE:
            self.hole(part, ScriptPosition(quote, "backslash"))
            return
        if char != "\n":
            part.text.append(char)
        self.at += len(char)

    def backticks(self, part: _PartialWord) -> None:
        """Read backticks; no value is allowed in them."""
        found = _BACKTICKS.match(self.script, self.at, self.end)
        if not found:
            _unbalanced("a backtick that is not closed")
        if found[1].count("'") % 2 or found[1].count('"') % 2:
            _unclear("a backtick inside quotes inside backticks")
        inner = _PartialWord()
        inner.holes += (
            (at, ScriptPosition("bare", "backticks")) for at in self.holes_in(*found.span(1))
        )
        for name in _EXPANDED.finditer(self.script, *found.span(1)):
            self.expand(name.start(), name[1])
        part.add(inner, "backticks")
        self.at = found.end()

    # After a dollar sign

    def dollar(self, part: _PartialWord, quote: Expanding) -> None:
        """Read an expansion, starting at its dollar sign."""
        following = self.peek(1)
        if self.sees("$(("):
            self.arithmetic(part, "$((")
        elif following == "(":
            self.at += 2
            self.substitution()
            part.text.append(UNKNOWN)
        elif following == "{":
            self.parameter(part, quote)
        elif following == "[":
            self.arithmetic(part, "$[")
        elif following == "'" and quote == "bare":
            self.dollar_quotes(part)
        elif following == HOLE:
            self.at += 1
            self.hole(part, ScriptPosition(quote, "dollar"))
        elif self.sees("$\\\n"):
            _unclear("a line that ends right after `$`")
        else:
            self.variable(part)

    def variable(self, part: _PartialWord) -> None:
        """Read `$name`, `$1`, `$$` …, or a plain dollar sign."""
        self.at += 1
        if name := _NAMES.match(self.script, self.at, self.end):
            self.expand(self.at, name[0])
            self.at = name.end()
        elif (char := self.peek()) and char in "$@*#?!-0123456789":
            self.at += 1
        else:
            part.text.append("$")
            return
        part.text.append(UNKNOWN)

    def expand(self, at: int, name: str) -> None:
        self.expanded_at.append(at)
        self.expanded.append(name)

    def substitution(self) -> None:
        """Read the commands of `$(…)`, starting after the parenthesis."""
        start, outer = self.at, self.documents
        self.documents = []
        self.commands(")")
        if self.documents or (outer and "\n" in self.script[start : self.at]):
            _unclear("a here-document that continues after `$(…)`")
        self.documents = outer

    def parameter(self, part: _PartialWord, quote: Expanding) -> None:
        """Read the shell's own `${…}`; no value is allowed in it."""
        self.deeper()
        self.at += 2
        if self.peek() in (" ", "\t", "\n", "|"):
            _unclear("a command in `${…}`")
        inner, begins = _PartialWord(), self.at + (self.peek() in ("#", "!"))
        if name := _NAMES.match(self.script, begins, self.end):
            self.expand(begins, name[0])
        while (char := self.peek()) != "}":
            if not char:
                _unbalanced("a `${` that is not closed")
            if char == HOLE:
                self.hole(inner, ScriptPosition("bare", "parameter"))
            elif char == "'" and quote != "bare":
                self.harmless_quotes("a `'` inside `${…}` inside quotes")
            elif char in "'\"`":
                self.quotes(inner, char)
            elif char == "\\":
                self.backslash(inner, "bare")
            elif char == "$":
                self.dollar(inner, quote)
            else:
                self.at += 1
        self.at += 1
        self.depth -= 1
        part.add(inner, "parameter")

    def arithmetic(self, part: _PartialWord, opening: Literal["$((", "((", "$["]) -> None:
        """Read shell arithmetic; bash runs commands that it finds in the values there."""
        self.deeper()
        start = self.at
        opens, closes, end = ("[", "]", "]") if opening == "$[" else ("(", ")", "))")
        self.at += len(opening)
        inner, depth = _PartialWord(), 0
        while depth or not self.sees(end):
            char = self.peek()
            if not char:
                _unbalanced(f"a `{opening}` that is not closed")
            if char == closes and not depth:
                _unclear(f"`{opening}` that may be a subshell")
            depth += (char == opens) - (char == closes)
            self.arithmetic_piece(inner, char)
        self.at += len(end)
        self.depth -= 1
        self.evaluate(inner.word(start, self.at), "arithmetic")
        part.add(inner, "arithmetic")

    def arithmetic_piece(self, inner: _PartialWord, char: str) -> None:
        """Read one piece inside arithmetic: a hole, an expansion or a character."""
        if char == HOLE:
            self.hole(inner, ScriptPosition("bare", "arithmetic"))
        elif char == "$":
            self.dollar(inner, "double")
        elif char == "`":
            self.backticks(inner)
        elif char in "'\"":
            self.harmless_quotes("quotes in arithmetic")
        elif char == "\\" or (char == "#" and self.script[self.at - 1] in " \t\n"):
            _unclear(f"`{char}` in arithmetic")
        else:
            self.at += 1

    def harmless_quotes(self, what: str) -> None:
        """Skip quoted text that has the same end whether or not the quotes count. Raises
        `_CannotParse`, naming `what`, for other quotes."""
        found = _HARMLESS_QUOTES.match(self.script, self.at, self.end)
        if not found:
            _unclear(what)
        self.at = found.end()

    def dollar_quotes(self, part: _PartialWord) -> None:
        """Read `$'…'`, which dash treats as a dollar sign and plain quotes."""
        found = _DOLLAR_QUOTES.match(self.script, self.at, self.end)
        if not found:
            _unbalanced("a `$'` that is not closed")
        if "\\'" in found[1] and self.shell != "bash":
            _unclear("`\\'` inside `$'…'`")
        inner = _PartialWord()
        place = ScriptPosition("literal", "dollar quotes")
        inner.holes += ((at, place) for at in self.holes_in(*found.span(1)))
        part.add(inner, "dollar quotes")
        part.bare = False
        self.at = found.end()

    # Here-documents

    def delimiter(self, tabs: bool) -> _Document:
        """Read the delimiter of a here-document, and remember it for the next line, where its text
        follows."""
        start = self.at
        word = self.word()
        self.settle(word, "delimiter")
        raw = self.script[start : self.at]
        if not raw or any(char in raw for char in (HOLE, "$", "`", "\n")):
            _unclear("the delimiter of a here-document")
        document = _Document(word.text, not word.bare, tabs)
        self.documents.append(document)
        return document

    def document(self, document: _Document) -> None:
        """Read the text of a here-document."""
        start = self.at
        stop, after = self.document_end(document)
        if document.literal:
            self.settle_all(
                start, stop, ScriptPosition("literal", "literal document", document.program)
            )
        else:
            outer, self.end = self.end, stop
            part = _PartialWord()
            self.expanding(part, "document")
            self.end = outer
            word = part.word(start, stop)
            self.settle(word, "program" if document.program else "", document.program)
        self.at = after

    def document_end(self, document: _Document) -> tuple[int, int]:
        """Return where the closing line of a here-document starts, and where the next line starts."""
        at, joined = self.at, ""
        while at < self.end:
            stop = self.script.find("\n", at, self.end)
            after = self.end if stop < 0 else stop + 1
            line = self.script[at : after if stop < 0 else stop]
            if document.tabs and not joined:
                line = line.lstrip("\t")
            if joined + line == document.delimiter:
                if joined:
                    _unclear("the delimiter of a here-document over two lines")
                return at, after
            # A backslash joins two lines, so the second one alone is not the delimiter.
            backslashes = len(line) - len(line.rstrip("\\"))
            joins = backslashes % 2 and not document.literal
            joined = (joined + line[:-1])[: len(document.delimiter) + 1] if joins else ""
            at = after
        _unbalanced(f"no line `{document.delimiter}` after `<<`")

    # Commands

    def only_bash(self, start: int, stop: int, name: str) -> None:
        """Record a construct that not every `sh` has, unless the shell is bash."""
        if self.shell != "bash":
            self.bash_only.append((start, stop, name))

    def commands(self, closer: str) -> str:
        """Read commands up to `closer`: `)`, `esac`, or the end of the script if empty. Return what
        ended them."""
        self.deeper()
        command = _Command()
        ended = ""
        while not ended:
            self.blanks()
            char = self.peek()
            if char and char not in WORD_ENDS:
                ended = self.command_word(command, closer)
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
        """Read an operator between commands. Return the closer if it was one, else an empty string."""
        if not char:
            if closer or self.documents:
                _unbalanced(f"no `{closer}`" if closer else "a here-document without its text")
            return "end"
        if char == ")" and closer != ")":
            _unbalanced("an extra `)`")
        joins = char == "|" or self.sees("&&")
        if self.depth == 1 and not self.compound and not (self.joined and char == "\n"):
            self.joined, self.ended = joins, not joins
        if char == "\n":
            self.newline()
            return ""
        branch = _BRANCH_END.match(self.script, self.at, self.end) if closer == "esac" else None
        self.at = branch.end() if branch else self.at + (2 if self.sees("&&") else 1)
        return ";;" if branch else char if char == ")" else ""

    def command_word(self, command: _Command, closer: str) -> str:
        """Read a word of a command: a reserved word, an assignment or an argument.

        Return `esac` if that ends the commands, else an empty string.
        """
        start = self.at
        if self.ended:
            self.negated.clear()  # another command decides the exit code
        self.joined = self.ended = False
        word = self.word()
        if self.peek() in ("<", ">") and _DESCRIPTOR.fullmatch(self.script, start, self.at):
            return ""
        if command.begins and word.bare and word.text in _RESERVED:
            self.finish(command)
            return self.reserved(word, command, closer)
        assignment = _ASSIGNMENT.match(self.script, start, self.at)
        if assignment and not command.words:
            self.assignment(assignment[1], word)
        else:
            command.add(word)
        if assignment and assignment.end() == self.at and self.peek() == "(":
            self.array(assignment[1])
        return ""

    def finish(self, command: _Command) -> None:
        """Record the places of all values in a command that has been read to its end, and clear
        it."""
        if command.words:
            self.simple.append(tuple(command.words))
        found = findings(command.words)
        for at, word in enumerate(command.words):
            self.settle_as(word, found.get(at, _ARGUMENT))
            if command.loop:
                self.assign(command.loop, word)
        for name, word in declared(command.words):
            self.assign(name, word)
        self.integers = self.integers or makes_integers(command.words)
        self.bash_command(command.words)
        program = found[-1].of if -1 in found else ""
        for word in command.inputs:
            self.settle(word, "program" if program else "", program)
        for document in command.documents:
            document.program = program
        command.clear()

    def bash_command(self, words: list[Word]) -> None:
        """Record a builtin, or an option of `set`, that not every `sh` has."""
        name = words[0].text if words else ""
        if name in _BASH_COMMANDS:
            self.only_bash(words[0].start, words[0].stop, name)
        for word in words[1:] if name == "set" else ():
            if word.text == "pipefail":
                self.only_bash(word.start, word.stop, "set -o pipefail")

    def assignment(self, name: str, word: Word) -> None:
        """Record the places of the values in `name=word`."""
        if name in EVALUATED:
            self.settle(word, "variable", name)
        else:
            self.settle(word, "arithmetic" if self.integers else "")
        self.assign(name, word)

    def array(self, name: str) -> None:
        """Read the elements of `name=(…)`."""
        self.only_bash(self.at, self.at + 1, f"{name}=(…)")
        self.at += 1
        self.lines()
        while (char := self.peek()) != ")":
            if not char:
                _unbalanced("no `)`")
            if char in WORD_ENDS:
                _unclear(f"`{char}` in an array")
            word = self.word()
            # A subscript is arithmetic.
            self.settle(word, "arithmetic" if word.text.startswith("[") else "", splits=True)
            self.assign(name, word)
            self.lines()
        self.at += 1

    def redirection(self, command: _Command) -> None:
        """Read a redirection and its target."""
        found = _REDIRECTION.match(self.script, self.at, self.end)
        assert found, "only called at a redirection"
        operator = found[0]
        if operator in ("<<<", "<(", ">(") or operator.startswith("&"):
            self.only_bash(self.at, found.end(), operator)
        self.at = found.end()
        if operator.startswith("&") and self.shell != "bash":
            _unclear("`&>`, which `sh` may read as `&` and `>`")
        if self.sees("\\\n"):
            _unclear("a line that ends in the middle of a redirection")
        if operator.endswith("("):
            command.add(self.process())
            return
        self.blanks()
        if operator in ("<<", "<<-"):
            command.documents.append(self.delimiter(tabs=operator == "<<-"))
            return
        word = self.redirection_target()
        if operator in ("<<<", "<"):
            command.inputs.append(word)
        else:
            self.settle(word)

    def redirection_target(self) -> Word:
        """Read the word, or `<(…)`, after a redirection operator."""
        if self.sees("<(") or self.sees(">("):
            self.at += 2
            return self.process()
        return self.word()

    def process(self) -> Word:
        """Read the commands of `<(…)` or `>(…)`, starting after the parenthesis."""
        start = self.at
        self.substitution()
        return Word(_PROCESS, False, (), start, self.at)

    def parenthesis(self, command: _Command) -> None:
        """Read a subshell, an arithmetic command, or the `()` of a function."""
        function = _EMPTY_PARENTHESES.match(self.script, self.at, self.end)
        begins = command.begins
        if not begins and not function:
            _unclear("a `(` in the middle of a command")
        self.finish(command)
        if function and not begins:
            self.at = function.end()
        elif self.sees("(("):
            self.arithmetic_command()
        else:
            self.at += 1
            self.commands(")")

    # Compound commands

    def reserved(self, word: Word, command: _Command, closer: str) -> str:
        """Handle a reserved word. Return `esac` if it ends the commands, else an empty string."""
        self.compound += (word.text in _OPENS) - (word.text in _CLOSES)
        if word.text in ("[[", "function", "select"):
            self.only_bash(word.start, word.stop, word.text)
        match word.text:
            case "!" if self.depth == 1 and not self.compound:
                self.negated.append(word.start)
            case "case":
                self.case()
            case "for" | "select":
                self.loop(command)
            case "function":
                self.function()
            case "[[":
                self.test()
            case "coproc":
                _unclear("`coproc`")
            case "esac" if closer == "esac":
                return "esac"
        return ""

    def function(self) -> None:
        """Read `function name`, with or without parentheses."""
        self.blanks()
        self.settle(self.word(), "name")
        self.blanks()
        if parentheses := _EMPTY_PARENTHESES.match(self.script, self.at, self.end):
            self.at = parentheses.end()

    def loop(self, command: _Command) -> None:
        """Read the head of `for` or `select`, up to its `in`."""
        self.blanks()
        if self.sees("(("):
            return
        name = self.word()
        self.settle(name, "name")
        self.lines()
        if word := _IN.match(self.script, self.at, self.end):
            self.at = word.end()
            command.add(Word("in", True, (), word.start(), self.at))
            command.loop = name.text

    def case(self) -> None:
        """Read a `case` command, starting after the word `case`."""
        self.blanks()
        self.settle(self.word())
        self.lines()
        word = _IN.match(self.script, self.at, self.end)
        if not word:
            _unclear("a `case` without `in`")
        self.at = word.end()
        ended = ""
        while ended != "esac":
            self.lines()
            if self.peek() == "(":
                self.at += 1
            ended = self.patterns() or self.commands("esac")

    def patterns(self) -> str:
        """Read the patterns `a | b)`. Return `esac` if that is there instead."""
        while True:
            self.blanks()
            word = self.word()
            if word.bare and word.text == "esac":
                return "esac"
            self.settle(word)
            self.blanks()
            char = self.peek()
            if char not in ("|", ")"):
                _unclear("a pattern of `case`")
            self.at += 1
            if char == ")":
                return ""

    def test(self) -> None:
        """Read `[[ … ]]`; bash evaluates the operands of numeric comparisons and of `-v`."""
        words = [_NO_WORD]
        while not (words[-1].bare and words[-1].text == "]]"):
            self.lines()
            char = self.peek()
            if not char:
                _unbalanced("no `]]`")
            if char in WORD_ENDS:
                self.at += 1
            else:
                words.append(self.word())
        for (before, word), (_, after) in pairwise(pairwise((*words, _NO_WORD))):
            if before.text in ("-v", "-R"):
                self.settle(word, "name")
            elif before.text in _NUMERIC_TESTS or after.text in _NUMERIC_TESTS:
                self.settle(word, "test")
            else:
                self.settle(word)

    def arithmetic_command(self) -> None:
        """Read `((…))`."""
        start, part = self.at, _PartialWord()
        self.only_bash(start, start + 2, "((")
        self.arithmetic(part, "((")
        # In dash, this is a subshell in a subshell, where `<<` starts a here-document.
        if "<<" in self.script[start : self.at]:
            _unclear("`<<` inside `((`")
        self.settle(part.word(start, self.at))
