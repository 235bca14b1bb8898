"""The config files of a user and of a project, as their authors wrote them.

Not here: what the settings mean (`definitions.settings`, `spending.rules`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.errors import DefinitionError, UsageError
from little_loops.light_typing import Any
from little_loops.runs.project import loops_of
from little_loops.system.plain_files import read_plain

CONFIG = ".config.yaml"
NOTIFY = "notify"
"""The setting that names who is notified, in the user's config file."""
TREES = "trees"
"""The setting that limits how much space a project's snapshots use."""
FLEET = "fleet"
"""The setting for a fleet's address."""
LARGEST = 1 << 20


def project_config(root: str) -> str:
    return os.path.join(root, loops_of(root), CONFIG)


def user_config(environ: Mapping[str, str]) -> str:
    """Return the path of the user's config file. A relative `XDG_CONFIG_HOME` is ignored."""
    given = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    base = given if os.path.isabs(given) else os.path.join(home, ".config")
    return os.path.join(base, "little-loops", "config.yaml")


def mentions(path: str, setting: str) -> bool:
    """Return whether a config file may have this setting; cheap, because it parses nothing."""
    try:
        return setting.encode() in read_plain(path, LARGEST + 1)
    except OSError:
        return False


def read_mapping(path: str) -> dict[str, Any]:
    """Return the settings of a config file, unchecked; none if the file is missing, empty or not
    readable by us.

    Raises `DefinitionError` for invalid YAML, `UsageError` for other read errors and for anything
    but a mapping.
    """
    try:
        raw = read_plain(path, LARGEST + 1)  # one byte more tells that it is too large
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # another user's home
        return {}
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}", "move it away") from error
    from little_loops.authoring.yaml.nodes import Map, plain  # most projects have no config
    from little_loops.authoring.yaml.source import parse

    document = parse(raw, path)
    if document.problems:
        raise DefinitionError(document.problems)
    if document.root is None:
        return {}
    if not isinstance(document.root, Map):
        raise UsageError(f"`{path}` is not a mapping of settings")
    values: dict[str, Any] = plain(document.root)
    return values
