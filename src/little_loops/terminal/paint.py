"""Add colour to finished text according to its form: `error:` is red, a position blue, a heading
bold.

A page is written and folded without colours; this adds them at the very end, and a colour only
repeats what the text says. A rule is a pattern for a whole line, and the names of its groups are
styles (`red`, or `red1` and `red2` if one style is needed twice); the first rule that matches
counts.

Not here: whether to use colour (`console`), the lines of a run (`terminal_lines`), tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from little_loops.light_typing import TypeAlias

SGR = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "green": "1;32",
    "yellow": "1;33",
    "blue": "1;34",
    "cyan": "36",
    "good": "32",
    "bad": "31",
    "care": "33",
}
"""Labels are bold and coloured; a sign or an ending is only coloured."""
Rules: TypeAlias = Sequence[str]
"""Patterns, compiled when a line is painted: compiling all of them takes 3 ms."""


def styled(text: str, style: str) -> str:
    return f"\x1b[{SGR[style]}m{text}\x1b[0m" if text else ""


def _paint_line(line: str, rules: Rules) -> str:
    """Colour a line by the first rule that matches."""
    for rule in rules:
        if found := re.fullmatch(rule, line):
            return _paint_groups(line, found)
    return line


def _paint_groups(line: str, found: re.Match[str]) -> str:
    """Return the line with each named group in its style; groups do not overlap."""
    places = sorted((*found.span(name), name) for name in found.re.groupindex if found[name])
    parts, at = [], 0
    for start, end, name in places:
        parts += [line[at:start], styled(line[start:end], name.rstrip("12"))]
        at = end
    return "".join([*parts, line[at:]])


def _paint_lines(text: str, rules: Rules) -> str:
    return "\n".join(_paint_line(line, rules) for line in text.split("\n"))


# ── problems ───────────────────────────────────────────────────────────────────────────────────

_AROUND = (
    r"(?P<blue> *-->) .*",
    r"(?P<blue> *\d* \|)(?: .*)?",
    r" *(?P<blue>=) (?P<bold>help:).*",
    r"checked .*: (?P<green>no problems)",
    (
        r"checked [^:]*: (?:(?P<red>[1-9]\d* errors?)|0 errors), "
        r"(?:(?P<yellow>[1-9]\d* warnings?)|0 warnings) in .*"
    ),
    (
        r"(?P<bold>next:) .*?(?P<cyan1>ll-loop (?:[^ (]| (?! ))*)"
        r"(?:   (?:·|-|or)   (?P<cyan2>ll-loop .*))?(?:   \(.*)?"
    ),
)
_ERROR = (r"(?P<red>error(?:\[\w+\])?)(?P<bold>:.*)", r"(?P<blue> +\|)(?P<red> *\^+)", *_AROUND)
_WARNING = (
    r"(?P<yellow>warning(?:\[\w+\])?)(?P<bold>:.*)",
    r"(?P<blue> +\|)(?P<yellow> *\^+)",
    *_AROUND,
)


def problems(text: str) -> str:
    """Colour errors and warnings: label and caret in red or yellow, the frame in blue."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        _paint_lines(block, _WARNING if block.startswith("warning") else _ERROR) for block in blocks
    )


# ── help ───────────────────────────────────────────────────────────────────────────────────────

_HELP = (
    r"(?P<bold>usage:).*",
    r"(?P<bold>[A-Za-z][\w ]*:)",
    r"  (?P<cyan>(?:ll-loop |-)\S*(?: \S+)*)(?:  .*)?",
    r"  (?P<cyan>[\w${]\S*(?: \S+)*)  .*",
    r"  (?P<cyan>[\w${]\S*)",
)


def help_page(text: str) -> str:
    """Colour a help page: headings bold, what can be typed in cyan."""
    return _paint_lines(text, _HELP)


# ── doctor ─────────────────────────────────────────────────────────────────────────────────────

_CHECKUP = (
    r"    fix: (?P<cyan1>.+?)(?:    or    (?P<cyan2>.*))?",
    r"(?P<green>no problems)",
    r"(?P<red>\d+ problems?)(?:, (?P<yellow>\d+ warnings?))?",
    r"(?P<yellow>\d+ warnings?)",
)


def checkup(text: str) -> str:
    """Colour a checkup: what to type in cyan, the last line by the worst finding."""
    return _paint_lines(text, _CHECKUP)


