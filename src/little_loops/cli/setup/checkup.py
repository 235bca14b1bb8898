"""The checks of `ll-loop doctor`: does this machine have what a run needs?

Each check is a function of `CheckupInputs` that yields findings. A finding has an id that scripts
can rely on, says what is wrong and why, and what to do about it. Nothing is written, no prompt is
sent to an agent and the network is not used: of an agent CLI, only `--version` is run.

Not here: the project's own runs and loops (`checkup_project`), how it is printed (`doctor`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping

from little_loops import __version__
from little_loops.errors import LittleLoopsError
from little_loops.fsm.schema import FSMLoop
from little_loops.hosts.base import Run, Which
from little_loops.light_typing import Literal
from little_loops.records import NamedTuple
from little_loops.reporting.amounts import GB, MB, size_text

Level = Literal["ok", "note", "warning", "problem"]

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = GB
NO_SPACE = 64 * MB
PROBE_S = 10.0
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "fuse.sshfs", "vboxsf", "afs")
REINSTALL = "reinstall it from its repository, with its dependencies"


class CheckupResult(NamedTuple):
    """The result of a check; findings that are ok and have the same `together` share a line."""

    id: str
    level: Level
    text: str
    cause: str = ""
    fix: str = ""
    together: str = ""


class Loops(NamedTuple):
    """The loop files of a project: the valid loops, and the names of the other files."""

    valid: tuple[FSMLoop, ...] = ()
    invalid: tuple[str, ...] = ()


class CheckupInputs(NamedTuple):
    """What the checks examine; everything that is not a file of the project is passed in."""

    root: str
    environ: Mapping[str, str]
    which: Which
    run: Run
    euid: int
    encoding: str
    loops: Loops = Loops()
    impostor: str | None = None  # the version of another program of our old name


Check = Callable[[CheckupInputs], Iterator[CheckupResult]]


def examine(inputs: CheckupInputs) -> list[CheckupResult]:
    """Run all checks and return their findings, in the order in which they are printed."""
    from little_loops.cli.setup import checkup_project as project  # reads YAML

    inputs = inputs._replace(loops=project.read_loops(inputs))
    checks: tuple[Check, ...] = (
        *(installation, on_path, project.loops, project.tools, project.imports),
        *(project.settings, file_system, space),
        *(project.agents, project.consent, project.runs, history, terminal),
    )
    return [finding for check in checks for finding in _run_check(check, inputs)]


def _run_check(check: Check, inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Run a check; a failure becomes a finding, and the other checks still run."""
    try:
        yield from check(inputs)
    except LittleLoopsError as error:
        yield CheckupResult(check.__name__, "problem", error.message, fix=error.help or "")
    except OSError as error:
        yield CheckupResult(check.__name__, "problem", f"could not check: {error}")


# ── the tool itself ────────────────────────────────────────────────────────────────────────────


