"""Which agent actions a user has agreed to run without permission prompts, per project.

This is kept per user and outside of any repository: a clone must not bring its own consent. Consent
is given to an action together with everything else the agent gets (`agent_terms`); if any of that
changes, it is another action.

Not here: when consent is needed and how to ask for it (`cli.consent`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StorageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.system.files import Folder, to_json
from little_loops.system.lock_files import guarded
from little_loops.system.user_state import check_owner, state_home

FILE = "trust.json"
MAX_TRUST_BYTES = 16 << 20

READS = ("role", "judge, which can only read")
"""The setting of an agent that has no permission to skip."""

Projects = dict[str, list[dict[str, Any]]]


class AgentAction(NamedTuple):
    """An action of an agent, and the settings it is run with, by name."""

    host: str
    action: str
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.host}: {self.action}"

    @property
    def can_only_read(self) -> bool:
        return READS in self.settings


class Trust(NamedTuple):
    """What the user agreed to in a project; `actions` maps each action to the time of consent."""

    project: str
    actions: Mapping[AgentAction, str]

    def covers(self, wanted: Iterable[AgentAction]) -> bool:
        return all(action in self.actions for action in wanted)

    def changes(self, action: AgentAction) -> tuple[str, ...]:
        """Return how the settings differ from an action with the same text that was agreed to.

        Empty if there is none, or if this very action was agreed to.
        """
        same = [kept for kept in self.actions if kept[:2] == action[:2]]
        if not same or action in self.actions:
            return ()
        before, now = dict(same[-1].settings), dict(action.settings)
        return tuple(
            f"{name}: {before.get(name, 'not set')} → {now.get(name, 'not set')}"
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        )


def trust_of(project: str, environ: Mapping[str, str]) -> Trust:
    """Return what the user has agreed to in a project; raise `StorageError` for a damaged file."""
    folder = Folder.at(state_home(environ))
    if folder is None:
        return _trust(project, {})
    with folder:
        return _trust(project, _read(folder))


def all_trust(environ: Mapping[str, str]) -> tuple[Trust, ...]:
    """Return what the user has agreed to, for each project. Raises `StorageError`."""
    folder = Folder.at(state_home(environ))
    if folder is None:
        return ()
    with folder:
        projects = _read(folder)
    return tuple(_trust(path, projects) for path in projects)


def agree(
    project: str, actions: Iterable[AgentAction], since: str, environ: Mapping[str, str]
) -> None:
    """Record the user's consent to these actions, at the time `since`; earlier times are kept."""
    with _writing(environ) as folder:
        projects = _read(folder)
        trust = _trust(project, projects)
        agreed = {**dict.fromkeys(actions, since), **trust.actions}
        _write(folder, projects, trust.project, agreed)


def revoke(project: str, environ: Mapping[str, str]) -> int:
    """Remove all consent for a project. Return how many actions it covered."""
    with _writing(environ) as folder:
        projects = _read(folder)
        trust = _trust(project, projects)
        if trust.actions:
            _write(folder, projects, trust.project, {})
        return len(trust.actions)


@contextmanager
def _writing(environ: Mapping[str, str]) -> Iterator[Folder]:
    """Yield the state directory, locked: two terminals may record consent at the same time."""
    path = state_home(environ)
    os.makedirs(path, mode=0o700, exist_ok=True)
    folder = Folder.at(path)
    assert folder is not None, "it was just made"
    with folder:
        check_owner(folder)
        with guarded(folder):
            yield folder


def _trust(project: str, projects: Projects) -> Trust:
    path = os.path.realpath(project)
    return Trust(path, {_action(one): one["since"] for one in projects.get(path, [])})


def _action(one: Mapping[str, Any]) -> AgentAction:
    settings = tuple(sorted(one.get("settings", {}).items()))
    return AgentAction(one["host"], one["action"], settings)


def _read(folder: Folder) -> Projects:
    """Read the consent of all projects; raise `StorageError` if the file is damaged."""
    check_owner(folder)
    raw = folder.read(FILE, MAX_TRUST_BYTES)
    try:
        kept = json.loads(raw) if raw else {}
        projects: Projects = kept["projects"] if kept else {}
        _check_shape(projects)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        path = os.path.join(folder.path, FILE)
        raise StorageError(
            f"`{path}` is damaged: {error}",
            "it holds your consent for all projects: delete it, then run `ll-loop trust` again in each project",
        ) from error
    return projects


def _check_shape(projects: Any) -> None:
    """Raise `TypeError` or `KeyError` if the data does not have the expected form."""
    for actions in projects.values():
        for one in actions:
            texts = [one[name] for name in ("host", "action", "since")]
            texts += [text for pair in one.get("settings", {}).items() for text in pair]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("an action is not text")


def _write(
    folder: Folder, projects: Projects, project: str, actions: Mapping[AgentAction, str]
) -> None:
    """Replace the consent of one project, in `projects` too, and write the file atomically."""
    projects[project] = [
        {**action._asdict(), "settings": dict(action.settings), "since": since}
        for action, since in actions.items()
    ]
    if not actions:
        del projects[project]
    document = {"schema": 1, "projects": projects}
    folder.replace(FILE, to_json(document) + b"\n", f".{FILE}.{os.urandom(8).hex()}", sync=True)
