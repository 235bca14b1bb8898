"""Describe what an agent is doing in a few words: `Editing src/api/models.py`."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.hosts.json_lines import Event, one_line, text_in

WIDTH = 80
WHOLE = 500
"""The maximum length of an entry in the list of everything an agent did."""

# By tool: the words for it, and the most informative argument.
PHRASES: Mapping[str, tuple[str, str]] = {
    "Bash": ("Running", "command"),
    "Edit": ("Editing", "file_path"),
    "MultiEdit": ("Editing", "file_path"),
    "NotebookEdit": ("Editing", "notebook_path"),
    "Write": ("Writing", "file_path"),
    "Read": ("Reading", "file_path"),
    "Glob": ("Looking for", "pattern"),
    "Grep": ("Searching for", "pattern"),
    "WebFetch": ("Fetching", "url"),
    "WebSearch": ("Searching the web for", "query"),
    "Task": ("Asking a subagent:", "description"),
    "Agent": ("Asking a subagent:", "description"),
    "Skill": ("Using the skill", "skill"),
    "StructuredOutput": ("Giving its verdict:", "verdict"),
}


CHANGING = ("Edit", "MultiEdit", "NotebookEdit", "Write")
"""Tools that change the file named in their input."""


def doing(tool: str, given: Event, cwd: str, width: int = WIDTH) -> str:
    """Describe a tool call on one line, at most `width` characters long."""
    phrase, key = PHRASES.get(tool, (f"Using {tool}", ""))
    return one_line(f"{phrase} {inside(text_in(given, key), cwd)}".strip(), width)


def files_changed(tool: str, given: Event, cwd: str) -> tuple[str, ...]:
    """Return the files that a tool call changes, relative to `cwd`."""
    _, key = PHRASES.get(tool, ("", ""))
    path = one_line(inside(text_in(given, key), cwd), WHOLE) if tool in CHANGING else ""
    return (path,) if path else ()


def call(tool: str, given: Event, cwd: str) -> str:
    """Return a tool call as a permission rule names it: `Write(src/a.py)`."""
    _, key = PHRASES.get(tool, ("", ""))
    argument = one_line(inside(text_in(given, key), cwd), WIDTH)
    return f"{one_line(tool, WIDTH)}({argument})" if argument else one_line(tool, WIDTH)


def inside(path: str, cwd: str) -> str:
    """Return the path relative to `cwd` if it is below it; otherwise unchanged."""
    root = cwd.rstrip("/") + "/"
    return path[len(root) :] if path.startswith(root) and len(path) > len(root) else path
