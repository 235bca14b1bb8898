"""Whether a command is for this computer or for a fleet; cheap, because every command asks."""

from __future__ import annotations

import os

from little_loops.cli.options import OutputArgs, flag, value
from little_loops.light_typing import Any
from little_loops.runs.config_files import FLEET as SETTING
from little_loops.runs.config_files import mentions, project_config, read_mapping, user_config
from little_loops.runs.project import find_project

VARIABLE = "LL_FLEET"
FLEET: Any = value("use this fleet, such as temporal://host:7233", metavar="ADDRESS")
LOCAL: Any = flag("use this computer, even if LL_FLEET or the config sets a fleet")


def fleet_of(args: OutputArgs, root: str) -> str | None:
    """Return the address of the fleet that a command is for; None for this computer."""
    given: Any = args
    if given.local:
        return None
    return given.fleet or os.environ.get(VARIABLE) or _configured(root)


def _configured(root: str) -> str | None:
    """Return the address in a config file, if there is one."""
    for path in (project_config(root), user_config(os.environ)):
        if mentions(path, SETTING):
            found = read_mapping(path).get(SETTING)
            if isinstance(found, str):
                return found
    return None


def project_of(
    args: OutputArgs,
    name: str | None = None,
    *,
    follow: bool = False,
    past: bool = False,
    printed: bool = False,
) -> str:
    """Return the project that a command reads: this one, or the runs of a fleet as one.

    `name`: only this run is needed; with `follow`, running ones are kept up to date; with `past`,
    runs that are over are there, too; with `printed`, the whole outputs of actions.
    """
    root = find_project(os.getcwd())
    address = fleet_of(args, root)
    if address is None:
        return root
    from little_loops.cli.on_fleet import mirrored  # few users have a fleet

    return mirrored(root, address, name, follow=follow, past=past, printed=printed)
