"""`ll-loop validate`: check loop files and report every problem in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from little_loops.authoring.hints import hints
from little_loops.authoring.load import Definition, load
from little_loops.authoring.worst_case import outcomes, pattern_readings, worst_case
from little_loops.cli.commands import VERBS
from little_loops.cli.options import OutputArgs, count, flag, operand, value
from little_loops.definitions.all_problems import all_problems
from little_loops.definitions.loading import find_loop, read_definition, shown_path
from little_loops.errors import OK, USAGE, Problem, UsageError
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs.config_files import LARGEST
from little_loops.runs.project import LOOPS, find_project, loop_files, project_of
from little_loops.terminal import paint
from little_loops.terminal.console import is_terminal, print_json, print_unchanged, say, talk
from little_loops.terminal.problems import annotation, as_dict, excerpt_width, render_all

STDIN = "-"
EXAMPLES = (
    ("ll-loop validate", "every loop in this project"),
    ("ll-loop validate fix-types", "one of them"),
    ("ll-loop validate - < draft.yaml", "read from standard input"),
    ("ll-loop validate --strict", "warnings are errors"),
    ("ll-loop validate --output-format github", "annotations for a workflow"),
)


class CheckedFile(NamedTuple):
    path: str
    definition: Definition | None
    problems: tuple[Problem, ...]

    def count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)

    def is_good(self, strict: bool) -> bool:
        return not (self.problems if strict else self.count("error"))


class ValidateArgs(
    OutputArgs,
    verb="validate",
    summary="Check loop files, and report every problem in them.",
    examples=EXAMPLES,
):
    files: Sequence[str] = operand(
        "names or files of loops, `-` for standard input; default: all of them",
        many=True,
        default=(),
        metavar="LOOP",
    )
    strict: bool = flag("treat warnings as errors")
    output_format: str | None = value(
        "output format; default: text", choices=("text", "json", "github")
    )
    verbose: int = count("describe what each loop will do, even if there are several", "-v")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop validate`. Return 2 if a loop has errors (with `--strict`: warnings), else 0."""
    args = ValidateArgs.read(argv)
    root = find_project(os.getcwd())
    named = dict.fromkeys(each if each == STDIN else find_loop(each, root) for each in args.files)
    paths = list(named) or loop_files(root)
    if not paths:
        raise UsageError("this project has no loops", "`ll-loop init` creates one")
    checked = [check(path, root) for path in paths]
    match args.output_format or ("json" if args.json else "text"):
        case "json":
            print_json(document(checked, strict=args.strict))
        case "github":
            for problem in (problem for each in checked for problem in each.problems):
                print_unchanged(annotation(_as_strict(problem) if args.strict else problem))
        case _:
            report(checked, args)
    return OK if all(each.is_good(args.strict) for each in checked) else USAGE


def check(path: str, root: str) -> CheckedFile:
    """Read and check one file, or stdin for `-`. Return all problems, also if it is unreadable."""
    try:
        definition = _from_stdin() if path == STDIN else read_definition(path)
    except UsageError as error:  # the others are still to be checked
        problem = Problem("LL014", error.message, help="make it readable, or move it elsewhere")
        return CheckedFile(shown_path(path), None, (problem,))
    shown = path if path == STDIN else shown_path(path)
    problems = all_problems(definition, None if path == STDIN else path, _project_of(path, root))
    return CheckedFile(shown, definition, (*problems, *_named_like_a_verb(definition)))


def _project_of(path: str, root: str) -> str:
    """Return the project that a file belongs to: the one around its `.loops`, which may be inside
    another project; else the current one, at `root`."""
    directory = os.path.dirname(path)
    return project_of(directory) if os.path.basename(directory) == LOOPS else root


def _from_stdin() -> Definition:
    return load(sys.stdin.buffer.read(LARGEST + 1), "stdin", "loop")


def _named_like_a_verb(definition: Definition) -> Iterator[Problem]:
    """Yield a warning if the loop has the name of a newer verb."""
    name = definition.loop.name if definition.loop is not None else None
    if name in VERBS and VERBS[name].is_new:
        message = (
            f"`{name}` is also a command of ll-loop, so `ll-loop {name}` does not run this loop"
        )
        help = f"use `ll-loop run {name}`, or give the loop another `name`"
        yield Problem("LL016", message, definition.places.at("name"), help, "warning")


def _end_text(name: str, how: str) -> str:
    """Describe a terminal state and its outcome."""
    usual, _, otherwise = how.partition(", failure when ")
    return f"`{name}` is a {usual} state" + (
        f", or a failure when {otherwise}" if otherwise else ""
    )


def _as_strict(problem: Problem) -> Problem:
    return problem._replace(severity="error")


def report(checked: Sequence[CheckedFile], args: ValidateArgs) -> None:
    """Print the problems, what valid loops will do, and a summary."""
    if args.quiet > 1:
        return
    problems = [
        problem
        for each in checked
        for problem in each.problems
        if problem.severity == "error" or args.strict or not args.quiet
    ]
    if problems:
        say(render_all(problems, excerpt_width(sys.stdout)) + "\n", paint.problems)
    for each in () if args.quiet else checked:
        if _is_valid(each) and (args.verbose or len(checked) == 1):
            for line in expectations(each):
                say(visible(line, newlines=False))
    say(summary(checked, strict=args.strict), paint.problems)
    if problems and not args.quiet and is_terminal(sys.stderr):
        talk(f"next: ll-loop explain {problems[0].code}")


def _is_valid(each: CheckedFile) -> bool:
    return each.definition is not None and each.definition.loop is not None


def expectations(each: CheckedFile) -> list[str]:
    """Return what a valid loop can be expected to do."""
    loop = each.definition.loop if each.definition is not None else None
    assert loop is not None, "only a valid loop has expectations"
    ends = [_end_text(name, how) for name, how in outcomes(loop).items()]
    more = [*ends, *pattern_readings(loop), *(f"hint: {hint}" for hint in hints(loop))]
    return [f"{loop.name}: {worst_case(loop)}", *(f"  {line}" for line in more)]


def summary(checked: Sequence[CheckedFile], *, strict: bool = False) -> str:
    """Return the last line: how many loops, errors and warnings."""
    files = f"checked {_count(len(checked), 'loop')}"
    errors = sum(each.count("error") for each in checked)
    warnings = sum(each.count("warning") for each in checked)
    if not errors and not warnings:
        return f"{files}: no problems"
    bad = sum(bool(each.problems) for each in checked)
    counts = f"{_count(errors, 'error')}, {_count(warnings, 'warning')} in {_count(bad, 'file')}"
    why = "; --strict treats warnings as errors" if strict and warnings else ""
    return f"{files}: {counts}{why}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def document(checked: Sequence[CheckedFile], *, strict: bool = False) -> dict[str, object]:
    """Return the problems of all files as JSON data; with `strict`, warnings count as errors."""
    files = [
        {
            "file": each.path,
            "name": _name(each),
            "valid": each.is_good(strict),
            "problems": [as_dict(problem) for problem in each.problems],
            "hints": _hints(each),
        }
        for each in checked
    ]
    good = all(each.is_good(strict) for each in checked)
    return {"schema": 1, "strict": strict, "valid": good, "files": files}


def _hints(each: CheckedFile) -> list[str]:
    loop = each.definition.loop if each.definition is not None else None
    return [] if loop is None else hints(loop)


def _name(each: CheckedFile) -> str | None:
    loop = each.definition.loop if each.definition is not None else None
    return None if loop is None else loop.name
