"""`python -m tools.picture`: run a small loop in a terminal, and save the session as a picture.

The real command runs in a real pseudo-terminal in a temporary project; only the agent is a stand-in.
`docs/pictures/run.svg` is the session in colour, and `run.txt` its text, which a test compares with a
new session.

Not here: preparing the project (`sessions`).
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from typing import NamedTuple

from tools.pages import ROOT
from tools.sessions import DEADLINE_S, STAND_INS, Stage, page_name, staged

PICTURE = "docs/pictures/run.svg"
TEXT = "docs/pictures/run.txt"
COMMANDS = ("ll-loop run fix-tests",)
COLUMNS, ROWS = 80, 60
TITLE = "fix-tests"

ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
PAPER, INK, GREY = (255, 255, 255), (36, 41, 47), (87, 96, 106)
RED, GREEN, YELLOW, BLUE = (207, 34, 46), (26, 127, 55), (154, 103, 0), (9, 105, 218)
PURPLE, CYAN = (130, 80, 223), (27, 124, 131)


# ── a terminal ─────────────────────────────────────────────────────────────────────────────────


def typed(stage: Stage, command: str) -> str:
    """What a terminal is sent while the command runs, escapes and all."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    environ = {**stage.environ, "TERM": "xterm-256color"}
    environ.pop("COLUMNS")
    child = subprocess.Popen(
        ["bash", "-c", command],
        cwd=stage.root,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        return _all_of(ours)
    finally:
        os.close(ours)
        if child.poll() is None:
            child.kill()
        child.wait()


def _all_of(terminal: int) -> str:
    deadline = time.monotonic() + DEADLINE_S
    seen = b""
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    return seen.decode("utf-8", "replace")


class Cell(NamedTuple):
    char: str
    style: str


class Screen:
    """As much of a terminal as our own screens use: lines, colours, going up, erasing.

    A row that had no end of its own where the terminal did is in `broken`.
    """

    def __init__(self, width: int | None = None) -> None:
        self.width = width
        self.rows: list[list[Cell]] = [[]]
        self.broken: set[int] = set()
        self.row = self.column = 0
        self.style = ""

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                self._obey(escape[1], escape[2])
                at = escape.end()
            else:
                self._put(text[at])
                at += 1

    def _put(self, char: str) -> None:
        if char == "\n":
            self._next_row()
        elif char == "\r":
            self.column = 0
        else:
            if self.column == self.width:
                self.broken.add(self.row)
                self._next_row()
                self.column = 0
            row = self.rows[self.row]
            row.extend([Cell(" ", "")] * (self.column + 1 - len(row)))
            row[self.column] = Cell(char, self.style)
            self.column += 1

    def _next_row(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def _obey(self, number: str, what: str) -> None:
        match what:
            case "m":
                self.style = "" if number in ("", "0") else f"{self.style}\x1b[{number}m"
            case "A":
                self.row = max(self.row - int(number or 1), 0)
            case "K" if number == "2":
                self.rows[self.row] = []
                self.broken.discard(self.row)
            case "K":
                del self.rows[self.row][self.column :]
            case "h" | "l":
                pass  # the cursor is shown or hidden
            case _:
                raise ValueError(f"the screen does not know \\x1b[{number}{what}")

    def lines(self) -> list[str]:
        """The lines with their colours."""
        return [
            "".join(f"{cell.style}{cell.char}\x1b[0m" if cell.style else cell.char for cell in row)
            for row in self.rows
        ]

    def text(self) -> list[str]:
        return ["".join(cell.char for cell in row).rstrip() for row in self.rows]


def session() -> Screen:
    """The commands of the picture, one after the other on one screen."""
    screen = Screen()
    with staged(os.path.join(STAND_INS, page_name(TEXT))) as stage:
        for command in COMMANDS:
            screen.write(f"$ {command}\r\n{typed(stage, command)}")
    return screen


# ── a picture ──────────────────────────────────────────────────────────────────────────────────

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
        white-space: pre;
    }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    <rect x="1" y="1" width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de"/>
    <g transform="translate({terminal_x}, 28)" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""
"""Like rich's template, but with local fonts: a picture must not load one from the network."""


def svg(screen: Screen) -> str:
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme
    from rich.text import Text

    colours = [INK, RED, GREEN, YELLOW, BLUE, PURPLE, CYAN]
    theme = TerminalTheme(PAPER, INK, [*colours, GREY], [*colours, PAPER])
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=COLUMNS, file=nowhere, force_terminal=True, legacy_windows=False
        )
        for line in screen.lines():
            console.print(Text.from_ansi(line), soft_wrap=True)
        return console.export_svg(title=TITLE, theme=theme, code_format=SVG, unique_id="run")


def main() -> int:
    screen = session()
    os.makedirs(os.path.join(ROOT, os.path.dirname(PICTURE)), exist_ok=True)
    for path, text in ((PICTURE, svg(screen)), (TEXT, "\n".join(screen.text()).rstrip() + "\n")):
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as stream:
            stream.write(text)
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
