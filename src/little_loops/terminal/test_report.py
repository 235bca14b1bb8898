"""What `ll-loop test` prints: a dot per test, each failure, and transitions that no passing
test takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from xml.sax.saxutils import escape, quoteattr

from little_loops.engine.loop_tests import LoopTestResult, TakenTransition, Unmet
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.terminal.tables import Style

ANY_STATES = "..."
CONTEXT = 3
"""How many states of a long path to show before the first difference."""
EVERY_TRANSITION = "every transition is covered"


class FileReport(NamedTuple):
    """The results of one test file."""

    path: str
    loop: FSMLoop
    reports: tuple[LoopTestResult, ...]


class Results(NamedTuple):
    """The results of all test files, each loop's transitions that no passing test takes, and the
    loops that have no tests."""

    files: tuple[FileReport, ...]
    never_taken: tuple[tuple[str, TakenTransition], ...]
    untested: tuple[str, ...] = ()

    @property
    def reports(self) -> list[LoopTestResult]:
        return [report for file in self.files for report in file.reports]

    @property
    def failed(self) -> int:
        return sum(not report.passed for report in self.reports)


def dots(file: FileReport, width: int) -> str:
    """Return the line of a file: its name, and a character for each test."""
    marks = "".join("." if report.passed else "F" for report in file.reports)
    return f"{visible(file.path):<{width}}  {marks}"


def failures(results: Results, style: Style) -> Iterator[str]:
    """Yield a blank line and the lines of a report for each test that failed."""
    for file in results.files:
        for report in file.reports:
            if not report.passed:
                yield ""
                yield from _failure(file, report, style)


def _failure(file: FileReport, report: LoopTestResult, style: Style) -> Iterator[str]:
    """Yield the lines about a failed test: name, place, differences and further messages."""
    title = f"{file.loop.name}: {visible(report.test.name, newlines=False)}"
    yield style.tinted(f"{style.signs.bad} {title}")
    line = report.test.place.line if report.test.place is not None else 1
    yield f"  --> {visible(file.path)}:{line}"
    for difference in report.differences:
        yield from _difference(difference, style)
    for text in (report.problem, report.differences and report.message):
        if text:
            yield f"  {visible(text, newlines=False)}"


def _difference(difference: Unmet, style: Style) -> Iterator[str]:
    """Yield the lines about one value, or about the path, that was not the expected one."""
    what, expected, got = difference
    if what == "path":
        yield from _paths(expected, got, style)  # type: ignore[arg-type]
        return
    yield f"  {what}: expected {_value(expected)}, got {_value(got)}"


def _paths(expected: Sequence[str], got: Sequence[str], style: Style) -> Iterator[str]:
    """Yield both paths, from shortly before their first difference, with a caret below it."""
    at = _first_difference(expected, got)
    begin = max(0, at - CONTEXT)
    arrow = f" {style.signs.to} "
    yield f"  path: expected {_path_text(expected, begin, arrow)}"
    yield f"             got {_path_text(got, begin, arrow)}"
    before = arrow.join([*(["..."] if begin else []), *got[begin:at], ""])
    yield f"                 {' ' * len(before)}^"


def _first_difference(expected: Sequence[str], got: Sequence[str]) -> int:
    """Return the index of the first state that differs; the length if the paths are equal."""
    for at, (wanted, state) in enumerate(zip_longest(expected, got)):
        if wanted != state:
            return at
    return len(got)


def _path_text(path: Sequence[str], begin: int, arrow: str) -> str:
    return arrow.join([*(["..."] if begin else []), *path[begin:]]) or "nothing"


def _value(value: object) -> str:
    """Format a value: strings in backticks, tuples separated by commas, None as `nothing`."""
    match value:
        case None:
            return "nothing"
        case str():
            return f"`{visible(value, newlines=False)}`"
        case tuple():
            return ", ".join(map(_value, value)) or "none"
        case _:
            return str(value)


def coverage(results: Results, style: Style) -> Iterator[str]:
    """Yield the lines about transitions that no passing test takes, and about loops without tests;
    nothing if there are none."""
    if results.never_taken:
        yield ""
        yield "Transitions not covered by any passing test:"
    for loop, missed in results.never_taken:
        yield f"  {loop}: {_transition(missed, style)}"
    if results.untested:
        yield ""
        yield "Loops without tests:"
    for name in results.untested:
        yield f"  {visible(name, newlines=False)}"


def _transition(taken: TakenTransition, style: Style) -> str:
    state, field, target = taken
    return f"{state} {style.signs.to} {target} ({field})"


def summary(results: Results, *, require_coverage: bool = False) -> str:
    """Return the last line: how many tests passed and failed, and what is not covered if that
    counts as a failure."""
    count, failed = len(results.reports), results.failed
    tests = f"{count} {'test' if count == 1 else 'tests'}"
    lacks = _lacks(results) if require_coverage else ""
    return (
        f"{tests}: {count - failed} passed"
        + (f", {failed} failed" if failed else "")
        + (f"; {lacks} (--require-coverage)" if lacks else "")
    )


def _lacks(results: Results) -> str:
    """Return how much is not covered; empty if everything is."""
    missed, untested = len(results.never_taken), len(results.untested)
    transitions = f"{missed} transition{'' if missed == 1 else 's'} not covered"
    loops = f"{untested} loop{'' if untested == 1 else 's'} without tests"
    return ", ".join([*([transitions] if missed else []), *([loops] if untested else [])])


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def document(results: Results) -> dict[str, Any]:
    """Return the results as JSON data."""
    return {
        "schema": 1,
        "passed": len(results.reports) - results.failed,
        "failed": results.failed,
        "tests": [_as_dict(file, report) for file in results.files for report in file.reports],
        "never_taken": [
            {"loop": loop, "state": each.state, "field": each.field, "target": each.target}
            for loop, each in results.never_taken
        ],
        "untested": list(results.untested),
    }


def _as_dict(file: FileReport, report: LoopTestResult) -> dict[str, Any]:
    """Return the result of one test as JSON data; the line is 1 if its place is unknown."""
    place = report.test.place
    return {
        "loop": file.loop.name,
        "name": report.test.name,
        "file": file.path,
        "line": 1 if place is None else place.line,
        "passed": report.passed,
        "differences": [each._asdict() for each in report.differences],
        "problem": report.problem,
    }


class _Case(NamedTuple):
    """A `testcase` element of JUnit; `why` says what failed, and is None if nothing did."""

    loop: str
    name: str
    why: str | None


def junit(results: Results, *, require_coverage: bool = False) -> str:
    """Return the results as JUnit's XML, which CI systems read. With `require_coverage`, each loop
    has one more test: that its tests take every transition."""
    suites = [(file.path, [_case(file, each) for each in file.reports]) for file in results.files]
    if require_coverage:
        suites.append(("--require-coverage", list(_coverage_cases(results))))
    every = [case for _, cases in suites for case in cases]
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f"<testsuites {_counts(every)}>",
    ]
    for name, cases in suites:
        lines.append(f"  <testsuite name={quoteattr(_xml(name))} {_counts(cases)}>")
        lines += map(_element, cases)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _counts(cases: Sequence[_Case]) -> str:
    return f'tests="{len(cases)}" failures="{sum(case.why is not None for case in cases)}"'


def _case(file: FileReport, report: LoopTestResult) -> _Case:
    """Return one test, with what failed."""
    why = [line for each in report.differences for line in _difference(each, Style())]
    text = "\n".join([*why, *([report.problem] if report.problem else [])])
    return _Case(file.loop.name, report.test.name, None if report.passed else text)


def _coverage_cases(results: Results) -> Iterator[_Case]:
    """Yield for each loop whether its tests take every transition."""
    for name in dict.fromkeys(file.loop.name for file in results.files):
        missed = [_transition(each, Style()) for loop, each in results.never_taken if loop == name]
        why = "\n".join(["not covered by any passing test:", *missed]) if missed else None
        yield _Case(name, EVERY_TRANSITION, why)
    for name in results.untested:
        yield _Case(name, EVERY_TRANSITION, "the loop has no tests")


def _element(case: _Case) -> str:
    """Return the `testcase` element of one test."""
    name, loop = quoteattr(_xml(case.name)), quoteattr(_xml(case.loop))
    start = f"    <testcase classname={loop} name={name}"
    if case.why is None:
        return f"{start}/>"
    return f"{start}>\n      <failure>{escape(_xml(case.why))}</failure>\n    </testcase>"


def _xml(text: str) -> str:
    """Escape what XML cannot contain at all."""
    return visible(text)
