"""`ll-loop validate`: check loop files and report every problem in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from little_loops.authoring.load import Definition
from little_loops.authoring.worst_case import outcomes, pattern_readings, worst_case
from little_loops.cli.agent_checks import agent_problems
from little_loops.cli.console import print_json, say
from little_loops.cli.loading import find_loop, read_definition, shown_path
from little_loops.cli.plain_words import plain
from little_loops.cli.problems import annotation, as_dict, render_all
from little_loops.errors import OK, USAGE, Problem, UsageError
from little_loops.world.project import find_project, loop_files
from little_loops.world.shown import visible

if TYPE_CHECKING:
    from little_loops.cli.parsing import Parser

EXAMPLES = (
    ("ll-loop validate", "every loop of this project"),
    ("ll-loop validate fix-types", "one of them"),
    ("ll-loop validate --strict", "warnings are errors"),
    ("ll-loop validate --output-format github", "annotations for a workflow"),
)


class Checked(NamedTuple):
    path: str
    definition: Definition
    problems: tuple[Problem, ...]

    def count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)


class Asked(NamedTuple):
    files: Sequence[str] = ()
    strict: bool = False
    json: bool = False
    output_format: str | None = None
    quiet: int = 0
    verbose: int = 0
    color: str | None = None


def parser() -> Parser:
    from little_loops.cli.parsing import Parser, add_output_options  # `asked` may do without

    it = Parser("validate", "Check loop files and report every problem in them.", EXAMPLES)
    it.add_argument("files", nargs="*", metavar="LOOP", help="names or files; default: all")
    it.add_argument("--strict", action="store_true", help="warnings are errors too")
    it.add_argument("--output-format", choices=("text", "json", "github"), help="default: text")
    add_output_options(it)
    return it


def asked(argv: Sequence[str]) -> Asked:
    found = plain(argv, ("--strict", "--json"), most_names=len(argv))
    if found is None:
        return Asked(**vars(parser().parse_args(argv)))
    files, flags = found
    return Asked(files, strict="--strict" in flags, json="--json" in flags)


def main(argv: Sequence[str]) -> int:
    args = asked(argv)
    root = find_project(os.getcwd())
    paths = [find_loop(each, root) for each in args.files] or loop_files(root)
    if not paths:
        raise UsageError("there are no loops here", "`ll-loop init` writes a first one")
    checked = [check(path, root) for path in paths]
    match args.output_format or ("json" if args.json else "text"):
        case "json":
            print_json(document(checked))
        case "github":
            for problem in (problem for each in checked for problem in each.problems):
                say(annotation(problem))
        case _:
            report(checked, quiet=args.quiet, verbose=args.verbose)
    bad = [each for each in checked if each.count("error") or (args.strict and each.problems)]
    return USAGE if bad else OK


def check(path: str, root: str) -> Checked:
    definition = read_definition(path)
    extra = () if definition.loop is None else agent_problems(definition, root)
    return Checked(shown_path(path), definition, (*definition.problems, *extra))


def report(checked: Sequence[Checked], *, quiet: int, verbose: int) -> None:
    problems = [problem for each in checked for problem in each.problems]
    if problems:
        say(render_all(problems) + "\n")
    if quiet:
        return
    for each in checked:
        if each.definition.loop is not None and (verbose or len(checked) == 1):
            for line in expectations(each):
                say(visible(line, newlines=False))
    say(summary(checked))


def expectations(each: Checked) -> list[str]:
    """What a valid loop can be expected to do."""
    loop = each.definition.loop
    assert loop is not None, "only a valid loop has expectations"
    ends = [f"`{name}` is {how}" for name, how in outcomes(loop).items()]
    more = [*ends, *pattern_readings(loop)]
    return [f"{loop.name}: {worst_case(loop)}", *(f"  {line}" for line in more)]


def summary(checked: Sequence[Checked]) -> str:
    files = f"checked {len(checked)} loop{'' if len(checked) == 1 else 's'}"
    errors = sum(each.count("error") for each in checked)
    warnings = sum(each.count("warning") for each in checked)
    if not errors and not warnings:
        return f"{files}: no problems"
    bad = sum(bool(each.problems) for each in checked)
    return (
        f"{files}: {errors} error{'' if errors == 1 else 's'}, "
        f"{warnings} warning{'' if warnings == 1 else 's'} in {bad} file{'' if bad == 1 else 's'}"
    )


def document(checked: Sequence[Checked]) -> dict[str, object]:
    files = [
        {
            "file": each.path,
            "name": None if each.definition.loop is None else each.definition.loop.name,
            "valid": not each.count("error"),
            "problems": [as_dict(problem) for problem in each.problems],
        }
        for each in checked
    ]
    return {"schema": 1, "files": files}
