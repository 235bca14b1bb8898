"""`ll-loop test`: run the tests of loops, without running any of their actions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from little_loops.cli.options import OutputArgs, flag, operand, value
from little_loops.cli.output_files import open_output
from little_loops.definitions.loading import find_loop, read_definition, shown_path
from little_loops.definitions.test_files import (
    ReadTestFile,
    loops_without_tests,
    misplaced_tests,
    read_tests,
    tests_of,
)
from little_loops.engine.loop_tests import never_taken, run_tests
from little_loops.errors import FAILED, OK, DefinitionError, UsageError
from little_loops.reporting.escape import visible
from little_loops.runs.project import TEST_SUFFIXES, TESTS, find_project, loops_of
from little_loops.terminal.console import print_json, say
from little_loops.terminal.tables import style_for
from little_loops.terminal.test_report import (
    FileReport,
    Results,
    coverage,
    document,
    dots,
    failures,
    junit,
    summary,
)


class TestArgs(
    OutputArgs,
    verb="test",
    summary="Run the tests of loops: `.loops/tests/*.test.yaml`.\n"
    "The loop's real state machine runs, but the test supplies the results of its\n"
    "actions. No command is started, nothing is written to the project, and waits\n"
    "end immediately.",
    examples=[
        ("ll-loop test", "all tests in this project"),
        ("ll-loop test fix-types -k auth", "one loop's tests with `auth` in their names"),
        ("ll-loop test --junit tests.xml", "for a CI system"),
    ],
):
    loops: Sequence[str] = operand(
        "names or files of loops; default: all of them", many=True, default=(), metavar="LOOP"
    )
    all: bool = flag("test all loops, which is the default")
    word: str | None = value("only tests with WORD in their names", "-k", metavar="WORD")
    junit: str | None = value("also write the results as JUnit XML", metavar="FILE")
    require_coverage: bool = flag(
        "fail if a transition is not covered by a passing test, or a loop has no tests"
    )


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop test`. Return 1 if a test fails or required coverage is lacking, else 0."""
    args = TestArgs.read(argv)
    if args.require_coverage and args.word is not None:
        raise UsageError("`--require-coverage` runs all tests, so it cannot be used with `-k`")
    root = find_project(os.getcwd())
    results = _run(_read(args, root), args.word, os.environ)
    if args.word is None and not args.loops:
        tested = {file.loop.name for file in results.files}
        results = results._replace(untested=tuple(loops_without_tests(root, tested)))
    if args.word is not None and not results.reports:
        # A misspelt word must not pass in CI.
        raise UsageError(f"no test name contains `{visible(args.word, newlines=False)}`")
    if args.junit is not None:
        with open_output(args.junit) as stream:
            text = junit(results, require_coverage=args.require_coverage)
            stream.write(text.encode())
    if args.json:
        print_json(document(results))
    elif args.quiet < 2:
        _show(results, args)
    lacks = args.require_coverage and bool(results.never_taken or results.untested)
    return FAILED if results.failed or lacks else OK


def _read(args: TestArgs, root: str) -> list[ReadTestFile]:
    """Return the test files of the loops that were asked for, or of all loops.

    Raises `DefinitionError` if any test file has problems or is among the loops, `UsageError` if a
    loop has no tests.
    """
    names = {_name(each, root) for each in args.loops}
    files = read_tests(tests_of(root), root, os.environ)
    problems = [problem for file in files for problem in file.content.problems]
    if problems := [*misplaced_tests(root), *problems]:
        raise DefinitionError(problems)
    found = [file for file in files if not names or _loop_name(file) in names]
    missing = names - {_loop_name(file) for file in found}
    if not found or missing:
        where = shown_path(os.path.join(root, loops_of(root), TESTS))
        what = f"`{min(missing)}` has no tests" if missing else "this project has no tests"
        raise UsageError(what, f"write them to `{where}/NAME.test.yaml`")
    return found


def _name(argument: str, root: str) -> str:
    """Return the name of the loop that an argument names. Raises `UsageError` if there is none."""
    if argument.endswith(TEST_SUFFIXES):
        raise UsageError(
            f"`{visible(argument, newlines=False)}` is a test file, not a loop",
            "name the loop that it tests, and choose tests with `-k WORD`",
        )
    loop = read_definition(find_loop(argument, root)).loop
    return argument if loop is None else loop.name


def _loop_name(file: ReadTestFile) -> str:
    return "" if file.content.loop is None else file.content.loop.name


def _run(files: Sequence[ReadTestFile], word: str | None, environ: Mapping[str, str]) -> Results:
    """Run the tests whose names contain `word`, or all of them if it is None.

    Transitions that no passing test takes are only looked for if all tests are run.
    """
    reports = []
    for path, content in files:
        assert content.loop is not None, "a test file without problems has a loop"
        tests = [each for each in content.tests if word is None or word in each.name]
        reports.append(FileReport(path, content.loop, run_tests(content.loop, tests, environ)))
    loops = {file.loop.name: file.loop for file in reports}
    missed = [
        (name, each)
        for name, loop in loops.items()
        for each in never_taken(
            loop, [r for f in reports if f.loop.name == name for r in f.reports]
        )
    ]
    return Results(tuple(reports), tuple(missed if word is None else ()))


def _show(results: Results, args: TestArgs) -> None:
    """Print the results."""
    style = style_for(sys.stdout, args.color)
    width = max((len(file.path) for file in results.files if file.reports), default=0)
    if not args.quiet:
        for file in results.files:
            if file.reports:
                say(dots(file, width))
    for line in failures(results, style):
        say(line)
    if not args.quiet or args.require_coverage:
        for line in coverage(results, style):
            say(line)
    last = summary(results, require_coverage=args.require_coverage)
    say(f"\n{last}" if not args.quiet else last)
