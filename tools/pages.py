"""Pages of the manual as data: their code blocks, headings and links.

Four conventions, all visible to the reader, make a page testable:

- a block whose first line is a comment with a path (`# .loops/fix-tests.yaml`) is that file;
- a `console` block is a session: `$` starts a command, its output follows, a line `…` stands for any
  number of lines, `^C` for Ctrl-C, and `Killed` for a `kill -9` from elsewhere;
- a block `sh typed` can be copied and run as a whole; the block `text printed` after it is its output;
- a session whose first line is `# requires …` is not run, for that reason.

Not here: running sessions (`sessions`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(.*?)\s*$")
HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?\)")
FILE = re.compile(r"^(?:#|//) (\.?[\w@./-]*[\w-]\.[A-Za-z]+|[\w.-]+(?:/[\w.-]+)+)$")
NOT_RUN = re.compile(r"^# requires (.+)$")
CODE = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """A fenced block; `line` is that of its opening fence, counted from 1."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The path of the file that this block contains, if it names one."""
        found = FILE.match(self.text.partition("\n")[0])
        return found[1] if found else None

    @property
    def not_run(self) -> str | None:
        found = NOT_RUN.match(self.text.partition("\n")[0])
        return found[1] if found else None


class Page(NamedTuple):
    path: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        return list(_blocks(self.text))

    @property
    def prose(self) -> list[tuple[int, str]]:
        """The lines outside code blocks, with their numbers."""
        return list(_prose(self.text))

    @property
    def anchors(self) -> set[str]:
        return set(_anchors(self.prose))

    @property
    def links(self) -> list[tuple[int, str]]:
        """Where each link leads, with its line."""
        return [
            (number, found[3])
            for number, line in self.prose
            for found in LINK.finditer(CODE.sub(_blank, line))
        ]


def read_page(path: str) -> Page:
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        return Page(path, stream.read())


def all_pages() -> list[str]:
    """Every page of the manual, and the pages at the root."""
    found = [name for name in ("README.md", "CONTRIBUTING.md") if _is_there(name)]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        here = os.path.relpath(folder, ROOT)
        found += [os.path.join(here, name) for name in names if name.endswith((".md", "llms.txt"))]
    return sorted(found)


def _is_there(name: str) -> bool:
    return os.path.exists(os.path.join(ROOT, name))


def _blocks(text: str) -> Iterator[Block]:
    opening: re.Match[str] | None = None
    began, inside = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opening is None:
            if fence:
                opening, began, inside = fence, number, []
        elif fence and fence[2].startswith(opening[2]) and not fence[3]:
            words = opening[3].split()
            body = "".join(f"{each}\n" for each in inside)
            yield Block(words[0] if words else "", tuple(words[1:]), body, began)
            opening = None
        else:
            inside.append(line.removeprefix(opening[1]))
    if opening is not None:
        raise ValueError(f"line {began}: this block is never closed")


def _prose(text: str) -> Iterator[tuple[int, str]]:
    closing = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if closing:
            closing = "" if fence and fence[2].startswith(closing) and not fence[3] else closing
        elif fence:
            closing = fence[2]
        else:
            yield number, line


def _anchors(prose: list[tuple[int, str]]) -> Iterator[str]:
    """The anchors of headings; a repeated heading gets a number."""
    seen: dict[str, int] = {}
    for _, line in prose:
        heading = HEADING.match(line)
        if heading is None:
            continue
        anchor = slug(heading[2])
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        yield anchor if count == 0 else f"{anchor}-{count}"


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, hyphens for blanks, no punctuation.

    >>> slug("What `on_fail` does, and when")
    'what-on_fail-does-and-when'
    """
    shown = LINK.sub(lambda link: link[2], heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def _blank(code: re.Match[str]) -> str:
    return " " * len(code[0])
