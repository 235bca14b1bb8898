"""Explain the YAML parser's errors, pointing at what the author wrote.

The parser says where it gave up ("did not find expected key"), but people want to know what they
did wrong. Each rule below examines the error and the lines around it; the first that recognises the
mistake explains it. The messages of both of PyYAML's parsers are understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from little_loops.authoring.messages import quoted, shown
from little_loops.authoring.yaml.nodes import Mark
from little_loops.authoring.yaml.places import Source
from little_loops.errors import Problem
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

_KEY = re.compile(r"""\s*(?:- +)*(?:"[^"]*"|'[^']*'|[^\s:#'"][^:#]*?)\s*:(?:\s|$)""")
_QUOTED = re.compile(
    r"""(?:^|[\s\[{,:-])((?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"))\s*(?=[^\s,:#\]}])"""
)


class Complaint(NamedTuple):
    """The parser's error: what it was parsing, and where it gave up."""

    context: str
    began: Mark
    problem: str
    at: Mark
    source: Source

    def line(self, mark: Mark) -> str:
        return self.source.lines[mark.line] if mark.line < len(self.source.lines) else ""


class SyntaxFinding(NamedTuple):
    code: str
    message: str
    mark: Mark
    help: str


def explain(error: Any, source: Source) -> Problem:
    """Return the problem for an exception of the YAML parser."""
    at = _mark(getattr(error, "problem_mark", None)) or Mark(0, 0, 1)
    began = _mark(getattr(error, "context_mark", None)) or at
    problem = getattr(error, "problem", None) or str(error)
    complaint = Complaint(getattr(error, "context", None) or "", began, problem, at, source)
    for rule in RULES:
        found = rule(complaint)
        if found is not None:
            break
    else:
        found = SyntaxFinding("LL020", f"this is not YAML: {shown(problem)}", at, _LOOK_AROUND)
    return Problem(found.code, found.message, source.place(_inside(found.mark, source)), found.help)


_LOOK_AROUND = "check this line and the one before it: indentation, quotes, brackets, colons"


def _tab(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a tab in the indentation."""
    line = complaint.line(complaint.at)
    if (
        line[complaint.at.column : complaint.at.column + 1] != "\t"
        or line[: complaint.at.column].strip()
    ):
        return None
    blanks = len(line) - len(line.lstrip())
    return SyntaxFinding(
        "LL021",
        "YAML does not allow tabs for indentation",
        Mark(complaint.at.line, complaint.at.column, blanks),
        "indent with spaces",
    )


def _unclosed_quote(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a quote that is never closed."""
    ended = "end of stream" in complaint.problem or "unexpected document" in complaint.problem
    if "quoted scalar" not in complaint.context or not ended:
        return None
    quote = complaint.line(complaint.began)[complaint.began.column : complaint.began.column + 1]
    return SyntaxFinding(
        "LL022",
        "this quote is never closed",
        _to_end(complaint, complaint.began),
        f"add a {quote} at the end of the text",
    )


def _escape(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise an invalid escape in double quotes."""
    if "quoted scalar" not in complaint.context:
        return None
    line = complaint.line(complaint.at)
    column = max(0, line.rfind("\\", 0, complaint.at.column + 1))
    return SyntaxFinding(
        "LL028",
        f"`{shown(line[column : column + 2])}` is not a YAML escape sequence",
        Mark(complaint.at.line, column, column + 2),
        "in double quotes write \\\\ for a backslash, or use single quotes",
    )


def _template_in_brackets(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise `{action: ${context.x}}`, where the second brace starts a mapping in YAML."""
    line, at = complaint.line(complaint.at), complaint.at.column
    if "flow" not in complaint.context or line[max(0, at - 1) : at + 1] != "${":
        return None
    before = re.match(r"(?:.*(?:[\[{,]|:[ \t]))?[ \t]*", line[: at - 1])
    assert before is not None, "every part of the pattern is optional"
    start = before.end()
    end = start + len(line[start : _end_of_item(line, at)].rstrip())
    return SyntaxFinding(
        "LL030",
        "inside brackets and braces, text with `${` must be quoted",
        Mark(complaint.at.line, start, end),
        f"quote it: {quoted(line[start:end])}",
    )


def _end_of_item(line: str, at: int) -> int:
    """Return where the item that contains this brace ends."""
    depth = 0
    for column in range(at, len(line)):
        depth += (line[column] in "{[") - (line[column] in "}]")
        if depth < 0 or (depth == 0 and line[column] == ","):
            return column
    return len(line.rstrip())


def _unclosed_bracket(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a bracket or brace that is never closed."""
    if "flow sequence" not in complaint.context and "flow mapping" not in complaint.context:
        return None
    bracket, end = ("[", "]") if "sequence" in complaint.context else ("{", "}")
    return SyntaxFinding(
        "LL023",
        f"this `{bracket}` is not closed",
        complaint.began,
        f"close it with `{end}`, and separate the items with commas",
    )


def _colon_in_value(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise an unquoted value that contains a colon, or a line indented too far."""
    if "mapping values are not allowed" not in complaint.problem:
        return None
    line = complaint.line(complaint.at)
    key = _KEY.match(line)
    if key is not None and key.end() <= complaint.at.column:
        mark = Mark(complaint.at.line, key.end() + _blanks(line[key.end() :]), len(line.rstrip()))
        return SyntaxFinding(
            "LL024",
            "a value that contains `: ` must be quoted",
            mark,
            f"quote it: {quoted(line[mark.column : mark.end_column])}",
        )
    return _indented_too_far(complaint, line)


def _indented_too_far(complaint: Complaint, line: str) -> SyntaxFinding:
    """Return the finding for a line that is indented too far, or follows a key without a colon."""
    above = _line_above(complaint)
    text = complaint.line(above).strip()
    if _KEY.match(text) is None and not text.startswith("- "):
        return _without_colon(complaint, above)
    mark = Mark(complaint.at.line, _blanks(line), complaint.at.column)
    return SyntaxFinding(
        "LL025",
        "this line is indented too far",
        mark,
        "give it the same indentation as its neighbours",
    )


def _missing_colon(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a key without a colon."""
    return _without_colon(complaint, complaint.began) if "simple key" in complaint.context else None


def _without_colon(complaint: Complaint, mark: Mark) -> SyntaxFinding:
    """Return the finding for a key without a colon."""
    line = complaint.line(mark)
    word = line.strip().split(":")[0].split(" ")[0]
    return SyntaxFinding(
        "LL026",
        "a key must be followed by a colon and a space",
        Mark(mark.line, _blanks(line), len(line.rstrip())),
        f"write `{shown(word)}: …`",
    )


def _first_character(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise unquoted text that begins with a special character."""
    starts = "cannot start any token" in complaint.problem
    if (
        not starts
        and "scanning an alias" not in complaint.context
        and "an anchor" not in complaint.context
    ):
        return None
    mark = complaint.at if starts else complaint.began
    text = complaint.line(mark)[mark.column :].rstrip()
    sign = "a backtick" if text.startswith("`") else f"`{shown(text[:1])}`"
    return SyntaxFinding(
        "LL027",
        f"text that begins with {sign} must be quoted",
        _to_end(complaint, mark),
        f"quote it: {quoted(text)}",
    )


def _block_header(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise text after `|` or `>`."""
    if "block scalar" not in complaint.context:
        return None
    return SyntaxFinding(
        "LL029",
        "unexpected text after `|` or `>`",
        _to_end(complaint, complaint.began),
        "begin the text on the next line, or quote all of it",
    )


def _list_beside_key(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a list that starts on the line of its key."""
    if "sequence entries are not allowed" not in complaint.problem:
        return None
    return SyntaxFinding(
        "LL025",
        "a list cannot begin on the same line as its key",
        complaint.at,
        "begin it on the next line, or write `[a, b]`",
    )


def _after_quote(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise text after a closing quote."""
    line, column = complaint.line(complaint.at), complaint.at.column
    quotes = (found.span(1) for found in _QUOTED.finditer(line) if found.end() >= column)
    start, _ = next(quotes, (column, column))
    if start >= column:
        return None
    return SyntaxFinding(
        "LL029",
        "unexpected text after the closing quote",
        Mark(complaint.at.line, start, len(line.rstrip())),
        "put the whole text in quotes; inside '…' a quote is written ''",
    )


def _misplaced(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise an indentation that matches no level, or a mix of list items and keys."""
    wanted = ("expected key", "block end", "'-' indicator", "document start")
    if not any(each in complaint.problem for each in wanted):
        return None
    line = complaint.line(complaint.at)
    return SyntaxFinding(
        "LL025",
        "this line's indentation does not match that of any line above",
        Mark(
            complaint.at.line, complaint.at.column, max(len(line.rstrip()), complaint.at.column + 1)
        ),
        "give it the same indentation as its neighbours; keys and `- ` items do not mix",
    )


def _no_value(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a character that is not a value."""
    if "node content" not in complaint.problem:
        return None
    sign = complaint.line(complaint.at)[complaint.at.column : complaint.at.column + 1]
    if not sign:
        return None
    return SyntaxFinding(
        "LL020", f"`{shown(sign)}` is not a value", complaint.at, "remove it, or quote it"
    )


def _directive(complaint: Complaint) -> SyntaxFinding | None:
    """Recognise a line that begins with `%`."""
    line = complaint.line(Mark(0, 0, 1))
    about = "directive" in complaint.context or "document" in complaint.problem
    if not line.startswith("%") or not about:
        return None
    return SyntaxFinding(
        "LL027",
        "a line cannot begin with `%`, which starts a YAML directive",
        Mark(0, 0, len(line.rstrip())),
        "remove it, or quote it",
    )


RULES: tuple[Callable[[Complaint], SyntaxFinding | None], ...] = (
    _tab,
    _directive,
    _unclosed_quote,
    _escape,
    _template_in_brackets,
    _unclosed_bracket,
    _colon_in_value,
    _missing_colon,
    _first_character,
    _block_header,
    _list_beside_key,
    _no_value,
    _after_quote,
    _misplaced,
)


def _mark(mark: Any) -> Mark | None:
    return None if mark is None else Mark(mark.line, mark.column, mark.column + 1)


def _to_end(complaint: Complaint, mark: Mark) -> Mark:
    """Return the range from a mark to the end of its line."""
    return Mark(mark.line, mark.column, max(len(complaint.line(mark).rstrip()), mark.column + 1))


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def _line_above(complaint: Complaint) -> Mark:
    """Return the nearest line above with text in it, or the current line."""
    above = range(complaint.at.line - 1, -1, -1)
    lines_with_text = (n for n in above if complaint.source.lines[n].split("#")[0].strip())
    return Mark(next(lines_with_text, complaint.at.line), 0, 1)


def _inside(mark: Mark, source: Source) -> Mark:
    """Return the mark, or the end of the last line if it is after the end of the file."""
    if mark.line < len(source.lines) or not source.lines:
        return mark
    last = len(source.lines) - 1
    end = len(source.lines[last])
    return Mark(last, end, end + 1)
