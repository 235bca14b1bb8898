"""Colour finished text by its form: `error:` is red, a file's position blue, a heading bold.

A page is written and folded without colours; this adds them at the very end, and only repeats what
the text says already.  A rule is a pattern for a whole line, and the names of its groups are styles
(`red`, or `red1` and `red2` where one style is needed twice); the first rule that matches counts.

Not here: whether there is to be colour (`console`), the lines of a run (`terminal_lines`), tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

SGR = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "green": "1;32",
    "yellow": "1;33",
    "blue": "1;34",
    "cyan": "36",
}
Paint: TypeAlias = Callable[[str], str]
Rules: TypeAlias = Sequence[re.Pattern[str]]


def styled(text: str, style: str) -> str:
    return f"\x1b[{SGR[style]}m{text}\x1b[0m" if text else ""


def _rules(*patterns: str) -> Rules:
    return tuple(re.compile(pattern) for pattern in patterns)


def _line(line: str, rules: Rules) -> str:
    for rule in rules:
        if found := rule.fullmatch(line):
            return _groups(line, found)
    return line


def _groups(line: str, found: re.Match[str]) -> str:
    """The line with each named group in its style; groups do not overlap."""
    places = sorted((*found.span(name), name) for name in found.re.groupindex if found[name])
    parts, at = [], 0
    for start, end, name in places:
        parts += [line[at:start], styled(line[start:end], name.rstrip("12"))]
        at = end
    return "".join([*parts, line[at:]])


def _lines(text: str, rules: Rules) -> str:
    return "\n".join(_line(line, rules) for line in text.split("\n"))


# ── problems ───────────────────────────────────────────────────────────────────────────────────

_AROUND = (
    r"(?P<blue> *-->) .*",
    r"(?P<blue> *\d* \|)(?: .*)?",
    r" *(?P<blue>=) (?P<bold>help:).*",
    r"checked .*: (?P<green>no problems)",
)
_ERROR = _rules(
    r"(?P<red>error(?:\[\w+\])?)(?P<bold>:.*)", r"(?P<blue> +\|)(?P<red> *\^+)", *_AROUND
)
_WARNING = _rules(
    r"(?P<yellow>warning(?:\[\w+\])?)(?P<bold>:.*)", r"(?P<blue> +\|)(?P<yellow> *\^+)", *_AROUND
)


def problems(text: str) -> str:
    """Errors and warnings: the label and the caret in red or yellow, the frame in blue."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        _lines(block, _WARNING if block.startswith("warning") else _ERROR) for block in blocks
    )


# ── help ───────────────────────────────────────────────────────────────────────────────────────

_HELP = _rules(
    r"(?P<bold>usage:).*",
    r"(?P<bold>[A-Za-z][\w ]*:)",
    r"  (?P<cyan>(?:ll-loop |-)\S*(?: \S+)*)(?:  .*)?",
    r"  (?P<cyan>[\w${]\S*(?: \S+)*)  .*",
    r"  (?P<cyan>[\w${]\S*)",
)


def help_page(text: str) -> str:
    """Headings bold; what can be typed in cyan."""
    return _lines(text, _HELP)


# ── loops ──────────────────────────────────────────────────────────────────────────────────────

_DESCRIPTION = _rules(
    r"(?P<bold>scope|host| {4,8})  .*?(?P<red>taken:.*|not found on PATH).*",
    r"(?P<bold>limits|scope|host|before|context|ends|worst)(?:  .*)?",
    r"  (?P<bold>any state|[^ ]+)(?:  .*)?",
    r" +(?P<red>cannot run:).*",
    r"(?P<yellow>\d+ warnings?): .*",
)
_TARGET = re.compile(r"(?<=(?: →|->) )[\w$-]+")
_TRANSITIONS = re.compile(r" +(?:\w+ (?:→|->) \S+(?: {4}|$))+")


def description(text: str) -> str:
    """What a loop does: names bold, the states it goes to in cyan."""
    header, *lines = text.split("\n")
    name, dot, more = header.partition(" ")
    painted = [_line(line, _DESCRIPTION) for line in lines]
    targets = [
        _TARGET.sub(_as_target, line) if _TRANSITIONS.fullmatch(line) else line for line in painted
    ]
    return "\n".join([f"{styled(name, 'bold')}{dot}{more}", *targets])


def _as_target(found: re.Match[str]) -> str:
    return styled(found[0], "cyan")


_GRAPH = _rules(
    r"(?P<green>[▶>]) (?P<bold>\S+).*",
    r"(?P<blue>[■#]) (?P<bold>\S+).*",
    r"    (?P<dim>├|└|\|-|`-) [^→]*?(?P<dim1>→|->) (?P<cyan>\S+).*",
    r"  (?P<bold>\S+).*",
)


def graph(text: str) -> str:
    return _lines(text, _GRAPH)


# ── error codes ────────────────────────────────────────────────────────────────────────────────

_CODES = _rules(
    r"(?P<cyan>LL\d+)(?:  .*)?",
    r"(?P<cyan>LL\d+)(?P<bold>: .*)",
    r"(?P<red>Wrong:)",
    r"(?P<green>Right:)",
)


def codes(text: str) -> str:
    return _lines(text, _CODES)
