"""Which agent actions a user has agreed to run without permission prompts, project by project.

Kept for this user alone, outside of any repository: a clone must not bring its own consent.  What
was agreed to is the exact text of each action with its host; an edited action is a new one.

Not here: when consent is needed and how it is asked for (`cli.consent`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from little_loops.errors import StorageError
from little_loops.records import NamedTuple
from little_loops.system.files import Folder, to_json

FILE = "trust.json"
LARGEST = 16 << 20


class AgentAction(NamedTuple):
    host: str
    action: str

    def __str__(self) -> str:
        return f"{self.host}: {self.action}"


class Trust(NamedTuple):
    """What a project's user agreed to, and when: action → time."""

    project: str
    actions: Mapping[AgentAction, str]

    def covers(self, wanted: Iterable[AgentAction]) -> bool:
        return all(action in self.actions for action in wanted)


def state_home(environ: Mapping[str, str]) -> str:
    """Where programs keep what they remember about a user."""
    given = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return os.path.join(given, "little-loops")
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".local", "state", "little-loops")


def trust_of(project: str, environ: Mapping[str, str]) -> Trust:
    kept = _read(environ).get(os.path.realpath(project), [])
    actions = {AgentAction(one["host"], one["action"]): one["since"] for one in kept}
    return Trust(os.path.realpath(project), actions)


def agree(
    project: str, actions: Iterable[AgentAction], since: str, environ: Mapping[str, str]
) -> None:
    trust = trust_of(project, environ)
    told = {**dict.fromkeys(actions, since), **trust.actions}
    _write(environ, trust.project, told)


def revoke(project: str, environ: Mapping[str, str]) -> int:
    """Take back everything for a project; how many actions that were."""
    trust = trust_of(project, environ)
    if trust.actions:
        _write(environ, trust.project, {})
    return len(trust.actions)


def _read(environ: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    folder = Folder.at(state_home(environ))
    if folder is None:
        return {}
    with folder:
        _check_owner(folder)
        raw = folder.read(FILE, LARGEST)
    try:
        kept = json.loads(raw) if raw else {}
        projects: dict[str, list[dict[str, str]]] = kept["projects"] if kept else {}
        _check_shape(projects)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        path = os.path.join(folder.path, FILE)
        raise StorageError(
            f"`{path}` is damaged: {error}", "remove it, then trust again"
        ) from error
    return projects


def _check_shape(projects: Any) -> None:
    for actions in projects.values():
        for one in actions:
            if not all(isinstance(one[name], str) for name in ("host", "action", "since")):
                raise TypeError("an action is not text")


def _check_owner(folder: Folder) -> None:
    """What somebody else could write is nobody's consent."""
    seen = os.fstat(folder.fd)
    if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        raise StorageError(
            f"`{folder.path}` can be written by others",
            f"chown it to yourself and `chmod 700 {folder.path}`",
        )


def _write(environ: Mapping[str, str], project: str, actions: Mapping[AgentAction, str]) -> None:
    projects = _read(environ)
    projects[project] = [
        {"host": action.host, "action": action.action, "since": since}
        for action, since in actions.items()
    ]
    if not actions:
        del projects[project]
    path = state_home(environ)
    os.makedirs(path, mode=0o700, exist_ok=True)
    folder = Folder.at(path)
    assert folder is not None, "it was just made"
    with folder:
        _check_owner(folder)
        document = {"schema": 1, "projects": projects}
        folder.replace(FILE, to_json(document) + b"\n", f".{FILE}.{os.urandom(8).hex()}", sync=True)
