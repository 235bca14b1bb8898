"""`ll-loop init`: examine the project, offer loops that fit it, and write one.

The text is checked like any other loop file before it is written, and no existing file is ever
overwritten. The JSON Schema that its first line names is written beside the loop: both are meant to
be committed, so that every editor knows the format after a clone.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from little_loops.authoring.load import load
from little_loops.authoring.loop_tests import first_tests
from little_loops.cli.options import Args, count, flag, value
from little_loops.cli.setup.detect import DetectedCheck, DetectedProject, read_environment
from little_loops.cli.setup.init_evidence import (
    NOTHING,
    Written,
    configuration,
    evidence_for,
    protected,
)
from little_loops.cli.setup.python_sources import PATH, SOURCES, with_sources_on_path
from little_loops.definitions.loading import name_of, shown_path
from little_loops.definitions.loop_templates import TEMPLATES
from little_loops.errors import OK, UsageError
from little_loops.reporting.escape import visible
from little_loops.runs.folders import make_folder
from little_loops.runs.layout import RUNNING
from little_loops.runs.project import (
    LOOPS,
    SUFFIXES,
    TEST_SUFFIXES,
    TESTS,
    files_named,
    find_project,
    loop_files,
    loops_of,
)
from little_loops.system.files import failure
from little_loops.system.plain_files import read_plain
from little_loops.terminal.console import ascii_only, can_ask, say, talk
from little_loops.trees.repository_files import repository_of

PROBE_S = 5.0
SCHEMA = ".schema.json"
IGNORE = ".gitignore"
MODELINE = f"yaml-language-server: $schema=./{SCHEMA}"
EXAMPLES = (
    ("ll-loop init", "look at the project and choose"),
    ("ll-loop init --yes", "write the loop that fits best"),
    ("ll-loop init --template lint", "write this one"),
    ("ll-loop init --no-try", "do not run the check first"),
)


TEMPLATE_FILES = os.path.join(os.path.dirname(__file__), "templates")

# Other names for the templates, including those of the loops.
ALSO = {
    "tests-green": "tests",
    "lint-clean": "lint",
    "types-to-zero": "types",
    **{template.loop: name for name, template in TEMPLATES.items()},
}


def _template(word: str) -> str:
    """Return the name of a template for any of its names."""
    return ALSO.get(word, word)


class InitArgs(
    Args, verb="init", summary="Create a first loop for this project.", examples=EXAMPLES
):
    template: str | None = value(
        f"which loop to write: {', '.join(TEMPLATES)}",
        metavar="NAME",
        convert=_template,
        choices=tuple(TEMPLATES),
    )
    yes: bool = flag("do not ask; write the loop that fits best", "-y")
    no_try: bool = flag("do not try the check first (by default, it is tried for at most 60 s)")
    quiet: int = count("print only the files written", "-q")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop init`: write a loop and the files beside it, and return 0.

    Raises `UsageError` if nobody can be asked which one, or if it exists already.
    """
    args = InitArgs.read(argv)
    root = find_project(os.getcwd())
    found = read_environment(root, shutil.which, has_module)
    if not args.quiet:
        _show_found(found)
    name = args.template or _choose(found, root, yes=args.yes)
    template = TEMPLATES[name]
    _check_free(template.loop, root)
    written, warnings = NOTHING, list[str]()
    if name == "tests" and found.checks.tests is not None:
        tests = with_sources_on_path(found.checks.tests, root, os.environ, can_import)
        found = found._replace(checks=found.checks._replace(tests=tests.check))
        warnings += [tests.warning] if tests.warning else []
        if tests.installed and not tests.warning and not args.quiet:
            talk(
                f"`{tests.installed}` is a copy of this project: with {PATH.strip()} the tests use yours"
            )
    check = _check_of(name, found)
    if check is not None:
        written = _evidence(name, check, root, args)
    if written.cannot_run:
        left_out = " (`clean: true` is left out)" if found.has_git else ""
        what = "tests" if name == "tests" else "check"
        warnings.append(f"the {what} cannot run yet: {written.cannot_run}{left_out}")
    text = render_loop(name, found, written)
    _check_valid(text, template.loop)
    new = {shown_path(path): why for path, why in write(root, template.loop, text).items()}
    width = max(map(len, new))
    tests_of_loop = write_tests(root, template.loop, render_tests(name, found))
    new |= {shown_path(path): why for path, why in tests_of_loop.items()}
    for path, why in new.items():
        say(f"wrote {path:<{width}}   ({why})")
    if not args.quiet:
        for warning in [*warnings, *_warnings(name, found)]:
            talk(f"warning: {warning}")
        talk(f"next: {_next_step(name, found, written)}")
    return OK


def _evidence(name: str, check: DetectedCheck, root: str, args: InitArgs) -> Written:
    """Return what to write about evidence: protected files in git; a clean copy if it works."""
    in_git = repository_of(root) is not None
    protect = (protected(root) if name == "tests" else configuration(root)) if in_git else ()
    if not check.is_installed or check.counts or not _may_try(check, args):
        return Written(protect)
    return evidence_for(check, root, protect, quiet=bool(args.quiet))


