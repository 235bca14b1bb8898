"""`ll-loop completion`: scripts for bash, zsh and fish, and the candidates they need on TAB.

The scripts run `ll-loop completion words -- WORD…` while the user waits. So names of loops and runs
come from file names, without reading YAML or options; for a run, only its `run.json` is read, for
its states.

Not here: the scripts (`completion_scripts`), the candidates (`completion_words`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from little_loops.cli.options import Args, flag, operand
from little_loops.errors import OK, UsageError
from little_loops.runs.layout import DATA, HISTORY, INDEX, PID, RUNNING, STATE, RunFiles, named
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
    install: bool = flag("install it where the shell looks for it")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop completion`: print or install a script, or print candidates. Return 0."""
    if argv[:1] == [ASK]:
        return _print_candidates(argv[1:])
    args = CompletionArgs.read(argv)
    from little_loops.cli.completion_scripts import SCRIPTS  # not needed on TAB

    text = SCRIPTS[args.shell]
    if args.install:
        return _install(args.shell, text, os.environ)
    sys.stdout.write(text)
    return OK


# ── names ──────────────────────────────────────────────────────────────────────────────────────


def _print_candidates(words: Sequence[str]) -> int:
    """Print one candidate per line, with its description; never print an error."""
    from little_loops.cli.completion_words import candidates  # a script needs none

    try:
        found = list(candidates(words[1:], find_project(os.getcwd())))
    except (OSError, ValueError, LookupError):
        return OK
    sys.stdout.write("".join(f"{word}\t{text}\n" if text else f"{word}\n" for word, text in found))
    return OK


def names(kind: str, root: str, argument: str = "") -> Iterator[str]:
    """Yield names of a kind: `loops`, `live` (runs with a process), `runs` (that can be resumed),
    `all`, `states`.

    `argument` is the run whose states are wanted.
    """
    if kind in ("loops", "all"):
        stems = (os.path.splitext(os.path.basename(path))[0] for path in loop_files(root))
        yield from (stem for stem in stems if is_loop_name(stem))
    if kind in ("live", "all"):
        yield from named(_listed(root, RUNNING), PID)
    if kind in ("runs", "all"):
        yield from named(_listed(root, RUNNING), STATE)
        past = (name for name in _listed(root, HISTORY) if name != INDEX)
        yield from (name for name in past if is_run_name(name))
    if kind == "states" and is_run_name(argument):
        yield from _states(root, argument)


def _listed(root: str, *below: str) -> list[str]:
    """Return the sorted names in a directory below `.loops`; [] if it cannot be read."""
    try:
        return sorted(os.listdir(os.path.join(root, LOOPS, *below)))
    except OSError:
        return []


def _states(root: str, run: str) -> Iterator[str]:
    """Yield the states of the newest run of that name."""
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
    """Return where a shell looks for its user's completions."""
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
    """Write the script to where the shell finds it, and print where. Return 0.

    Raises `UsageError` if another file is there, or it cannot be written.
    """
    from little_loops.cli.completion_scripts import MARK  # not needed on TAB
    from little_loops.terminal.console import say, talk

    path = place_of(shell, environ)
    if os.path.lexists(path) and not _is_ours(path, MARK):
        raise UsageError(
            f"`{path}` was not written by ll-loop", "move it out of the way, then install it again"
        )
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
    """Return whether we wrote the file."""
    try:
        return mark.encode() in read_plain(path, 400)
    except OSError:
        return False
