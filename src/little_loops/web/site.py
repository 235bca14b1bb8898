"""What the server serves: the projects, and how a key of a URL becomes a loop file or a run.

A name from a URL is compared with names that exist; it never becomes part of a path.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.runs.layout import RunFiles
from little_loops.runs.past_runs import PastRuns
from little_loops.runs.project import loop_files
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView
from little_loops.system.watching import KIND, Kind
from little_loops.web.errors import ApiError, not_found
from little_loops.web.keys import RunKey, loop_key, parse_loop, parse_run, run_key
from little_loops.web.security import Policy

if TYPE_CHECKING:
    from little_loops.web.loop_files import LoopCache


class Project:
    """A project that is shown; `key` is empty if there is only one."""

    def __init__(self, key: str, root: str) -> None:
        from little_loops.web.loop_files import LoopCache  # it reads YAML

        self.key = key
        self.root = root
        self.runs = Runs(root)
        self.past = PastRuns(root)
        self.loops: LoopCache = LoopCache(root)

    def run_key(self, view: RunView) -> str:
        """Return the key of a run; a queued one has that under which it will run."""
        files = view.files._replace(stem=None) if view.status == "queued" else view.files
        return run_key(self.key, files, view.path)

    def current(self) -> list[RunView]:
        """Return every run that is alive or unfinished; one that is queued only as that."""
        views = self.runs.list()
        queued = {view.name for view in views if view.status == "queued"}
        return [self.full(view) for view in views if view.is_alive or view.name not in queued]

    def queued(self) -> list[RunView]:
        return [self.full(view) for view in self.runs.queued()]

    def full(self, view: RunView) -> RunView:
        """Return a run; one that is queued to continue has what it has recorded so far."""
        before = self.runs.continues(view) if view.status == "queued" else None
        if before is None:
            return view
        return view._replace(files=before.files, summary=before.summary)

    def loop_key(self, path: str) -> str:
        return loop_key(self.key, os.path.basename(path))


class FoundRun(NamedTuple):
    project: Project
    view: RunView

    @property
    def key(self) -> str:
        return self.project.run_key(self.view)


class LoopPlace(NamedTuple):
    """A loop file that exists."""

    project: Project
    path: str


class Site:
    """Everything that the routes need; made once for a server."""

    def __init__(
        self,
        roots: Sequence[str],
        policy: Policy,
        environ: Mapping[str, str],
        live: Kind = KIND,
    ) -> None:
        """Serve these projects, each given by its root. `live` is how changes are noticed."""
        self.policy = policy
        self.environ = environ
        self.live = live
        self.projects = [Project(key, root) for key, root in project_keys(roots).items()]
        self.closing = asyncio.Event()
        """Set when the server ends, so that streams end with it."""

    def project(self, key: str) -> Project:
        """Return the project with this key. Raises `ApiError` if there is none."""
        for each in self.projects:
            if each.key == key:
                return each
        raise not_found("unknown_project", "there is no such project")

    def run(self, key: str) -> FoundRun:
        """Return the run that a key means. Raises `ApiError` if there is none."""
        parsed = parse_run(key)
        if parsed is None:
            raise _unknown_run()
        project = self.project(parsed.project)
        view = _view(project.runs, parsed)
        if view is None:
            raise _unknown_run()
        return FoundRun(project, project.full(view))

    def loop(self, key: str) -> LoopPlace:
        """Return the loop file that a key means. Raises `ApiError` if there is none."""
        parsed = parse_loop(key)
        if parsed is not None:
            project = self.project(parsed.project)
            for path in loop_files(project.root):
                if os.path.basename(path) == parsed.file:
                    return LoopPlace(project, path)
        raise not_found("unknown_loop", f"there is no loop file `{key}`")


def _unknown_run() -> ApiError:
    return not_found("unknown_run", "there is no such run", "it may have been deleted or resumed")


def _view(runs: Runs, key: RunKey) -> RunView | None:
    """Return the run that a key means; None if there is none."""
    if key.stem is None:
        return runs.view(key.path)
    past = runs.views([RunFiles(runs.root, key.name, key.stem)])
    return next(runs.past_children(past, key.path) if key.below else past, None)


def project_keys(roots: Sequence[str]) -> dict[str, str]:
    """Return a key for each project: empty for a single one, else its directory's name, with a number
    if several have the same."""
    unique = list(dict.fromkeys(roots))
    if len(unique) == 1:
        return {"": unique[0]}
    keys: dict[str, str] = {}
    for root in unique:
        name = "".join(c if c.isalnum() and c.isascii() else "-" for c in os.path.basename(root))
        key, number = name or "project", 2
        while key in keys:
            key, number = f"{name}-{number}", number + 1
        keys[key] = root
    return keys