def _may_try(check: DetectedCheck, args: InitArgs) -> bool:
    """Return whether to try the check.

    False with `--no-try`. At a terminal, and without `--yes`, the user is asked.
    """
    if args.no_try or args.yes or not can_ask():
        return not args.no_try
    sys.stderr.write(
        f"The check is `{visible(check.command, newlines=False)}`.\n"
        "Try it now, for at most 60 s? [Y/n] "
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _warnings(name: str, found: DetectedProject) -> Iterator[str]:
    """Yield a warning for each program that the loop needs and that is not installed."""
    check = _check_of(name, found)
    if check is not None and not check.is_installed:
        yield f"{check.program} is not installed; install it before you run the loop"
    if TEMPLATES[name].needs_agent and not found.agents:
        yield "no agent CLI found on PATH; install `claude`, or set `host` to the agent CLI you use"


# ── examining the project ──────────────────────────────────────────────────────────────────────────────


def has_module(python: str, module: str) -> bool:
    """Return whether a Python has a module; the module itself is not imported.

    False if the Python cannot be run or takes too long.
    """
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    # Not in the project, where a directory of that name would count as a module.
    return _exits_with_0(os.path.abspath(python), code, "/", os.environ)


def can_import(root: str, python: str, package: str) -> bool:
    """Return whether a Python imports a package from the project's own files, by importing it.

    False if that fails or takes too long.
    """
    program = os.path.join(root, python) if "/" in python else python
    environ = {**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
    return _exits_with_0(program, f"import {package}", root, environ)


def _exits_with_0(python: str, code: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Return whether a Python runs this code successfully within `PROBE_S`."""
    import subprocess  # only for projects in Python

    try:
        done = subprocess.run(
            [python, "-c", code],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _show_found(found: DetectedProject) -> None:
    """Print what was found in the project, and what its checks need but is not installed."""
    talk(f"Found: {in_words(found, '-' if ascii_only(sys.stderr) else '·')}")
    missing = [check.program for check in found.checks if check and not check.is_installed]
    if missing:
        talk(f"Not installed: {', '.join(dict.fromkeys(missing))}")


def in_words(found: DetectedProject, dot: str) -> str:
    """Describe what was found: `python (pyproject.toml), pytest, ruff · git · claude`."""
    seen = [f"{language.name} ({language.seen_by})" for language in found.languages]
    seen += [check.tool for check in found.checks if check is not None and check.is_installed]
    parts = [", ".join(seen) or "no project files"]
    parts += ["git"] if found.has_git else []
    parts.append(", ".join(found.agents) or "no agent CLI")
    return f" {dot} ".join(parts)


def fitting(found: DetectedProject) -> list[str]:
    """Return the templates for this project, the best first, those with missing tools last."""
    known = [(name, check) for name, check in found.checks._asdict().items() if check is not None]
    known.sort(key=lambda each: not each[1].is_installed)
    first = [name for name, _ in known] or ["empty"]
    return [*first, *(name for name in ("relay", "deploy", "empty") if name not in first)]


# ── choosing ───────────────────────────────────────────────────────────────────────────────────


def _choose(found: DetectedProject, root: str, *, yes: bool) -> str:
    """Return the template to write: the best, or the one that the user chooses.

    Raises `UsageError` if the user cannot be asked, or does not answer.
    """
    names = fitting(found)
    if yes:
        return names[0]
    if not can_ask():
        raise UsageError(
            "cannot ask which loop to write, because there is no terminal",
            f"`--yes` writes `{names[0]}`; `--template NAME` writes one of: {', '.join(names)}",
        )
    return _ask(names, found, root)


def _ask(names: Sequence[str], found: DetectedProject, root: str) -> str:
    """Ask the user which template to write, until the answer is valid.

    Raises `UsageError` at the end of the input.
    """
    talk("Which loop first?")
    for number, name in enumerate(names, 1):
        check = _check_of(name, found)
        beside = "already exists" if files_of(TEMPLATES[name].loop, root) else ""
        beside = beside or ("" if check is None else _command_of(check))
        talk(f"  {number}) {TEMPLATES[name].title:<30}{beside}".rstrip())
    while True:
        sys.stderr.write("[1] ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise UsageError("no loop was chosen; nothing was written")
        word = line.strip() or "1"
        if word in names:
            return word
        if word.isascii() and word.isdigit() and 1 <= int(word) <= len(names):
            return names[int(word) - 1]
        talk(f"enter a number from 1 to {len(names)}")


def _command_of(check: DetectedCheck) -> str:
    return check.command if check.is_installed else f"{check.command}   (not installed)"


def _check_of(name: str, found: DetectedProject) -> DetectedCheck | None:
    check: DetectedCheck | None = getattr(found.checks, name, None)
    return check


def _next_step(name: str, found: DetectedProject, written: Written) -> str:
    """Return the hint about what to do next."""
    template = TEMPLATES[name]
    what = "tests" if name == "tests" else "check"
    before = f"make the {what} run" if written.cannot_run else template.first
    if name in found.checks._fields and _check_of(name, found) is None:
        before = f"put your command into {os.path.join(LOOPS, template.loop + SUFFIXES[0])}"
    run = f"ll-loop run {template.loop} --dry-run"
    return f"{before}, then {run}" if before else run


# ── filling in ─────────────────────────────────────────────────────────────────────────────────


def render_loop(name: str, found: DetectedProject, evidence: Written = NOTHING) -> str:
    """Return the text of a loop file for this project."""
    check = _check_of(name, found) or _placeholder_check(name)
    by_exit = name == "types" and _check_of(name, found) is not None and not check.counts
    path = os.path.join(TEMPLATE_FILES, _file(name, by_exit=by_exit))
    text = read_plain(path).decode()
    tests = found.checks.tests
    return fill(
        text,
        {
            "check": check.script,
            "command": check.command,
            "fails": ", ".join(map(str, check.fails)),
            "test": "make test" if tests is None else tests.command,
            "evidence": evidence.lines,
            "rule": evidence.rule,
            # The default host comes from the settings.
            "host": "host: codex" if found.agents == ("codex",) else "",
        },
    )


def render_tests(name: str, found: DetectedProject) -> str:
    """Return the text of a test file for the loop of a template."""
    check = _check_of(name, found) or _placeholder_check(name)
    by_exit = name == "types" and _check_of(name, found) is not None and not check.counts
    if name in ("tests", "lint") or by_exit:
        return first_tests(TEMPLATES[name].loop, check.fails[0])
    return read_plain(os.path.join(TEMPLATE_FILES, name + TEST_SUFFIXES[0])).decode()


def _file(name: str, *, by_exit: bool) -> str:
    return f"{name}_by_exit.yaml" if by_exit else f"{name}.yaml"


def _placeholder_check(name: str) -> DetectedCheck:
    """Return a check that fails until the user has written a command."""
    script = f"echo 'FATAL_ERROR: put the command for {name} into this file first'"
    return DetectedCheck("", f"(your command for {name})", script)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `@name@` by its value; alone on a line, it may have several lines or none."""
    lines: list[str] = []
    for line in text.splitlines():
        name = line.strip().strip("@")
        if line.strip() == f"@{name}@" and name in values:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + each for each in values[name].splitlines()]
            continue
        for name, text in values.items():
            line = line.replace(f"@{name}@", text)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _check_valid(text: str, loop: str) -> None:
    definition = load(text, f"{loop}.yaml", loop)
    assert definition.loop is not None, definition.problems


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def files_of(loop: str, root: str) -> tuple[str, ...]:
    """Return the files that already define a loop of that name."""
    stems = [path for path in loop_files(root) if os.path.basename(path) in _file_names(loop)]
    return tuple(dict.fromkeys([*stems, *files_named(loop, root, name_of)]))


def _file_names(loop: str) -> tuple[str, ...]:
    return tuple(loop + suffix for suffix in SUFFIXES)


def _check_free(loop: str, root: str) -> None:
    """Raise `UsageError` if a loop of that name exists."""
    existing = files_of(loop, root)
    if existing:
        listed = ", ".join(f"`{shown_path(path)}`" for path in existing)
        raise UsageError(
            f"the loop `{loop}` already exists: {listed}",
            "files are never overwritten; rename the file, or write a different loop: "
            f"`--template NAME` with one of {', '.join(TEMPLATES)}",
        )


def write(root: str, loop: str, text: str) -> dict[str, str]:
    """Write the loop and the files beside it. Return the new files with their purpose.

    Existing files beside it are kept; if the loop's file exists, raises `UsageError`.
    """
    folder = os.path.join(root, LOOPS)
    path = os.path.join(folder, loop + SUFFIXES[0])
    beside = {
        os.path.join(folder, SCHEMA): "for your editor; commit it",
        os.path.join(folder, IGNORE): "keeps runs out of git",
    }
    new = {each: why for each, why in beside.items() if not os.path.lexists(each)}
    make_folder(root, RUNNING).close()  # also creates the .gitignore
    _write_new(path, text)
    if os.path.join(folder, SCHEMA) in new:
        _write_new(os.path.join(folder, SCHEMA), _schema())
    return {path: "valid; its first line is for your editor", **new}


def write_tests(root: str, loop: str, text: str) -> dict[str, str]:
    """Write tests of a new loop, unless there are some. Return the new file and what it is."""
    path = os.path.join(root, loops_of(root), TESTS, loop + TEST_SUFFIXES[0])
    if os.path.lexists(path):
        return {}
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise failure(error, "write", path) from error
    _write_new(path, text)
    return {path: "its tests, for `ll-loop test`"}


def _write_new(path: str, text: str) -> None:
    """Create a file, and do not leave it behind incomplete; raise `UsageError` if it exists."""
    try:
        with open(path, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(
            f"`{shown_path(path)}` already exists", "files are never overwritten"
        ) from None
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)
        raise failure(error, "write", path) from error


def _schema() -> str:
    """Return the JSON Schema of loop files, on one line."""
    import json  # only the first loop of a project needs it

    from little_loops.authoring.fields.schema_json import schema

    return json.dumps(schema(), separators=(",", ":")) + "\n"
