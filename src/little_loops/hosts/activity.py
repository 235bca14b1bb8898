"""Say in a few words what an agent does: `Editing src/api/models.py`."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.hosts.json_lines import Event, one_line, text_in

WIDTH = 80
WHOLE = 500
"""So much of a command is kept for a list of all that was done."""

# Tool: what to say, and the argument that tells most.
SAYINGS: Mapping[str, tuple[str, str]] = {
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
"""Tools that change the file they name."""


def doing(tool: str, given: Event, cwd: str, width: int = WIDTH) -> str:
    saying, key = SAYINGS.get(tool, (f"Using {tool}", ""))
    return one_line(f"{saying} {inside(text_in(given, key), cwd)}".strip(), width)


def files_changed(tool: str, given: Event, cwd: str) -> tuple[str, ...]:
    _, key = SAYINGS.get(tool, ("", ""))
    path = one_line(inside(text_in(given, key), cwd), WHOLE) if tool in CHANGING else ""
    return (path,) if path else ()


def call(tool: str, given: Event, cwd: str) -> str:
    """A call as a permission rule would name it: `Write(src/a.py)`."""
    _, key = SAYINGS.get(tool, ("", ""))
    argument = one_line(inside(text_in(given, key), cwd), WIDTH)
    return f"{one_line(tool, WIDTH)}({argument})" if argument else one_line(tool, WIDTH)


def inside(path: str, cwd: str) -> str:
    """The path as the project knows it."""
    root = cwd.rstrip("/") + "/"
    return path[len(root) :] if path.startswith(root) and len(path) > len(root) else path
