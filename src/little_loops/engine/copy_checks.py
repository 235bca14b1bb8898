"""Run a check in a clean copy of the project.

Not here: how the copy is laid out (`trees.copies`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from signal import SIGTERM

from little_loops.engine.action_output import Streams
from little_loops.engine.action_process import (
    OutputSink,
    Workplace,
    cut_by,
    environment,
    run_program,
)
from little_loops.engine.drive import ActionOutcome
from little_loops.engine.resolve import Filled
from little_loops.engine.run_trees import SNAPSHOT_S, RunTrees
from little_loops.errors import StoreError
from little_loops.fsm.commands import CopySource, RunShell
from little_loops.fsm.path_text import listed_paths, path_text
from little_loops.fsm.state import LoopState, Result
from little_loops.system import process
from little_loops.system.plain_files import read_plain
from little_loops.trees.delivery import Delivery
from little_loops.trees.git import Interrupted, is_inside
from little_loops.trees.rules import within
from little_loops.trees.shadows import replace_path

SETUP_TAIL = 4096
MAX_SCRIPT_BYTES = 1 << 20
LEADS_BACK = (
    "names your project by its path, so in the clean copy it may test the files of your project; use"
    " paths relative to the project"
)


def run_in_copy(
    trees: RunTrees, at: Workplace, run: LoopState, command: RunShell, filled: Filled
) -> ActionOutcome:
    """Run a check in a clean copy of the project, which is locked meanwhile.

    If the copy cannot be made, or does not count, the result has a `failure`.
    """
    assert command.copy is not None, "only called for a check in a clean copy"
    _bound(trees, at)
    try:
        with trees.copy.held():
            return _run_held(trees, at, run, command, command.copy, filled)
    except Interrupted as cut:
        if cut.by == "stop":
            return ActionOutcome(Result(None, 0, cut_by="stop"))
        return _no_copy(f"the snapshot took longer than {SNAPSHOT_S:g} s")
    except StoreError as error:
        return _no_copy(error.message + (f" ({error.help})" if error.help else ""))


def _no_copy(why: str) -> ActionOutcome:
    return ActionOutcome(Result(None, 0, failure=f"cannot make a clean copy: {why}"))


def _bound(trees: RunTrees, at: Workplace) -> None:
    """Limit the time for work on the copy; the programs that run in it have their own limits."""
    trees.store.git = trees.store.git.bounded(SNAPSHOT_S)._replace(stop=at.stop)


def _run_held(
    trees: RunTrees,
    at: Workplace,
    run: LoopState,
    command: RunShell,
    wanted: CopySource,
    filled: Filled,
) -> ActionOutcome:
    """Lay out the copy, run `setup` if there is one, and then the check. Requires the lock of the
    copy.

    The result has a `failure` if `setup` failed, or if the copy changed so that the check proves
    nothing.
    """
    copy, job = trees.copy, command.job
    existing_only = trees.loop.evidence.existing_only
    delivery = _delivery(trees, wanted)
    if delivery.weakened:
        return ActionOutcome(Result(None, 0, failure=_weakened_text(delivery)))
    undelivered = delivery.left_out
    other = {**delivery.other, **delivery.kept}
    targets = trees.named_like_targets(wanted.project)
    left_out = (*_links_to_elsewhere(trees, wanted), *undelivered, *targets)
    path = copy.lay_out(
        wanted.project,
        wanted.reference,
        links=wanted.setup is None,
        existing_only=existing_only,
        left_out=left_out,
        other=other,
    )
    there = at._replace(project=path)
    env = copy.environment(environment(at, run, job, filled.env))
    if wanted.setup is not None:
        setup = copy.translate(wanted.setup)
        if (failed := _set_up(there, command, setup, env)) is not None:
            return ActionOutcome(failed)
        _bound(trees, at)
        changed = trees.store.changed_paths(wanted.first, wanted.project)
        copy.lay_out_again(
            wanted.project,
            wanted.reference,
            changed,
            existing_only=existing_only,
            left_out=left_out,
            other=other,
        )
    trees.remove_compiled_in_linked()
    before = copy.differing()
    streams = Streams(at, job)
    shown = PathTranslator(streams, copy.whole.copy, copy.whole.real)
    argv = [command.shell, "-c", copy.translate(filled.text)]
    plan = ((SIGTERM, job.kill_grace_s),)
    ended = run_program(there, job, argv, env, shown, plan=plan)
    shown.close()
    result = streams.result(ended, cut_by(job, ended))
    _bound(trees, at)
    if result.cut_by == "none" and (
        why := _why_copy_is_invalid(trees, wanted, before, copy.differing())
        or _why_undelivered(trees, wanted, delivery)
    ):
        result = result._replace(failure=why)
    has_failed = result.exit_code != 0
    missing = tuple(_missing_in_copy(trees, delivery, targets)) if has_failed else ()
    back = (*_installed_from_copy(trees), *_leading_back(trees, filled.text))
    return ActionOutcome(result, warnings=(*back, *missing))


def _leading_back(trees: RunTrees, text: str) -> Iterator[str]:
    """Yield a warning, once, for each script of the check that names the project by its path, and
    for the check itself: in the clean copy, it reaches the project's own files there."""
    real, *aliases = names_of_project(trees.copy.whole.real, trees.environ)
    if any(_has_path(os.fsencode(text), name) for name in aliases):
        yield from trees.once(f"the check {LEADS_BACK}")
    for path in trees.scripts():
        try:
            data = read_plain(os.path.join(trees.copy.path, path), MAX_SCRIPT_BYTES)
        except OSError:
            continue
        if any(_has_path(data, name) for name in (real, *aliases)):
            yield from trees.once(f"`{path_text(path)}` {LEADS_BACK}")


