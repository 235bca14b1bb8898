"""`ll-loop show`: describe what a loop does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from little_loops.authoring.load import Definition
from little_loops.authoring.worst_case import outcomes, worst_case
from little_loops.authoring.yaml.places import Places, Source
from little_loops.cli.options import OutputArgs, operand
from little_loops.definitions.evidence_plan import EvidencePlan, evidence_plan
from little_loops.definitions.loading import LoopFile, load_document, load_loop, shown_path
from little_loops.errors import OK
from little_loops.fsm.schema import BRANCH
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs.project import find_project
from little_loops.terminal import paint
from little_loops.terminal.console import ascii_only, print_json, say
from little_loops.terminal.description import (
    WIDEST,
    described,
    environment_of,
    header,
    hooks_lines,
    limits_json,
    limits_text,
    notify_lines,
    result_lines,
    state_lines,
    states_json,
    widest_on,
    workspace_lines,
    worktree_lines,
)
from little_loops.terminal.evidence_lines import evidence_json, evidence_lines


class ShowArgs(
    OutputArgs,
    verb="show",
    summary="Describe a loop: its states, its limits, and how it can end.",
    examples=[
        ("ll-loop show fix-types", "as text"),
        ("ll-loop show fix-types --json", "as JSON, with the whole machine"),
    ],
):
    loop: str = operand("a loop's name or file")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop show`: print the description, and return 0."""
    args = ShowArgs.read(argv)
    root = find_project(os.getcwd())
    found = _of_child(args.loop, root) or load_loop(args.loop, root)
    if args.json:
        print_json(document(found))
    else:
        lines = page(found, ascii_only=ascii_only(sys.stdout), widest=widest_on(sys.stdout))
        say(visible("\n".join(lines)), paint.description)
    return OK


def _of_child(argument: str, root: str) -> LoopFile | None:
    """Return the loop of a run that another run has started; None if the argument is no such
    run."""
    if "/" not in argument:
        return None
    from little_loops.runs.reading import Runs  # a loop has no runs

    runs = Runs(root)
    view = runs.child(argument)
    machine = None if view is None else runs.machine(view)
    if view is None or machine is None:
        return None
    path = view.files.run_json
    if machine.paradigm == BRANCH:  # the action of a branch: no file can have it alone
        return LoopFile(machine, path, Definition(machine, (), Places(Source(path, ()), None)))
    return load_document(machine.to_dict(), root)._replace(loop=machine, path=path)


def page(found: LoopFile, *, ascii_only: bool = False, widest: int = WIDEST) -> Iterator[str]:
    """Yield the lines that describe the loop."""
    loop = found.loop
    dot, to = ("-", "->") if ascii_only else ("·", "→")
    states = described(loop, Masker(os.environ).mask)
    yield header(loop, dot, to, shown_path(found.path))
    if loop.description:
        yield from loop.description.strip().splitlines()
    yield ""
    yield from state_lines(loop, states, dot, to, widest)
    yield ""
    yield f"limits   {limits_text(loop, dot)}"
    yield f"scope    {', '.join(loop.scope)}"
    yield from worktree_lines(loop, dot)
    yield from workspace_lines(loop)
    home = os.environ.get("HOME", "")
    yield from evidence_lines(_evidence(found), loop.evidence, home, widest)
    yield from hooks_lines(loop)
    yield from notify_lines(loop)
    yield from result_lines(loop)
    if loop.context:
        yield f"context  {', '.join(loop.context)}"
    yield f"bounds   {worst_case(loop)}"
    if names := environment_of(loop):
        yield f"from the environment: {', '.join(names)}"


def _evidence(found: LoopFile) -> EvidencePlan:
    return evidence_plan(found, find_project(os.getcwd()), os.environ)


def document(found: LoopFile) -> dict[str, object]:
    """Return the description as JSON data, with the whole machine."""
    loop = found.loop
    return {
        "schema": 1,
        "name": loop.name,
        "file": shown_path(found.path),
        "description": loop.description,
        "paradigm": loop.paradigm,
        "initial": loop.initial,
        "states": states_json(loop, described(loop, Masker(os.environ).mask)),
        "limits": limits_json(loop),
        "scope": list(loop.scope),
        "evidence": evidence_json(_evidence(found), loop.evidence),
        "context": dict(loop.context),
        "environment": list(environment_of(loop)),
        "outcomes": outcomes(loop),
        "worst_case": worst_case(loop),
        "machine": loop.to_dict(),
    }
