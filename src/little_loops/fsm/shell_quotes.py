"""Read the words of a shell script: quotes, expansions, comments, here-documents.

`Reader` walks over a script in which `HOLE` stands wherever a value will be put, and notes of each
hole how the shell will read a text there.  It is the lower half of `shell_text`, which knows about
commands; what is inside `$(…)` is commands again, so it asks the upper half for that.

Where dash and bash read differently, it stops (`Lost`) rather than guess.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from little_loops.fsm.shell_places import HOLE, Place, Reason
from little_loops.fsm.shell_programs import UNKNOWN

Expanding: TypeAlias = Literal["bare", "double", "document"]


class Word(NamedTuple):
    text: str
    holes: tuple[tuple[int, Place], ...]
    bare: bool


class Lost(Exception):
    """The rest of the script cannot be read."""

    def __init__(self, reason: Reason, what: str) -> None:
        self.reason, self.what = reason, what


class Seen:
    """What has been read of a word so far."""

    __slots__ = ("bare", "holes", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.holes: list[tuple[int, Place]] = []
        self.bare = True

    def word(self) -> Word:
        return Word("".join(self.text), tuple(self.holes), self.bare)

    def take(self, other: Seen, refused: Reason) -> None:
        """Add the holes of what was read inside an expansion."""
        self.text.append(UNKNOWN)
        for at, place in other.holes:
            self.holes.append((at, place if place.refused else place._replace(refused=refused)))


class Document:
    """A here-document that was announced; its text begins on the next line."""

    __slots__ = ("delimiter", "literal", "program", "tabs")

    def __init__(self, delimiter: str, literal: bool, tabs: bool) -> None:
        self.delimiter, self.literal, self.tabs = delimiter, literal, tabs
        self.program = ""


WORD_ENDS = " \t\n;&|<>()"
_DEEPEST = 40
_PLAIN = re.compile(r"[^ \t\n;&|<>()'\"\\$`\0]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`\0]+")
_PLAIN_DOCUMENT = re.compile(r"[^\\$`\0]+")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_DOLLAR_QUOTES = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
# Quoted text that ends at the same place whether or not its quotes are special there.
_HARMLESS_QUOTES = re.compile(r"'[^'\"\\$`(){}\0\n]*'|\"[^'\"\\`(){}\0\n]*\"")
NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def unbalanced(what: str) -> NoReturn:
    raise Lost("unbalanced", what)


def unclear(what: str) -> NoReturn:
    raise Lost("unclear", what)


class Reader(ABC):
    def __init__(self, script: str, shell: str) -> None:
        self.script, self.shell = script, shell
        self.at, self.end = 0, len(script)
        self.depth = 0
        self.documents: list[Document] = []
        self.places: dict[int, Place] = {}
        self.evaluated: set[str] = set()

    @abstractmethod
    def commands(self, closer: str) -> str:
        """Read commands up to what closes them, and say what did."""

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.script[at] if at < self.end else ""

    def sees(self, text: str) -> bool:
        return self.script.startswith(text, self.at, self.end)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            unclear(f"more than {_DEEPEST} levels of nesting")

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
            self.settle_all(self.at, stop, Place("comment"))
            self.at = stop

    def lines(self) -> None:
        """Skip blanks, comments and line ends."""
        self.blanks()
        while self.peek() == "\n":
            self.newline()
            self.blanks()

    def newline(self) -> None:
        self.at += 1
        documents, self.documents = self.documents, []
        for document in documents:
            self.document(document)

    def settle_all(self, start: int, stop: int, place: Place) -> None:
        at = self.script.find(HOLE, start, stop)
        while at >= 0:
            self.places[at] = place
            at = self.script.find(HOLE, at + 1, stop)

    def settle(self, word: Word, refused: Reason = "", of: str = "", splits: bool = False) -> None:
        for at, place in word.holes:
            if not place.refused:
                place = place._replace(refused=refused, of=of)
            self.places[at] = place._replace(splits=splits and place.quote == "bare")

    # Words

    def word(self) -> Word:
        seen = Seen()
        while (char := self.peek()) and char not in WORD_ENDS:
            if char == HOLE:
                self.hole(seen, Place("bare"))
            elif char in "'\"`":
                seen.bare = seen.bare and char == "`"
                self.quotes(seen, char)
            elif char == "\\":
                seen.bare = False
                self.backslash(seen, "bare")
            elif char == "$":
                self.dollar(seen, "bare")
            else:
                self.plain(seen, _PLAIN)
        return seen.word()

    def hole(self, seen: Seen, place: Place) -> None:
        seen.text.append(HOLE)
        seen.holes.append((self.at, place))
        self.at += 1

    def plain(self, seen: Seen, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.script, self.at, self.end)
        assert found, "called at a plain character"
        seen.text.append(found[0])
        self.at = found.end()

    def quotes(self, seen: Seen, char: str) -> None:
        if char == "'":
            self.single(seen)
        elif char == '"':
            self.at += 1
            self.expanding(seen, "double")
        else:
            self.backticks(seen)

    def single(self, seen: Seen) -> None:
        stop = self.script.find("'", self.at + 1, self.end)
        if stop < 0:
            unbalanced("a `'` that is not closed")
        seen.text.append(self.script[self.at + 1 : stop])
        for at in range(self.at + 1, stop):
            if self.script[at] == HOLE:
                seen.holes.append((at, Place("single")))
        self.at = stop + 1

    def expanding(self, seen: Seen, quote: Literal["double", "document"]) -> None:
        """Read what is in double quotes, or the text of a here-document."""
        while char := self.peek():
            if char == '"' and quote == "double":
                self.at += 1
                return
            if char == HOLE:
                self.hole(seen, Place(quote))
            elif char == "\\":
                self.backslash(seen, quote)
            elif char == "$":
                self.dollar(seen, quote)
            elif char == "`":
                self.backticks(seen)
            else:
                self.plain(seen, _PLAIN_DOCUMENT if quote == "document" else _PLAIN_QUOTED)
        if quote == "double":
            unbalanced('a `"` that is not closed')

    def backslash(self, seen: Seen, quote: Expanding) -> None:
        self.at += 1
        char = self.peek()
        if char == HOLE:
            self.hole(seen, Place(quote, "backslash"))
            return
        if char != "\n":
            seen.text.append(char)
        self.at += len(char)

    def backticks(self, seen: Seen) -> None:
        found = _BACKTICKS.match(self.script, self.at, self.end)
        if not found:
            unbalanced("a backtick that is not closed")
        if found[1].count("'") % 2 or found[1].count('"') % 2:
            unclear("a backtick inside quotes inside backticks")
        inner = Seen()
        for at in range(*found.span(1)):
            if self.script[at] == HOLE:
                inner.holes.append((at, Place("bare", "backticks")))
        seen.take(inner, "backticks")
        self.at = found.end()

    # After a dollar sign

    def dollar(self, seen: Seen, quote: Expanding) -> None:
        following = self.peek(1)
        if self.sees("$(("):
            self.arithmetic(seen, "$((")
        elif following == "(":
            self.at += 2
            self.substitution()
            seen.text.append(UNKNOWN)
        elif following == "{":
            self.parameter(seen, quote)
        elif following == "[":
            self.arithmetic(seen, "$[")
        elif following == "'" and quote == "bare":
            self.dollar_quotes(seen)
        elif following == HOLE:
            self.at += 1
            self.hole(seen, Place(quote, "dollar"))
        elif self.sees("$\\\n"):
            unclear("a line that ends right after `$`")
        else:
            self.variable(seen)

    def variable(self, seen: Seen) -> None:
        """Read `$name`, `$1`, `$$` …, or a dollar sign that is just one."""
        self.at += 1
        if name := NAMES.match(self.script, self.at, self.end):
            self.at = name.end()
        elif (char := self.peek()) and char in "$@*#?!-0123456789":
            self.at += 1
        else:
            seen.text.append("$")
            return
        seen.text.append(UNKNOWN)

    def substitution(self) -> None:
        """Read the commands of `$(…)`, after the parenthesis."""
        start, outer = self.at, self.documents
        self.documents = []
        self.commands(")")
        if self.documents or (outer and "\n" in self.script[start : self.at]):
            unclear("a here-document that goes on behind `$(…)`")
        self.documents = outer

    def parameter(self, seen: Seen, quote: Expanding) -> None:
        """Read the shell's own `${…}`: no value may stand in it."""
        self.deeper()
        self.at += 2
        if self.peek() in (" ", "\t", "\n", "|"):
            unclear("a command in `${…}`")
        inner = Seen()
        while (char := self.peek()) != "}":
            if not char:
                unbalanced("a `${` that is not closed")
            if char == HOLE:
                self.hole(inner, Place("bare", "parameter"))
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
        seen.take(inner, "parameter")

    def arithmetic(self, seen: Seen, opening: Literal["$((", "((", "$["]) -> None:
        """Read shell arithmetic: bash runs commands that stand in the values it works on."""
        self.deeper()
        start = self.at
        opens, closes, end = ("[", "]", "]") if opening == "$[" else ("(", ")", "))")
        self.at += len(opening)
        inner, depth = Seen(), 0
        while depth or not self.sees(end):
            char = self.peek()
            if not char:
                unbalanced(f"a `{opening}` that is not closed")
            if char == closes and not depth:
                unclear(f"`{opening}` that may be a subshell")
            depth += (char == opens) - (char == closes)
            self.in_arithmetic(inner, char)
        self.at += len(end)
        self.depth -= 1
        self.evaluated.update(NAMES.findall(self.script, start, self.at))
        seen.take(inner, "arithmetic")

    def in_arithmetic(self, inner: Seen, char: str) -> None:
        if char == HOLE:
            self.hole(inner, Place("bare", "arithmetic"))
        elif char == "$":
            self.dollar(inner, "double")
        elif char == "`":
            self.backticks(inner)
        elif char in "'\"":
            self.harmless_quotes("quotes in arithmetic")
        elif char == "\\" or (char == "#" and self.script[self.at - 1] in " \t\n"):
            unclear(f"`{char}` in arithmetic")
        else:
            self.at += 1

    def harmless_quotes(self, what: str) -> None:
        found = _HARMLESS_QUOTES.match(self.script, self.at, self.end)
        if not found:
            unclear(what)
        self.at = found.end()

    def dollar_quotes(self, seen: Seen) -> None:
        """Read `$'…'`: to dash this is a dollar sign and plain quotes."""
        found = _DOLLAR_QUOTES.match(self.script, self.at, self.end)
        if not found:
            unbalanced("a `$'` that is not closed")
        if "\\'" in found[1] and self.shell != "bash":
            unclear("`\\'` inside `$'…'`")
        inner = Seen()
        for at in range(*found.span(1)):
            if self.script[at] == HOLE:
                inner.holes.append((at, Place("literal", "dollar quotes")))
        seen.take(inner, "dollar quotes")
        seen.bare = False
        self.at = found.end()

    # Here-documents

    def announce(self, tabs: bool) -> Document:
        """Read the delimiter of a here-document."""
        start = self.at
        word = self.word()
        self.settle(word, "delimiter")
        raw = self.script[start : self.at]
        if not raw or any(char in raw for char in (HOLE, "$", "`", "\n")):
            unclear("the delimiter of a here-document")
        document = Document(word.text, not word.bare, tabs)
        self.documents.append(document)
        return document

    def document(self, document: Document) -> None:
        start = self.at
        stop, after = self.document_end(document)
        if document.literal:
            self.settle_all(start, stop, Place("literal", "literal document", document.program))
        else:
            outer, self.end = self.end, stop
            seen = Seen()
            self.expanding(seen, "document")
            self.end = outer
            self.settle(seen.word(), "program" if document.program else "", document.program)
        self.at = after

    def document_end(self, document: Document) -> tuple[int, int]:
        """Find the line that ends a here-document: where it begins, and where the next does."""
        at, joined = self.at, ""
        while at < self.end:
            stop = self.script.find("\n", at, self.end)
            after = self.end if stop < 0 else stop + 1
            line = self.script[at : after if stop < 0 else stop]
            if document.tabs and not joined:
                line = line.lstrip("\t")
            if joined + line == document.delimiter:
                if joined:
                    unclear("the delimiter of a here-document over two lines")
                return at, after
            # A backslash joins two lines, so the second is not looked at on its own.
            backslashes = len(line) - len(line.rstrip("\\"))
            joins = backslashes % 2 and not document.literal
            joined = (joined + line[:-1])[: len(document.delimiter) + 1] if joins else ""
            at = after
        unbalanced(f"no line `{document.delimiter}` after `<<`")
