"""`ll-loop doctor`: check that everything a run needs is installed, and print what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from little_loops.cli.fleet_choice import FLEET, LOCAL
from little_loops.cli.options import OutputArgs
from little_loops.cli.setup.checkup import PROBE_S, CheckupInputs, CheckupResult, Level, examine
from little_loops.cli.setup.impostor import impostor_version
from little_loops.errors import FAILED, OK
from little_loops.hosts.programs import find_program
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.terminal import paint
from little_loops.terminal.console import print_json, say
from little_loops.terminal.tables import Style, style_for

SIGNS: Mapping[Level, str] = {"ok": "good", "note": "none", "warning": "warn", "problem": "bad"}
TIMED_OUT = 124
# An agent CLI that prints its version should not use the network.
OFFLINE = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


class DoctorArgs(
    OutputArgs,
    verb="doctor",
    summary="Check that everything a run needs is installed and works.\n"
    "Writes nothing, sends no prompts to agents, and does not use the network.",
    examples=[
        ("ll-loop doctor", "exit 1 if there is a problem"),
        ("ll-loop doctor --json", "each check with its id"),
        ("ll-loop doctor --fleet temporal://host:7233", "a fleet and its workers"),
    ],
):
    fleet: str | None = FLEET
    local: bool = LOCAL


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop doctor`. Return 1 if there is a problem, else 0."""
    args = DoctorArgs.read(argv)
    root = find_project(os.getcwd())
    if args.fleet is not None:
        from little_loops.cli.on_fleet import check_fleet  # few users have a fleet

        return check_fleet(args, root, args.fleet)
    inputs = CheckupInputs(
        root=root,
        environ=os.environ,
        which=lambda name: _program(name, root),
        run=version_of,
        euid=os.geteuid(),
        encoding=sys.stdout.encoding or "ascii",
        impostor=impostor_version(),
    )
    findings = examine(inputs)
    if args.json:
        print_json(document(findings))
    elif args.quiet < 2:
        for line in page(findings, style_for(sys.stdout, args.color), only_bad=args.quiet > 0):
            say(line, paint.checkup)
    return FAILED if count(findings, "problem") else OK


def _program(name: str, root: str) -> str | None:
    """Return the program that a run would use; None if only the project itself has it."""
    found = find_program(name, os.environ.get("PATH"), root)
    return None if found.why_not else found.path


def version_of(argv: Sequence[str], within_s: float = PROBE_S) -> tuple[int, str]:
    """Run a program for its version, with a time limit. Return exit code and output.

    The code is 124 if it took too long and was killed, 126 if it could not be started.
    """
    import subprocess  # only for programs that are there

    environ = {**os.environ, **OFFLINE}
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        ) as child:
            try:
                out, _ = child.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                return TIMED_OUT, ""
    except OSError:
        return 126, ""
    return child.returncode, out.decode("utf-8", "replace")


def count(findings: Sequence[CheckupResult], level: Level) -> int:
    return sum(finding.level == level for finding in findings)


def page(findings: Sequence[CheckupResult], style: Style, *, only_bad: bool = False) -> list[str]:
    """Return a line for each finding, with its fix below it, and a summary as the last line.

    Findings that are ok share a line with others of their group. With `only_bad`, only warnings and
    problems are included.
    """
    lines = []
    for group in _grouped(findings):
        if only_bad and group[0].level in ("ok", "note"):
            continue
        text = f" {style.signs.dot} ".join(_text_of(finding) for finding in group)
        sign = getattr(style.signs, SIGNS[group[0].level])
        lines.append(style.tinted(f"{sign} {visible(text, newlines=False)}"))
        lines += [f"    fix: {visible(each.fix, newlines=False)}" for each in group if each.fix]
    return [*lines, summary(findings)]


def _grouped(findings: Sequence[CheckupResult]) -> list[list[CheckupResult]]:
    """Group findings that are ok and belong together on one line."""
    groups: dict[object, list[CheckupResult]] = {}
    for place, finding in enumerate(findings):
        alone = finding.level != "ok" or not finding.together
        groups.setdefault(place if alone else finding.together, []).append(finding)
    return list(groups.values())


def _text_of(finding: CheckupResult) -> str:
    return f"{finding.text}: {finding.cause}" if finding.cause else finding.text


def summary(findings: Sequence[CheckupResult]) -> str:
    """Return the numbers of problems and warnings."""
    problems, warnings = count(findings, "problem"), count(findings, "warning")
    text = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((problems, "problem"), (warnings, "warning"))
        if number
    ]
    return ", ".join(text) or "no problems"


def document(findings: Sequence[CheckupResult]) -> dict[str, object]:
    """Return the findings as JSON data."""
    keys = ("id", "level", "text", "cause", "fix")
    return {
        "schema": 1,
        "checks": [{key: getattr(finding, key) for key in keys} for finding in findings],
        "problems": count(findings, "problem"),
        "warnings": count(findings, "warning"),
    }