# ── loops ──────────────────────────────────────────────────────────────────────────────────────

_DESCRIPTION = (
    r"(?P<bold>scope|host| {4,8})  .*?(?P<red>taken:.*|not found on PATH).*",
    r"(?P<bold>limits|scope|checks|evidence|protect|copy|host|before|context|worst)(?: +.*)?",
    r"  (?P<bold>any state|[^ ]+)(?:  .*)?",
    r" +(?P<red>cannot run:).*",
    r"(?P<yellow>\d+ warnings?): .*",
)
_TARGET = r"(?<=(?: →|->) )[\w$-]+"
_TRANSITIONS = r" +(?:\w+ (?:→|->) \S+(?: {4}|$))+"


def description(text: str) -> str:
    """Colour the description of a loop: names bold, target states in cyan."""
    header, *lines = text.split("\n")
    name, dot, more = header.partition(" ")
    painted = [_paint_line(line, _DESCRIPTION) for line in lines]
    targets = [
        re.sub(_TARGET, _as_target, line) if re.fullmatch(_TRANSITIONS, line) else line
        for line in painted
    ]
    return "\n".join([f"{styled(name, 'bold')}{dot}{more}", *targets])


def _as_target(found: re.Match[str]) -> str:
    return styled(found[0], "cyan")


_GRAPH = (
    r"(?P<green>[▶>]) (?P<bold>\S+).*",
    r"(?P<green>[■#]) (?P<bold>\S+) +success",
    r"(?P<red>[■#]) (?P<bold>\S+) +failure",
    r"(?P<blue>[■#]) (?P<bold>\S+).*",
    r"    (?P<dim>├|└|\|-|`-) [^→]*?(?P<dim1>→|->) (?P<cyan>\S+).*",
    r"  (?P<bold>\S+).*",
)


def graph(text: str) -> str:
    return _paint_lines(text, _GRAPH)


# ── error codes ────────────────────────────────────────────────────────────────────────────────

_CODE = (r"(?P<cyan>LL\d+)(?:  .*)?", r"(?P<cyan>LL\d+)(?P<bold>: .*)")
_WRONG = (r"(?P<red>Wrong:)", r"(?P<bad>  > .*)")
_RIGHT = (r"(?P<green>Right:)", r"(?P<good>  > .*)")


def codes(text: str) -> str:
    """Colour an explanation: the differing lines of the examples like their headings."""
    before, heading, right = text.partition("\nRight:\n")
    painted = _paint_lines(before, (*_CODE, *_WRONG))
    return painted + _paint_lines(heading + right, (*_CODE, *_RIGHT))


# ── logs ───────────────────────────────────────────────────────────────────────────────────────

_WHEN = r"(?:\d\d:\d\d:\d\d  )?"
_LOG = (
    rf"{_WHEN} {{7}}\|.*",
    rf"{_WHEN}(?P<bold>\[\d+/\d+\] .+?) → .*",
    rf"{_WHEN} {{7}}(?P<good>✓) .*",
    rf"{_WHEN} {{7}}(?P<bad>✗) .*",
    rf"{_WHEN} {{7}}(?P<dim>·) .*",
    rf"{_WHEN} {{7}}→ context handoff.*",
    rf"{_WHEN}(?P<dim> {{7}}.*)",
    rf"{_WHEN}(?P<good>Loop completed)(?=: ).*",
    rf"{_WHEN}(?P<bad>Loop failed)(?=: | in state ).*",
    rf"{_WHEN}(?P<care>Loop [a-z ]+?)(?=: | in state ).*",
    rf"{_WHEN}(?P<care>warning:) .*",
)


def log(line: str, folded: str) -> str:
    """Colour a line of a log; `folded` is the same line in rows, all but the first indented."""
    found = next((found for rule in _LOG if (found := re.fullmatch(rule, line))), None)
    if found is None or found.lastgroup is None:
        return folded
    start, end = found.span(found.lastgroup)
    first, *rest = folded.split("\n")
    if end < len(line):
        return "\n".join([_paint_groups(first, found), *rest])
    rows = [first[:start] + styled(first[start:], found.lastgroup)]
    return "\n".join([*rows, *(styled(row, found.lastgroup) for row in rest)])
