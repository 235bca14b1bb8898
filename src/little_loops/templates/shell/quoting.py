"""Read the words of a shell script: quotes, expansions, comments, here-documents.

`Reader` walks over a script in which `HOLE` stands wherever a value will be put, and notes of each
hole how the shell will read a text there.  It is the lower half of `shell_text`, which knows about
commands; what is inside `$(…)` is commands again, so it asks the upper half for that.

What stands inside `$(…)` has a place of its own, and besides what it prints takes the place of the
substitution: where that is refused, so is every value inside (`Reach`).

Where dash and bash read differently, it stops (`Lost`) rather than guess.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Literal, NoReturn, TypeAlias

from little_loops.templates.shell.builtins import POSITIONAL
from little_loops.templates.shell.findings import Notes
from little_loops.templates.shell.positions import HOLE, Place
from little_loops.templates.shell.roles import PRINTED, UNKNOWN
from little_loops.templates.shell.tokens import Document, Lost, Seen, Word

Expanding: TypeAlias = Literal["bare", "double", "document"]

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
_EXPANDED = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
# `${x}` and what it may have behind the name that bash does not evaluate.
_PARAMETER = re.compile(
    r"#?(?:([A-Za-z_]\w*)(?:\[[@*]\])?|[0-9@*#?!$-]+)(?:[}=?+#%/^,-]|:[-=?+]|@[^P])", re.ASCII
)
_OWN_NAME = re.compile(r"#?(?:[A-Za-z_]\w*|[@*0-9]+)", re.ASCII)


def unbalanced(what: str) -> NoReturn:
    raise Lost("unbalanced", what)


def unclear(what: str) -> NoReturn:
    raise Lost("unclear", what)


class Reader(Notes, ABC):
    def __init__(self, script: str, shell: str) -> None:
        super().__init__(script)
        self.shell = shell
        self.at, self.end = 0, len(script)
        self.depth = 0
        self.documents: list[Document] = []

    @abstractmethod
    def commands(self, closer: str) -> str:
        """Read commands up to what closes them, and say what did."""

    @abstractmethod
    def passed(self, document: Document, start: int, stop: int) -> None:
        """Note where the text of a here-document stands, once it has been read."""

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

    # Words

    def word(self) -> Word:
        seen, start = Seen(), self.at
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
        return seen.word(start, self.at)

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
        for name in _EXPANDED.finditer(self.script, *found.span(1)):
            self.expand(name.start(), name[1])
        seen.take(inner, "backticks")
        self.at = found.end()

    # After a dollar sign

    def dollar(self, seen: Seen, quote: Expanding) -> None:
        following = self.peek(1)
        if self.sees("$(("):
            self.arithmetic(seen, "$((")
        elif following == "(":
            self.at += 2
            seen.text.append(PRINTED if self.substitution() else UNKNOWN)
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
            self.expand(self.at, name[0])
            self.at = name.end()
        elif (char := self.peek()) and char in "$@*#?!-0123456789":
            if char in "@*123456789":
                self.expand(self.at, POSITIONAL)
            self.at += 1
        else:
            seen.text.append("$")
            return
        seen.text.append(UNKNOWN)

    def substitution(self) -> bool:
        """Read the commands of `$(…)`, after the parenthesis, and say if they print a value."""
        start, outer = self.at, self.documents
        self.documents = []
        self.commands(")")
        if self.documents or (outer and "\n" in self.script[start : self.at]):
            unclear("a here-document that goes on behind `$(…)`")
        self.documents = outer
        counted = self.counted[-1:] == [(start, self.at)]
        return not counted and HOLE in self.script[start : self.at]

    def parameter(self, seen: Seen, quote: Expanding) -> None:
        """Read the shell's own `${…}`: no value may stand in it."""
        self.deeper()
        self.at += 2
        if self.peek() in (" ", "\t", "\n", "|"):
            unclear("a command in `${…}`")
        start, inner = self.at, Seen()
        self.parameter_name()
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
        self.parameter_read(start)
        seen.take(inner, "parameter")
        if PRINTED in inner.text:
            seen.text[-1] = PRINTED

    def parameter_name(self) -> None:
        at = self.at + (self.peek() in ("#", "!"))
        if name := NAMES.match(self.script, at, self.end):
            self.expand(at, name[0])
        elif self.script[at : at + 1].isdigit() or self.sees("@") or self.sees("*"):
            self.expand(at, POSITIONAL)

    def parameter_read(self, start: int) -> None:
        """Note what a `${…}` does besides: it may assign, or evaluate an offset or a subscript."""
        plain = _PARAMETER.match(self.script, start, self.at)
        if plain and plain[0].endswith("="):
            self.given(plain.groups(""), start, self.at)
        elif not plain:
            own = _OWN_NAME.match(self.script, start, self.at)
            inside = own.end() if own and not self.script.endswith("@P}", start, self.at) else start
            self.evaluate(NAMES.findall(self.script, inside, self.at), "arithmetic")
            self.refuse_inside(inside, self.at, "arithmetic")

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
        self.evaluate(NAMES.findall(self.script, start, self.at), "arithmetic")
        self.refuse_inside(start, self.at, "arithmetic")
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
        document = Document(word.text, not word.bare, tabs, start)
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
            word = seen.word(start, stop)
            self.settle(word, "program" if document.program else "", document.program)
        self.passed(document, start, stop)
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
