"""The YAML parser's complaints in our words, pointing at what the author wrote.

The parser says where it gave up ("did not find expected key"); people want to know what they did.
Each rule below looks at the complaint and the lines around it; the first that knows the mistake
answers.  The words of both of PyYAML's parsers are understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from little_loops.authoring.messages import quoted, shown
from little_loops.authoring.yaml.nodes import Mark
from little_loops.authoring.yaml.places import Source
from little_loops.errors import Problem
from little_loops.records import NamedTuple

_KEY = re.compile(r"""\s*(?:- +)*(?:"[^"]*"|'[^']*'|[^\s:#'"][^:#]*?)\s*:(?:\s|$)""")
_QUOTED = re.compile(
    r"""(?:^|[\s\[{,:-])((?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"))\s*(?=[^\s,:#\]}])"""
)


class Complaint(NamedTuple):
    """What the parser said: about what it was busy with, and where it gave up."""

    context: str
    began: Mark
    problem: str
    at: Mark
    source: Source

    def line(self, mark: Mark) -> str:
        return self.source.lines[mark.line] if mark.line < len(self.source.lines) else ""


class Finding(NamedTuple):
    code: str
    message: str
    mark: Mark
    help: str


def explain(error: Any, source: Source) -> Problem:
    """The problem behind an exception of the YAML parser."""
    at = _mark(getattr(error, "problem_mark", None)) or Mark(0, 0, 1)
    began = _mark(getattr(error, "context_mark", None)) or at
    problem = getattr(error, "problem", None) or str(error)
    complaint = Complaint(getattr(error, "context", None) or "", began, problem, at, source)
    for rule in RULES:
        found = rule(complaint)
        if found is not None:
            break
    else:
        found = Finding("LL020", f"this is not YAML: {shown(problem)}", at, _LOOK_AROUND)
    return Problem(found.code, found.message, source.place(_inside(found.mark, source)), found.help)


_LOOK_AROUND = "look at this line and the one before: indentation, quotes, brackets, colons"


def _tab(said: Complaint) -> Finding | None:
    line = said.line(said.at)
    if line[said.at.column : said.at.column + 1] != "\t" or line[: said.at.column].strip():
        return None
    blanks = len(line) - len(line.lstrip())
    return Finding(
        "LL021",
        "YAML does not allow tabs for indentation",
        Mark(said.at.line, said.at.column, blanks),
        "indent with spaces",
    )


def _unclosed_quote(said: Complaint) -> Finding | None:
    ended = "end of stream" in said.problem or "unexpected document" in said.problem
    if "quoted scalar" not in said.context or not ended:
        return None
    quote = said.line(said.began)[said.began.column : said.began.column + 1]
    return Finding(
        "LL022",
        "this quote is never closed",
        _to_end(said, said.began),
        f"add a {quote} at the end of the text",
    )


def _escape(said: Complaint) -> Finding | None:
    if "quoted scalar" not in said.context:
        return None
    line = said.line(said.at)
    column = max(0, line.rfind("\\", 0, said.at.column + 1))
    return Finding(
        "LL028",
        f"`{shown(line[column : column + 2])}` is not a YAML escape sequence",
        Mark(said.at.line, column, column + 2),
        "in double quotes write \\\\ for a backslash, or use single quotes",
    )


def _template_in_brackets(said: Complaint) -> Finding | None:
    """`{action: ${context.x}}`: to YAML the second brace begins a mapping."""
    line, at = said.line(said.at), said.at.column
    if "flow" not in said.context or line[max(0, at - 1) : at + 1] != "${":
        return None
    before = re.match(r"(?:.*(?:[\[{,]|:[ \t]))?[ \t]*", line[: at - 1])
    assert before is not None, "every part of the pattern is optional"
    start = before.end()
    end = start + len(line[start : _end_of_item(line, at)].rstrip())
    return Finding(
        "LL030",
        "inside brackets and braces, text with `${` must be quoted",
        Mark(said.at.line, start, end),
        f"quote it: {quoted(line[start:end])}",
    )


def _end_of_item(line: str, at: int) -> int:
    """Where the item ends that has this brace in it."""
    depth = 0
    for column in range(at, len(line)):
        depth += (line[column] in "{[") - (line[column] in "}]")
        if depth < 0 or (depth == 0 and line[column] == ","):
            return column
    return len(line.rstrip())


def _unclosed_bracket(said: Complaint) -> Finding | None:
    if "flow sequence" not in said.context and "flow mapping" not in said.context:
        return None
    bracket, end = ("[", "]") if "sequence" in said.context else ("{", "}")
    return Finding(
        "LL023",
        f"this `{bracket}` is not closed",
        said.began,
        f"close it with `{end}`, and separate the items with commas",
    )


def _colon_in_value(said: Complaint) -> Finding | None:
    if "mapping values are not allowed" not in said.problem:
        return None
    line = said.line(said.at)
    key = _KEY.match(line)
    if key is not None and key.end() <= said.at.column:
        mark = Mark(said.at.line, key.end() + _blanks(line[key.end() :]), len(line.rstrip()))
        return Finding(
            "LL024",
            "a value that contains `: ` must be quoted",
            mark,
            f"quote it: {quoted(line[mark.column : mark.end_column])}",
        )
    return _indented_too_far(said, line)


def _indented_too_far(said: Complaint, line: str) -> Finding:
    above = _line_above(said)
    text = said.line(above).strip()
    if text and _KEY.match(text) is None and not text.startswith("- "):
        return _without_colon(said, above)
    mark = Mark(said.at.line, _blanks(line), said.at.column)
    return Finding(
        "LL025",
        "this line is indented too far",
        mark,
        "give it the same indentation as its neighbours",
    )


def _missing_colon(said: Complaint) -> Finding | None:
    return _without_colon(said, said.began) if "simple key" in said.context else None


def _without_colon(said: Complaint, mark: Mark) -> Finding:
    line = said.line(mark)
    word = line.strip().split(":")[0].split(" ")[0]
    return Finding(
        "LL026",
        "a key must be followed by a colon and a space",
        Mark(mark.line, _blanks(line), len(line.rstrip())),
        f"write `{shown(word)}: …`",
    )


def _first_character(said: Complaint) -> Finding | None:
    starts = "cannot start any token" in said.problem
    if not starts and "scanning an alias" not in said.context and "an anchor" not in said.context:
        return None
    mark = said.at if starts else said.began
    text = said.line(mark)[mark.column :].rstrip()
    sign = "a backtick" if text.startswith("`") else f"`{shown(text[:1])}`"
    return Finding(
        "LL027",
        f"text that begins with {sign} must be quoted",
        _to_end(said, mark),
        f"quote it: {quoted(text)}",
    )


def _block_header(said: Complaint) -> Finding | None:
    if "block scalar" not in said.context:
        return None
    return Finding(
        "LL029",
        "unexpected text after `|` or `>`",
        _to_end(said, said.began),
        "begin the text on the next line, or quote all of it",
    )


def _list_beside_key(said: Complaint) -> Finding | None:
    if "sequence entries are not allowed" not in said.problem:
        return None
    return Finding(
        "LL025",
        "a list cannot begin on the same line as its key",
        said.at,
        "begin it on the next line, or write `[a, b]`",
    )


def _after_quote(said: Complaint) -> Finding | None:
    line, column = said.line(said.at), said.at.column
    quotes = (found.span(1) for found in _QUOTED.finditer(line) if found.end() >= column)
    start, _ = next(quotes, (column, column))
    if start >= column:
        return None
    return Finding(
        "LL029",
        "unexpected text after the closing quote",
        Mark(said.at.line, start, len(line.rstrip())),
        "put the whole text in quotes; inside '…' a quote is written ''",
    )


def _misplaced(said: Complaint) -> Finding | None:
    """A line that fits no level: a dedent to nowhere, a list item among keys or the reverse."""
    wanted = ("expected key", "block end", "'-' indicator", "document start")
    if not any(each in said.problem for each in wanted):
        return None
    line = said.line(said.at)
    return Finding(
        "LL025",
        "the indentation of this line does not match any line above",
        Mark(said.at.line, said.at.column, max(len(line.rstrip()), said.at.column + 1)),
        "give it the same indentation as its neighbours; keys and `- ` items do not mix",
    )


def _no_value(said: Complaint) -> Finding | None:
    if "node content" not in said.problem:
        return None
    sign = said.line(said.at)[said.at.column : said.at.column + 1]
    if not sign:
        return None
    return Finding("LL020", f"`{shown(sign)}` is not a value", said.at, "remove it, or quote it")


def _directive(said: Complaint) -> Finding | None:
    line = said.line(Mark(0, 0, 1))
    about = "directive" in said.context or "document" in said.problem
    if not line.startswith("%") or not about:
        return None
    return Finding(
        "LL027",
        "a line cannot begin with `%`, which starts a YAML directive",
        Mark(0, 0, len(line.rstrip())),
        "remove it, or quote it",
    )


RULES: tuple[Callable[[Complaint], Finding | None], ...] = (
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


def _to_end(said: Complaint, mark: Mark) -> Mark:
    return Mark(mark.line, mark.column, max(len(said.line(mark).rstrip()), mark.column + 1))


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def _line_above(said: Complaint) -> Mark:
    """The next line above that says something, or this one."""
    above = range(said.at.line - 1, -1, -1)
    said_something = (n for n in above if said.source.lines[n].split("#")[0].strip())
    return Mark(next(said_something, said.at.line), 0, 1)


def _inside(mark: Mark, source: Source) -> Mark:
    """The end of the file has no line of its own: its last line is shown."""
    if mark.line < len(source.lines) or not source.lines:
        return mark
    last = len(source.lines) - 1
    end = len(source.lines[last])
    return Mark(last, end, end + 1)