def names_of_project(real: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return how a script may name the project: by its path, from the user's home directory, or by
    the link through which the user has come here."""
    home = environ.get("HOME", "")
    below = real[len(home) :] if home not in ("", "/") and is_inside(real, home) else ""
    from_home = [f"{name}{below}" for name in ("~", "$HOME", "${HOME}") if below]
    here = environ.get("PWD", "")
    is_alias = here != real and os.path.isabs(here) and os.path.realpath(here) == real
    return (real, *from_home, *([here] if is_alias else []))


def _has_path(text: bytes, path: str) -> bool:
    """Return whether a text contains a path as a whole, or as the beginning of one."""
    return replace_path(text, os.fsencode(path), b"") != text


def _installed_from_copy(trees: RunTrees) -> Iterator[str]:
    """Undo what a check has installed outside the copy, and yield a warning about it, once."""
    for file in trees.copy.point_back():
        yield from trees.once(
            f"the check installed the clean copy in your Python environment; `{file}` names your"
            " project again"
        )


def _links_to_elsewhere(trees: RunTrees, wanted: CopySource) -> Iterator[str]:
    """Yield the new links that the copy must not have: what they lead to is not delivered.

    A new link to an ignored directory stays, unless it stands for files that were there before: it
    may lead to what the check builds.
    """
    yield from trees.new_links_out(wanted.first, wanted.project)
    links = trees.new_links_to_ignored(wanted.first, wanted.project)
    yield from (one.path for one in links if one.replaces)


def _delivery(trees: RunTrees, wanted: CopySource) -> Delivery:
    """Return how a commit would differ from the snapshot. Raises `StoreError`."""
    found = trees.copy.delivery(
        wanted.first,
        wanted.project,
        wanted.reference,
        existing_only=trees.loop.evidence.existing_only,
    )
    hidden = {*trees.undelivered(wanted.first, wanted.project), *found.left_out}
    return found._replace(left_out=tuple(sorted(hidden)))


def _why_undelivered(trees: RunTrees, wanted: CopySource, before: Delivery) -> str | None:
    """Return why a check in the copy proves nothing, because a commit would no longer include what
    it saw; else None. `before` is what the copy was laid out by."""
    after = _delivery(trees, wanted)
    if after.weakened:
        return _weakened_text(after)
    changed = {path for path, one in after.other.items() if before.other.get(path) != one}
    changed |= after.kept.keys() - before.kept.keys()
    hidden = sorted(changed | set(after.left_out).difference(before.left_out))
    if not hidden:
        return None
    return f"while it ran, something made git overlook {listed_paths(hidden, len(hidden))}"


def _weakened_text(delivery: Delivery) -> str:
    """Return why a check proves nothing if a commit would not have protected files as they are here."""
    paths = delivery.weakened
    return (
        f"your next commit would change or delete {listed_paths(paths, len(paths))}, which is"
        " protected; see `git ls-files -v` and `git check-attr -a`"
    )


def _missing_in_copy(trees: RunTrees, delivery: Delivery, targets: Sequence[str]) -> Iterator[str]:
    """Yield warnings about files that a check in the copy may have missed, each once."""
    if hidden := delivery.left_out:
        yield from trees.once(
            "a commit would not include these files, because git ignores or overlooks them, so they"
            f" are not in the clean copy: {listed_paths(hidden, len(hidden))}"
        )
    if kept := sorted(delivery.kept):
        yield from trees.once(
            "git has these files, which are gone here or were ignored when the run started, so a commit"
            f" and the clean copy contain them: {listed_paths(kept, len(kept))}"
        )
    if other := sorted(path for path, one in delivery.other.items() if one.data is not None):
        yield from trees.once(
            "git would change these files when you commit them, so they are different in the clean"
            f" copy: {listed_paths(other, len(other))}"
        )
    if modes := sorted(path for path, one in delivery.other.items() if one.is_only_mode):
        yield from trees.once(
            "git keeps only the executable bit, so these files have other permissions in the clean"
            f" copy: {listed_paths(modes, len(modes))}"
        )
    if targets:
        yield from trees.once(
            "new and named like a `make` target of the check, so not in the clean copy:"
            f" {listed_paths(targets, len(targets))}; unless `make` creates it, declare the target as"
            " `.PHONY`"
        )
    if builds := trees.copy.builds():
        yield from trees.once(
            "prepared by CMake, Meson or `configure` to build the files here, so not in the clean"
            f" copy: {listed_paths(builds, len(builds))}; let the check or `setup` prepare it, for"
            " example with `cmake -B`"
        )
    if paths := trees.rules.not_yours:
        yield from trees.once(
            "ignored by git, and made or changed while a run worked, so the clean copy does not have"
            f" this version of it: {listed_paths(paths, len(paths))}; if the check needs it, make it again"
            " yourself, or use `setup`"
        )


def _why_copy_is_invalid(
    trees: RunTrees, wanted: CopySource, before: frozenset[str], after: frozenset[str]
) -> str | None:
    """Return why a check in the copy proves nothing, because something changed the copy; else None.

    `before` and `after` are the paths in which the copy differs from what was laid out. A check may
    change in the copy what it changes in the project, but never what is protected.
    """
    # Also what differed before the check began: they were laid out just before that.
    protected = sorted(path for path in before | after if trees.copy.is_protected(path))
    if protected:
        named = listed_paths(protected, len(protected))
        exempt = f"if the check writes there itself, add `!/{path_text(protected[0])}` to `protect`"
        named = f"while it ran, something changed protected files in the clean copy: {named}"
        return f"{named}; {exempt}"
    mine = trees.rules.in_scope
    others = sorted(
        path for path in after - before if mine(path) and not within(path, wanted.writes)
    )
    if others:
        named = listed_paths(others, len(others))
        return f"something changed {named} in the clean copy while the check ran; that did not happen in the project"
    return None


def _set_up(
    there: Workplace, command: RunShell, setup: str, env: Mapping[str, str]
) -> Result | None:
    """Run `setup` in the copy. Return None if it passed, else the result of the check: stopped, or
    a `failure` with the last line of output."""
    said = bytearray()

    def keep(chunk: bytes) -> None:
        said.extend(chunk)
        del said[:-SETUP_TAIL]

    job = command.job
    deadline_s = None if job.deadline_ms is None else job.deadline_ms / 1000
    try:
        ended = process.run(
            [command.shell, "-c", setup],
            env=env,
            cwd=os.path.join(there.project, job.cwd or ""),
            stdin=None,
            stdout=keep,
            stderr=keep,
            deadline_s=deadline_s,
            stop=there.stop,
            stop_plan=((SIGTERM, job.kill_grace_s),),
        )
    except process.CannotStart as problem:
        return Result(None, 0, failure=problem.reason)
    if ended.exit_code == 0:
        return None
    if ended.cut_by == "stop":
        return Result(None, 0, cut_by="stop")
    last = said.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    how = f"exit {ended.exit_code}" if ended.exit_code is not None else "interrupted"
    return Result(None, 0, failure=f"`setup` failed in the clean copy ({how}): {last}")


class PathTranslator:
    """Streams in which the path of the copy is replaced by the path of the project.

    A path may arrive in two chunks, so the end of a chunk is held back if it could begin one.
    """

    def __init__(self, streams: OutputSink, copy: str, project: str) -> None:
        self._streams = streams
        self._old, self._new = os.fsencode(copy), os.fsencode(project)
        self._held = {"stdout": b"", "stderr": b""}

    def stdout(self, chunk: bytes) -> None:
        self._feed("stdout", self._streams.stdout, chunk)

    def stderr(self, chunk: bytes) -> None:
        self._feed("stderr", self._streams.stderr, chunk)

    def close(self) -> None:
        for name, give in (("stdout", self._streams.stdout), ("stderr", self._streams.stderr)):
            if self._held[name]:
                give(self._held[name])

    def _feed(self, name: str, give: Callable[[bytes], None], chunk: bytes) -> None:
        """Pass a chunk on with its paths replaced, but hold back an end that may be the beginning
        of a path."""
        text = (self._held[name] + chunk).replace(self._old, self._new)
        keep = held_back(text, self._old)
        self._held[name] = text[len(text) - keep :]
        if len(text) > keep:
            give(text[: len(text) - keep])


def held_back(text: bytes, word: bytes) -> int:
    """Return how many bytes at the end of the text could be the beginning of the word."""
    longest = min(len(text), len(word) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(word[:size])), 0)
