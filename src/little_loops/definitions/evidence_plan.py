"""What evidence a run of a loop would record, for `show`, `run --dry-run` and `run`.

Patterns are as in the loop file. Not here: how it is printed (`terminal.evidence_lines`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from little_loops.definitions.loading import LoopFile
from little_loops.engine.run_trees import evidence_for
from little_loops.fsm.check_machine import checks_of
from little_loops.fsm.evidence import tampering_of
from little_loops.fsm.protection import protected_by
from little_loops.fsm.schema import FSMLoop, Tampering
from little_loops.records import NamedTuple
from little_loops.system.user_state import state_home
from little_loops.trees.copies import place_of
from little_loops.trees.patterns import Patterns, compile_patterns
from little_loops.trees.repository_files import repository_of
from little_loops.trees.rules import plain_scope

MAX_PATHS = 100_000
SKIPPED = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Large directories that rarely contain a protected file, so they are not searched."""


class EvidencePlan(NamedTuple):
    """What a run would record.

    `kept` is `on`, or why not; None if the loop needs no evidence. `unmatched` are patterns of
    `protect` that match no path of the project; `copy` is the path of the clean copy.
    """

    kept: str | None
    checks: tuple[str, ...]
    protect: tuple[str, ...] = ()
    is_guessed: bool = False
    existing_only: bool = False
    tampering: Tampering = "report"
    unmatched: tuple[str, ...] = ()
    copy: str | None = None


def evidence_plan(
    found: LoopFile, root: str, environ: Mapping[str, str], *, wanted: bool = True
) -> EvidencePlan:
    """Return the plan for a run of this loop; `wanted` is false if the user switched evidence off."""
    loop = found.loop
    kept = evidence_for(loop, root, environ, wanted=wanted)
    plan = EvidencePlan(kept, checks_of(loop))
    if kept != "on":
        return plan
    evidence = loop.evidence
    return plan._replace(
        # As written: what is protected beside it usually does not exist.
        protect=evidence.protect or protected_by(loop, found.path_in(root)),
        is_guessed=evidence.protect is None,
        existing_only=evidence.existing_only,
        tampering=tampering_of(evidence),
        unmatched=unmatched(root, evidence.protect or ()),
        copy=_copy_path(loop, root, environ) if evidence.clean else None,
    )


def _copy_path(loop: FSMLoop, root: str, environ: Mapping[str, str]) -> str:
    """Return where the clean copy of the project would be."""
    project = os.path.realpath(root)
    prefix = os.path.relpath(project, repository_of(root) or project)
    scope = plain_scope(loop.scope, project)
    place = place_of(project, "" if prefix == "." else prefix, scope, state_home(environ))
    return place.path


def unmatched(root: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that match no path, probably misspelt; none if the project is too large.

    Patterns that start with `!` are ignored.
    """
    left = {
        pattern: compile_patterns([(b"", [os.fsencode(pattern)])])
        for pattern in patterns
        if not pattern.startswith("!")
    }
    for number, (path, is_dir) in enumerate(_paths(root, left)):
        if number > MAX_PATHS:
            return ()
        for pattern in [each for each in left if left[each].match(path, is_dir)]:
            del left[pattern]
        if not left:
            break
    return tuple(left)


def _paths(root: str, left: Mapping[str, Patterns]) -> Iterator[tuple[bytes, bool]]:
    """Yield the paths of a project, except directories in which none of the patterns could match."""
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(os.fsencode(root), folder)))
        except OSError:
            continue
        for entry in entries:
            path = folder + b"/" + entry.name if folder else entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            yield path, is_dir
            may_match = any(each.may_match_below(path) for each in left.values())
            if is_dir and may_match and os.fsdecode(entry.name) not in SKIPPED:
                folders.append(path)
