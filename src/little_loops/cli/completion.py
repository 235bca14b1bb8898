"""`ll-loop completion`: scripts for bash, zsh and fish, and the words they ask for on TAB.

The scripts ask `ll-loop completion words -- WORD…` while somebody waits.  So names of loops and
runs are answered from the names of files, without YAML and without reading options; of a run only
its `run.json` is read, for the states it has.

Not here: the scripts (`completion_scripts`), what may come next (`completion_words`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from little_loops.cli.options import Args, flag, operand
from little_loops.errors import OK, UsageError
from little_loops.runs.layout import DATA, HISTORY, PID, RUNNING, STATE, RunFiles, named
from little_loops.runs.project import (
    LOOPS,
    find_project,
    is_loop_name,
    is_run_name,
    loop_files,
)
from little_loops.system.plain_files import read_plain

SHELLS = ("bash", "zsh", "fish")
ASK = "words"
MAX_BYTES = 16 << 20
STATE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
EXAMPLES = (
    ('eval "$(ll-loop completion bash)"', "for this shell"),
    ("ll-loop completion bash --install", "for every new shell"),
    ("ll-loop completion fish | source", ""),
)


class CompletionArgs(
    Args, verb="completion", summary="Print a completion script for your shell.", examples=EXAMPLES
):
    shell: str = operand("your shell", choices=SHELLS)
    install: bool = flag("install it where the shell finds it")


def main(argv: Sequence[str]) -> int:
    if argv[:1] == [ASK]:
        return _answer(argv[1:])
    args = CompletionArgs.read(argv)
    from little_loops.cli.completion_scripts import SCRIPTS  # TAB must not wait for it

    text = SCRIPTS[args.shell]
    if args.install:
        return _install(args.shell, text, os.environ)
    sys.stdout.write(text)
    return OK


# ── names ──────────────────────────────────────────────────────────────────────────────────────


def _answer(words: Sequence[str]) -> int:
    """One candidate a line, with its description.  Whatever goes wrong, a TAB prints no error."""
    from little_loops.cli.completion_words import candidates  # a script needs none

    try:
        found = list(candidates(words[1:], find_project(os.getcwd())))
    except (OSError, ValueError, LookupError):
        return OK
    sys.stdout.write("".join(f"{word}\t{text}\n" if text else f"{word}\n" for word, text in found))
    return OK


def names(kind: str, root: str, argument: str = "") -> Iterator[str]:
    """`loops`, `live` (runs with a process), `runs` (that may be gone on with), `all`, `states`."""
    if kind in ("loops", "all"):
        stems = (os.path.splitext(os.path.basename(path))[0] for path in loop_files(root))
        yield from (stem for stem in stems if is_loop_name(stem))
    if kind in ("live", "all"):
        yield from named(_listed(root, RUNNING), PID)
    if kind in ("runs", "all"):
        yield from named(_listed(root, RUNNING), STATE)
        yield from (name for name in _listed(root, HISTORY) if is_run_name(name))
    if kind == "states" and is_run_name(argument):
        yield from _states(root, argument)


def _listed(root: str, *below: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, LOOPS, *below)))
    except OSError:
        return []


def _states(root: str, run: str) -> Iterator[str]:
    """The states of the newest run of that name, as it was started."""
    import json  # only for states

    past = [file.removesuffix(DATA) for file in _listed(root, HISTORY, run) if file.endswith(DATA)]
    for files in (RunFiles(root, run), *(RunFiles(root, run, stem) for stem in past[-1:])):
        path = files.run_json
        if os.path.isfile(path) and os.path.getsize(path) <= MAX_BYTES:
            states = json.loads(read_plain(path))["loop"]["states"]
            yield from (name for name in states if STATE_NAME.fullmatch(name))
            return


# ── installing ─────────────────────────────────────────────────────────────────────────────────


def place_of(shell: str, environ: Mapping[str, str]) -> str:
    """Where a shell looks for completions of its user."""
    home = environ.get("HOME") or os.path.expanduser("~")
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    own = environ.get("BASH_COMPLETION_USER_DIR") or os.path.join(data, "bash-completion")
    return {
        "bash": os.path.join(own, "completions", "ll-loop"),
        "zsh": os.path.join(data, "zsh", "site-functions", "_ll-loop"),
        "fish": os.path.join(config, "fish", "completions", "ll-loop.fish"),
    }[shell]


def _install(shell: str, text: str, environ: Mapping[str, str]) -> int:
    from little_loops.cli.completion_scripts import MARK  # TAB must not wait for it
    from little_loops.terminal.console import say, talk

    path = place_of(shell, environ)
    if os.path.lexists(path) and not _is_ours(path, MARK):
        raise UsageError(f"`{path}` was not written by ll-loop", "move it away, then install again")
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "x", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error
    say(f"wrote {path}")
    if shell == "zsh":
        folder = os.path.dirname(path)
        talk(f"next: put this before `compinit` in your .zshrc:  fpath=({folder} $fpath)")
    else:
        talk(f"next: start a new {shell}")
    return OK


def _is_ours(path: str, mark: str) -> bool:
    try:
        return mark.encode() in read_plain(path, 400)
    except OSError:
        return False
