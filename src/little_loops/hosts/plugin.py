"""The Claude Code plugin `ll`: where it lies, and when an action needs it handed along.

An action `/ll:…` is to work on every machine that has `ll-loop`, so the plugin travels with the
package and is given to the CLI as a directory.  A plugin of that name which the user has installed
and enabled is left alone: the directory would replace it, and `/ll:…` means in a loop what it means
in the user's own sessions.

Not here: starting the CLI to ask it; the caller hands in a `run` that keeps to a time.
"""

from __future__ import annotations

import json
import os

from little_loops.hosts.base import Run

NAME = "ll"
MANIFEST = os.path.join(".claude-plugin", "plugin.json")

# The answer costs half a second and does not change while a run lasts.
_has_its_own: dict[str, bool] = {}


def plugin_directory() -> str:
    """The plugin inside the installed package, or beside `src` in the source tree."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tree = os.path.dirname(os.path.dirname(package))
    places = [os.path.join(package, "plugin"), os.path.join(tree, "plugin")]
    return next((at for at in places if os.path.isfile(os.path.join(at, MANIFEST))), places[0])


def plugin_dirs(action: str, run: Run, program: str) -> tuple[str, ...]:
    """The directories to give to `program` (the claude CLI) along with this action.

    `run` gives exit code and stdout of a command line; it is asked at most once per program, with
    the project as its working directory, because a plugin may be enabled for one project alone.
    """
    if not action.lstrip().startswith(f"/{NAME}:"):
        return ()
    if program not in _has_its_own:
        exit_code, printed = run([program, "plugin", "list", "--json"])
        _has_its_own[program] = exit_code == 0 and is_enabled(printed)
    return () if _has_its_own[program] else (plugin_directory(),)


def is_enabled(printed: str) -> bool:
    """Whether a list of plugins, as the CLI prints it, has ours among those that are switched on."""
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
