"""The Claude Code plugin `ll`: where it is, and which actions need it.

An action `/ll:…` must work on every machine that has `ll-loop`, so the plugin is part of the
package and is passed to the CLI as a directory. If the user has installed and enabled a plugin of
that name, it is not passed: it would replace the user's, and `/ll:…` must mean the same in a loop
as in the user's own sessions.

Not here: starting the CLI to list its plugins; the caller provides a `run` with a time limit.
"""

from __future__ import annotations

import json
import os

from little_loops.hosts.base import Run

NAME = "ll"
MANIFEST = os.path.join(".claude-plugin", "plugin.json")

# Finding out takes half a second, and the answer does not change during a run.
_has_its_own: dict[str, bool] = {}


def plugin_directory() -> str:
    """Return the plugin's directory: in the installed package, or beside `src` in the source tree."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = os.path.dirname(os.path.dirname(package))
    places = [os.path.join(package, "plugin"), os.path.join(tree, "plugin")]
    return next((at for at in places if os.path.isfile(os.path.join(at, MANIFEST))), places[0])


def plugin_dirs(action: str, run: Run, program: str) -> tuple[str, ...]:
    """Return the plugin directories to pass to `program` (the claude CLI) for this action.

    `run` returns exit code and stdout of a command line. It is called at most once per program,
    with the project as working directory, because a plugin may be enabled for one project only.
    """
    if not action.lstrip().startswith(f"/{NAME}:"):
        return ()
    if program not in _has_its_own:
        exit_code, printed = run([program, "plugin", "list", "--json"])
        _has_its_own[program] = exit_code == 0 and is_enabled(printed)
    return () if _has_its_own[program] else (plugin_directory(),)


def is_enabled(printed: str) -> bool:
    """Return whether the CLI's list of plugins, as JSON, contains ours as enabled."""
    try:
        plugins = json.loads(printed)
    except (ValueError, RecursionError):
        return False  # an old version, or no list at all
    if not isinstance(plugins, list):
        return False
    return any(
        isinstance(one, dict)
        and str(one.get("id", "")).split("@")[0] == NAME
        and one.get("enabled") is True
        for one in plugins
    )
