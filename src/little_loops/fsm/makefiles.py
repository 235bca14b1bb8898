"""What a makefile says: which other files it reads, and which targets `make` could take for finished."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from little_loops.templates.shell.positions import HOLE

NAMES = ("Makefile", "makefile", "GNUmakefile")
SEARCHED = ("GNUmakefile", "makefile", "Makefile")
"""The same in the order in which `make` looks for them."""
SUFFIX = ".mk"
_INCLUDE = re.compile(r"^ *(?:-include|sinclude|include)[ \t]+([^#\n]*)", re.MULTILINE)
_ASSIGNMENT = re.compile(r"^ *([\w.]+)[ \t]*(?::{1,3}|\?)?=[ \t]*([^$#\n]*?)[ \t]*$", re.MULTILINE)
_RULE = re.compile(
    r"^ *([^\t\n#:=][^\n#:=]*):{1,2}(?![:=])([^\n#;]*)(;?)[^\n]*\n?(\t?)", re.MULTILINE
)
_SEARCH = re.compile(r"^ *vpath[ \t]+\S+[ \t]+([^#\n]+)", re.MULTILINE)
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_CALL = re.compile(r"\$[({][^(){}]*[)}]")
_WILDCARD = re.compile(r"\$[({](?:sort +\$[({])?wildcard +([^$(){}]*)[)}]+")


def is_makefile(path: str) -> bool:
    return path.rpartition("/")[2] in NAMES or path.endswith(SUFFIX)


def included_by(makefile: str) -> tuple[str, ...]:
    """Return the paths that a makefile includes, with their wildcards; paths with variables are
    left out, unless the makefile gives them a plain value."""
    text = makefile.replace("\\\n", " ")
    values = {"CURDIR": ".", **dict(_ASSIGNMENT.findall(text))}
    words = (word for line in _INCLUDE.findall(text) for word in _expand(line, values).split())
    return tuple(dict.fromkeys(word for word in words if "$" not in word))


def recipes_of(makefile: str) -> tuple[str, ...]:
    """Return the lines that a makefile gives to the shell; values of variables are unknown there."""
    lines = makefile.replace("\\\n", " ").split("\n")
    return tuple(
        _CALL.sub(HOLE, line.lstrip("\t @-+")).replace("$$", "$")
        for line in lines
        if line.startswith("\t")
    )


def files_made(makefile: str, goals: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that `make` does not make if there is a file of that name: the `goals`, or
    the usual target, and those with a recipe that they need.

    Targets of `.PHONY` are none. Conditions are not evaluated, and names with variables are left
    out, unless the makefile gives them a plain value. A file in a directory that the makefile lets
    `make` search (`VPATH`) is one of that name, too.
    """
    text = makefile.replace("\\\n", " ")
    values = dict(_ASSIGNMENT.findall(text))
    needed: dict[str, list[str]] = {}
    has_recipe: set[str] = set()
    for names, needs, semicolon, tab in _RULE.findall(text):
        for name in _expand(names, values).split():
            needed.setdefault(name, []).extend(_expand(needs, values).split())
            has_recipe |= {name} if semicolon or tab else set()
    usual = (name for name in needed if not name.startswith(".") and "%" not in name)
    first = values.get(".DEFAULT_GOAL") or next(usual, "")
    waiting = list(goals) or [first]
    found = dict.fromkeys(waiting)
    while waiting:
        new = [name for name in needed.get(waiting.pop(0), ()) if name not in found]
        found |= dict.fromkeys(new)
        waiting += new
    phony = needed.get(".PHONY", ())
    patterns = [name.split("%", 1) for name in has_recipe if "%" in name]
    made = [
        name
        for name in found
        if (name in goals or name in has_recipe or _matches(name, patterns)) and name not in phony
    ]
    searched = (values.get("VPATH", ""), *_SEARCH.findall(text))
    folders = [one for line in searched for one in _expand(line, values).replace(":", " ").split()]
    return (*made, *(f"{folder}/{name}" for folder in folders for name in made))


def _matches(name: str, patterns: Sequence[Sequence[str]]) -> bool:
    """Return whether a pattern rule, as what stands before and after its `%`, makes a target.

    A name with a suffix is a file that is built rather than the name of a task.
    """
    if "." in name.rpartition("/")[2]:
        return False
    return any(
        len(name) > len(start) + len(end) and name.startswith(start) and name.endswith(end)
        for start, end in patterns
    )


def _expand(line: str, values: Mapping[str, str]) -> str:
    """Return a line with the values of its variables, and with the patterns of `wildcard`."""
    filled = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), line)
    return _WILDCARD.sub(r"\1", filled)
