"""Check a loop's evidence settings: no git repository, or settings without an effect.

These checks read the project and config files, which the pure checks of a definition cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from little_loops.authoring.load import Definition
from little_loops.definitions.settings import mentions_evidence, with_settings
from little_loops.errors import LittleLoopsError, Problem
from little_loops.fsm.schema import FSMLoop, keeper_of
from little_loops.trees.repository_files import repository_of

NO_REPOSITORY = "run `git init`, or "
MARK_IT = "mark the shell state that decides with `check: true`"


def evidence_problems(
    definition: Definition, root: str, environ: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Return the problems with evidence settings that cannot work here or have no effect.

    None are reported if the loop's file has no such settings.
    """
    loop = definition.loop
    assert loop is not None, "only a valid loop has evidence"
    if not mentions_evidence(definition):
        return ()
    if repository_of(root) is None:
        return tuple(_without_git(definition, loop))
    with suppress(LittleLoopsError):  # a broken config file is reported where it is read
        loop = with_settings(definition, root, environ)
    return tuple(_without_effect(definition, loop))


def _without_git(definition: Definition, loop: FSMLoop) -> Iterator[Problem]:
    """Yield an error for each setting that needs a git repository."""
    if definition.places.has("evidence") and loop.evidence.enabled:
        yield Problem(
            "LL234",
            "`evidence` needs a git repository, but this project is not in one",
            definition.places.at("evidence", part="key"),
            "`git init`, remove `evidence`, or run it with `--no-evidence`",
        )
    if loop.scope_writes == "enforce":
        yield Problem(
            "LL234",
            "`scope_writes: enforce` needs a git repository, but this project is not in one",
            definition.places.at("scope_writes"),
            f"{NO_REPOSITORY}write `scope_writes: report`",
        )
    why = "a git repository, but this project is not in one"
    if (
        keep := keep_problem(definition, why, f"{NO_REPOSITORY}remove `keep`", "LL234")
    ) is not None:
        yield keep


def keep_problem(
    definition: Definition, why: str, help: str, code: str = "LL218"
) -> Problem | None:
    """Return an error if the loop has `keep: best`, which cannot work here because of `why`."""
    loop = definition.loop
    keeper = None if loop is None else keeper_of(loop)
    if keeper is None:
        return None
    place = definition.places.at("states", keeper, "condition", "keep")
    return Problem(code, f"`keep: best` needs {why}", place, help)


def _without_effect(definition: Definition, loop: FSMLoop) -> Iterator[Problem]:
    """Yield a warning for each evidence setting that has no effect."""
    from little_loops.fsm.check_machine import shell_checks_of  # few loops have such settings
    from little_loops.fsm.evidence import wants_evidence

    if not wants_evidence(loop):
        why = "evidence, which a config file turns off"
        help = "add `evidence: true` to the loop, or remove `keep`"
        if (keep := keep_problem(definition, why, help)) is not None:
            yield keep
        if loop.scope_writes == "enforce":
            why = "no evidence is recorded, so the run cannot tell what agents write"
            yield _no_effect(
                definition, ("scope_writes",), why, "add `evidence: true`, or remove `scope_writes`"
            )
        return
    evidence = loop.evidence
    if evidence.tampering in ("restore", "fail") and evidence.protect is None:
        why = "it only applies to files named in the check command"
        message = f"`tampering: {evidence.tampering}` without `protect`: {why}"
        yield _warning(definition, ("evidence", "tampering"), message, "add `protect: [tests/]`")
    if evidence.setup is not None and not evidence.clean:
        why = "it runs in the clean copy, but `clean` is not true"
        yield _no_effect(
            definition, ("evidence", "setup"), why, "add `clean: true`, or remove `setup`"
        )
    if not shell_checks_of(loop):
        for name, is_asked in (("clean", evidence.clean), ("confirm", evidence.confirm > 1)):
            if is_asked:
                why = "only shell checks are run again, but the loop has none"
                yield _no_effect(definition, ("evidence", name), why, MARK_IT)
    yield from _never_taken(definition, loop)


def _never_taken(definition: Definition, loop: FSMLoop) -> Iterator[Problem]:
    """Yield a warning for each transition whose verdict the settings rule out."""
    evidence = loop.evidence
    is_default = evidence.stall_after is None and loop.paradigm == "fsm"
    never = {
        "on_tampered": (evidence.tampering != "fail", "`tampering: fail`", "evidence"),
        "on_out_of_scope": (loop.scope_writes != "enforce", "`scope_writes: enforce`", "the loop"),
        "on_flaky": (evidence.confirm < 2, "`confirm: 2`", "evidence"),
        "on_stalled": (is_default or evidence.stall_after == 0, "`stall_after: 3`", "evidence"),
    }
    for name, state in loop.states.items():
        for field, (is_never, setting, where) in never.items():
            if is_never and getattr(state, field) is not None:
                message = f"`{field}` of state `{name}` is never taken without {setting}"
                to = where if where == "the loop" else f"`{where}`"
                yield Problem(
                    "LL308",
                    message,
                    definition.places.at("states", name, field, part="key"),
                    f"add {setting} to {to}",
                    "warning",
                )


def _no_effect(definition: Definition, path: tuple[str, ...], why: str, help: str) -> Problem:
    return _warning(definition, path, f"`{path[-1]}` has no effect: {why}", help)


def _warning(definition: Definition, path: tuple[str, ...], message: str, help: str) -> Problem:
    place = definition.places.at(*path, part="key") if definition.places.has(*path) else None
    return Problem("LL318", message, place, help, "warning")
