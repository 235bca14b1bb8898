"""Write a stored tree into a worktree, so that a run can continue there.

Files and links are exactly those of the tree. Directories that git ignores, such as `.venv`, are not
part of it; a run usually needs them, so they are there, too, as directories with links to what the
project has in them. Editable installs in them lead into the worktree (`shadows`). Ignored files are
as they were when the run started.

Every step can be repeated: if it is killed anywhere and done again, the result is the same.
"""

from __future__ import annotations

import os
import stat

from little_loops.errors import StoreError
from little_loops.system.files import failure
from little_loops.trees.copies import CopiedFiles, refuse_twins
from little_loops.trees.copy_plan import Content, CopyRoot, Planner
from little_loops.trees.guard import Guarded
from little_loops.trees.objects import object_id
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.rules import Rules, parents
from little_loops.trees.store import TreeStore

Contents = dict[str, Content]


def lay_out(
    store: TreeStore, rules: Rules, tree: str, guard: str, place: str, *, links: bool
) -> None:
    """Write the snapshot `tree` of the project of `rules`, and its protected paths `guard`, into the
    directory `place`; with `links`, also what git ignores.

    Raises `StoreError`, and its subclass `NotClean` if a linked directory would lead back into the
    project, or a large file that is not stored has changed.
    """
    with store.using():
        files = store.guard_of_tree(tree).paths
        protected = store.guard(guard).paths
    exact = _contents({**protected, **files})
    contents = (_ignored(store, rules, tree, place) if links else {}) | exact
    # A file of the tree decides what is a directory.
    contents = {path: one for path, one in contents.items() if not _is_below_file(path, exact)}
    try:
        os.makedirs(place, exist_ok=True)
        refuse_twins(contents, place)
        with OpenDirectory(place) as ground:
            CopiedFiles(store, rules, place, "").fill(ground, contents)
            for path, one in sorted(protected.items(), reverse=True):
                if one.kind == "dir" and path in contents:
                    ground.set_mode(path, one.mode)
    except OSError as error:
        plain = failure(error, "write", place)
        raise StoreError(plain.message, plain.help) from error


def _contents(paths: dict[str, Guarded]) -> Contents:
    """Return what to write for stored paths; directories only if nothing is in them."""
    needed = frozenset(parents(path for path, one in paths.items() if one.kind != "dir"))
    return {
        path: Content(one.kind, one.mode, one.id)
        for path, one in paths.items()
        if one.kind in ("file", "link") or (one.kind == "dir" and path not in needed)
    }


def _ignored(store: TreeStore, rules: Rules, tree: str, place: str) -> Contents:
    """Return what to write for the paths that git ignored when the run started."""
    # Submodules and other repositories stay empty: changes there would be the user's.
    own = rules._replace(nested=(), not_yours=())
    planner = Planner(store, own, CopyRoot(rules.project, place))
    found = dict(planner.plan(tree, None, True, True).contents)
    for path in rules.linked:
        full = os.path.join(rules.project, path)
        # A pattern such as `.venv/` ignores a directory, but not a link.
        if path in found and found[path].kind == "link" and os.path.isdir(full):
            found[path] = Content("dir", stat.S_IFDIR, "")
            for name in os.listdir(full):
                found[f"{path}/{name}"] = _link(os.path.join(full, name))
    return found


def _link(target: str) -> Content:
    data = os.fsencode(target)
    return Content("link", stat.S_IFLNK | 0o777, object_id(b"blob", data).hex(), data)


def _is_below_file(path: str, files: Contents) -> bool:
    return any(above in files and files[above].kind != "dir" for above in parents([path]))