def installation(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Check the versions, and that the libraries work."""
    here = "installation"
    yield CheckupResult("version", "ok", f"ll-loop {__version__}", together=here)
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        yield CheckupResult(
            "python", "problem", f"python {version}", "too old", f"python {needed} or newer"
        )
    else:
        yield CheckupResult("python", "ok", f"python {version}", together=here)
    yield from _library("jq", _try_jq, here)
    yield from _library("re2", _try_re2, here)
    yield from _library("psutil", _try_psutil, here)
    yield from _yaml(here)
    if inputs.impostor is not None:
        other = (
            f"the unrelated package little-loops {inputs.impostor} is installed in the same"
            " environment and also provides an `ll-loop` command"
        )
        yield CheckupResult(
            "distribution",
            "warning",
            other,
            fix="uninstall both packages, then run `pipx install .` in a clone of the ll-loop repository",
        )


def _library(name: str, attempt: Callable[[], object], here: str) -> Iterator[CheckupResult]:
    """Report whether a library works, by trying it."""
    try:
        attempt()
    except Exception as error:  # whatever a broken extension module may raise
        yield CheckupResult(name, "problem", f"{name} does not work", str(error), REINSTALL)
    else:
        yield CheckupResult(name, "ok", name, together=here)


def _try_jq() -> None:
    import jq  # each of these is slow, and only tried here

    assert jq.compile(".a").input_value({"a": 1}).first() == 1


def _try_re2() -> None:
    import re2

    assert re2.search("b+", "abbc") is not None


def _try_psutil() -> None:
    import psutil

    assert psutil.pid_exists(os.getpid())


def _yaml(here: str) -> Iterator[CheckupResult]:
    """Report whether PyYAML has its fast C parser."""
    try:
        from yaml._yaml import CParser  # noqa: F401 — whether it is there is the question
    except ImportError as error:
        why = f"reading loop files is about 20 times slower ({error})"
        yield CheckupResult("yaml", "warning", "PyYAML has no C loader", why, REINSTALL)
    else:
        yield CheckupResult("yaml", "ok", "YAML", together=here)


def on_path(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report if the shell would not find `ll-loop`."""
    if inputs.which("ll-loop") is None:
        why = "loop actions can run it, but your shell cannot find it"
        fix = "activate the environment it is installed in, or install it with pipx"
        yield CheckupResult("path", "note", "`ll-loop` is not on PATH", why, fix)


# ── the machine ────────────────────────────────────────────────────────────────────────────────


def file_system(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Check that files can be locked, and that the disk is local."""
    here = "file system"
    place = os.path.join(inputs.root, ".loops")
    if not os.path.isdir(place):
        yield CheckupResult("locks", "note", "file system: not checked", "there is no .loops yet")
        return
    kind = _kind_of_disk(place)
    if kind in NETWORK:
        why = f"{kind} is a network file system, where locks and renames may be unreliable"
        yield CheckupResult(
            "disk", "warning", "the project is not on a local disk", why, "move it to one"
        )
    why_not = _why_no_lock(place)
    if why_not:
        fix = "move the project to a local disk; ll-loop does not run without locks"
        yield CheckupResult("locks", "problem", "files cannot be locked here", why_not, fix)
    else:
        of = f" on {kind}" if kind else ""
        yield CheckupResult("locks", "ok", f"file system: locks work{of}", together=here)


def _why_no_lock(place: str) -> str:
    """Return why locking fails; empty if it works.

    It takes a shared lock on the directory itself, which changes and disturbs nothing.
    """
    from fcntl import LOCK_NB, LOCK_SH, flock  # only needed here

    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return ""  # another process holds it, so locking works
    except OSError as error:
        return (error.strerror or str(error)).lower()
    finally:
        os.close(descriptor)
    return ""


def _kind_of_disk(place: str) -> str:
    """Return the type of the file system; empty if it is not known."""
    place = os.path.realpath(place)
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return ""
    for line in lines:
        mount, _, rest = line.partition(" - ")
        point = mount.split(" ")[4].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, rest.split(" ")[0]
    return kind


def space(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Check the free disk space."""
    seen = os.statvfs(inputs.root)
    free = seen.f_bavail * seen.f_frsize
    text = f"{size_text(free)} of disk space left"
    if free < LITTLE_SPACE:
        level: Level = "problem" if free < NO_SPACE else "warning"
        yield CheckupResult("space", level, text, "runs write logs and output", "free some space")
    else:
        yield CheckupResult("space", "ok", text, together="file system")


def history(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report the size of the history, if there is one; more than 1 GB is a warning."""
    size = sum(_sizes(os.path.join(inputs.root, ".loops", ".history")))
    text = f".loops/.history holds {size_text(size)}"
    if size > GB:
        yield CheckupResult("history", "warning", text, "", "ll-loop history --prune 30d")
    elif size:
        yield CheckupResult("history", "ok", text)


def _sizes(place: str) -> Iterator[int]:
    """Yield the size of each file below a directory; nothing if it does not exist."""
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # gone meanwhile
                continue


def terminal(inputs: CheckupInputs) -> Iterator[CheckupResult]:
    """Report the encoding of the output, and whether it has our symbols."""
    encoding = inputs.encoding.lower()
    if encoding.replace("-", "") in ("utf8", "utf16", "utf32"):
        yield CheckupResult("terminal", "ok", f"output: {encoding}")
    else:
        fix = "LANG=C.UTF-8, or PYTHONIOENCODING=utf-8"
        yield CheckupResult(
            "terminal", "note", f"output: {encoding}", "symbols are shown as words", fix
        )
