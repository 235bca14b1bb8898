"""The entry point: find the verb (also an alias or a mistyped one), load its module, and turn errors
into messages and exit codes.

Verbs are dispatched by hand, so that `ll-loop --help` and `ll-loop status` load nothing else.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from little_loops.cli.commands import ALIASES, HIDDEN, VERBS, help_page
from little_loops.errors import (
    FAILED,
    INTERNAL,
    OK,
    SIGNALLED,
    LittleLoopsError,
    UnknownLoop,
    UsageError,
)
from little_loops.light_modules import import_module

SIGINT = 2
NOT_ON_A_FLEET = ("attach", "fork", "undo", "until")
CONSOLE = "little_loops.terminal.console"


def process() -> None:
    """Run `ll-loop` as a process, and exit."""
    code = main()
    try:
        sys.stdout.flush()  # output from before an error
    except OSError:
        code = code or FAILED
    # Finalising the interpreter takes 5 ms, a sixth of `status`, and nothing is left to do.
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Return its exit code; errors are printed."""
    words = list(sys.argv[1:] if argv is None else argv)
    _replace_closed_streams()
    _note_color(words)
    try:
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except LittleLoopsError as error:
        return _report(error, json_wanted="--json" in words)
    except KeyboardInterrupt:
        return SIGNALLED + SIGINT
    except BrokenPipeError:
        # The reader is gone, which is not an error; nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:  # of the system, not of ours: a full disk, too many open files
        _talk(f"error: {error.strerror or error}")
        return FAILED
    except Exception as bug:
        return _report_bug(bug)


def _note_color(words: list[str]) -> None:
    """Tell the console about `--color`, which also applies to errors; load it only if needed."""
    if CONSOLE in sys.modules or any(word.startswith("--color") for word in words):
        from little_loops.terminal.console import note_color

        note_color(words)


def _replace_closed_streams() -> None:
    """Replace standard streams that `>&-` or `<&-` closed by /dev/null."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def dispatch(words: list[str]) -> int:
    """Find the verb of a command line and run it. Return its exit code."""
    first = words[0] if words else "--help"
    if first in ("-h", "--help") or words == ["help"]:
        _print_help()
        return OK
    if first in ("--version", "-V") or words == ["version"]:
        from little_loops import __version__

        sys.stdout.write(f"ll-loop {__version__}\n")
        _warn_of_impostor()
        return OK
    if first in ALIASES:
        words = [*ALIASES[first], *words[1:]]
    elif first == "help":
        words = ["topics", *words[1:]] if words[1] not in VERBS else [words[1], "--help"]
    return _page(words)


def _warn_of_impostor() -> None:
    """Print a warning if another distribution with the same command is installed here."""
    from little_loops.cli.setup.impostor import impostor_version  # only where versions are shown

    if (version := impostor_version()) is not None:
        _talk(
            f"warning: the unrelated package `little-loops` {version} is installed in the same"
            " environment and also provides an `ll-loop` command\n"
            "   = help: uninstall both packages, then run `pipx install .` in a clone of the ll-loop repository"
        )


def _print_help() -> None:
    """Print the help page, folded and coloured on a terminal."""
    forced = CONSOLE in sys.modules or {"FORCE_COLOR", "CLICOLOR_FORCE"} & os.environ.keys()
    if not forced and not sys.stdout.isatty():
        sys.stdout.write(help_page())
        return
    from little_loops.terminal import paint  # only a terminal may be too narrow, or have colours
    from little_loops.terminal.console import say

    say(help_page().rstrip("\n"), paint.help_page)


def _page(words: list[str]) -> int:
    """Run the module of a verb; anything that is not a verb is the name of a loop."""
    verb, rest = _verb_first(words)
    if verb in NOT_ON_A_FLEET and any(word.startswith("--fleet") for word in rest):
        raise UsageError(f"`ll-loop {verb}` works on this computer only, not on a fleet")
    if verb in VERBS:
        name = VERBS[verb].module
        if VERBS[verb].is_new:
            _refuse_if_ambiguous(verb, rest)
    elif verb in HIDDEN:
        name = HIDDEN[verb]
    elif verb == "topics":
        name = "topics"
    else:
        return _run_by_name(words)
    return _load_and_call(name, rest)


def _refuse_if_ambiguous(verb: str, rest: list[str]) -> None:
    """Raise `UsageError` if a new verb is also a loop, which `ll-loop WORD` ran before."""
    if any(not word.startswith("-") or word in ("-h", "--help") for word in rest):
        return
    from little_loops.runs.project import find_project, loop_files  # no YAML is read for it

    stems = (
        os.path.splitext(os.path.basename(path))[0]
        for path in loop_files(find_project(os.getcwd()))
    )
    if verb in stems:
        raise UsageError(
            f"`{verb}` is both a command of ll-loop and a loop in this project",
            f"`ll-loop run {verb}` runs the loop; `ll-loop {verb} --help` shows help on the command",
        )


def _run_by_name(words: list[str]) -> int:
    """Run the loop `ll-loop NAME`; suggest a verb if the word looks like a mistyped one."""
    operands = [word for word in words if not word.startswith("-")]
    if not operands:
        raise UsageError(f"unknown option `{words[0]}`", "see `ll-loop --help`")
    suggestion = _verb_meant(words[0])
    if suggestion and len(operands) > 1:
        raise UsageError(f"unknown command `{words[0]}`", f"did you mean `{suggestion}`?")
    try:
        return _load_and_call("run", words)
    except UnknownLoop as error:
        if suggestion:
            error.help = f"did you mean `{suggestion}`? {error.help}"
        raise


def _verb_meant(word: str) -> str | None:
    """Return the command with the verb that was probably meant; None if none is similar."""
    if word.startswith("-") or not word.isalpha():
        return None
    from little_loops.authoring.messages import suggest  # only needed for an unknown verb

    verb = suggest(word, VERBS)
    return None if verb is None else f"ll-loop {verb}"


def _load_and_call(name: str, rest: list[str]) -> int:
    """Import the module of a verb and run it."""
    # Imported objects are never freed, so searching them for garbage would waste 3 % of a start.
    gc.disable()
    page = import_module(f"little_loops.cli.{name}")
    gc.freeze()
    gc.enable()
    return int(page.main(rest))


def _verb_first(words: list[str]) -> tuple[str, list[str]]:
    """Return the verb, and the other words: `ll-loop -q run x` means `ll-loop run x -q`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--color" else 1
    if at >= len(words) or words[at] not in VERBS:
        at = 0
    return words[at], words[:at] + words[at + 1 :]


def _report(error: LittleLoopsError, *, json_wanted: bool) -> int:
    """Print an error, and return its exit code."""
    from little_loops.terminal.console import report_error

    report_error(error, json_wanted=json_wanted)
    return error.exit_code


def _report_bug(bug: Exception) -> int:
    """Print that this is a bug, or raise it with LL_TRACEBACK. Return the exit code."""
    if os.environ.get("LL_TRACEBACK"):
        raise bug
    from little_loops.reporting.escape import visible  # of no use to a command that works

    what = visible(f"{type(bug).__name__}: {bug}".splitlines()[0])
    _talk(
        f"error: this is a bug in ll-loop: {what}\n"
        "   = help: LL_TRACEBACK=1 shows where; please report it"
    )
    return INTERNAL


def _talk(text: str) -> None:
    from little_loops.terminal.console import talk  # of no use to a command that works

    talk(text)
