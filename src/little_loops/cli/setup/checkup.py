"""What `ll-loop doctor` looks at: is everything there that a run needs, and did one leave a mess?

Each check is a function of a `Patient` that gives findings.  A finding has an id that scripts can
rely on, says what is the matter and why, and what to do about it.  Nothing is written, no agent is
asked anything and nothing goes over the network: of an agent CLI only `--version` is run.

Not here: the project's own runs and loops (`checkup_project`), how it is printed (`doctor`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from little_loops import __version__
from little_loops.errors import LittleLoopsError
from little_loops.fsm.schema import FSMLoop
from little_loops.hosts.base import Run, Which
from little_loops.records import NamedTuple

Level = Literal["ok", "note", "warning", "problem"]

OLDEST_PYTHON = (3, 11)
MB = 1 << 20
GB = 1 << 30
LITTLE_SPACE = GB
NO_SPACE = 64 * MB
PROBE_S = 10.0
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "drvfs", "fuse.sshfs", "vboxsf", "afs")
REINSTALL = "reinstall it from its repository, with its dependencies"


class Finding(NamedTuple):
    """`together`: what is well is told on one line with its like."""

    id: str
    level: Level
    text: str
    cause: str = ""
    fix: str = ""
    together: str = ""


class Loops(NamedTuple):
    """The loop files of a project: the loops that are valid, and the names of the other files."""

    valid: tuple[FSMLoop, ...] = ()
    invalid: tuple[str, ...] = ()


class CheckupInputs(NamedTuple):
    """What is looked at; everything that is not a file of the project is handed in."""

    root: str
    environ: Mapping[str, str]
    which: Which
    run: Run
    euid: int
    encoding: str
    loops: Loops = Loops()
    impostor: str | None = None  # the version of another program of our old name


Check = Callable[[CheckupInputs], Iterator[Finding]]


def examine(patient: CheckupInputs) -> list[Finding]:
    """Everything that is to be said, in the order it is told."""
    from little_loops.cli.setup import checkup_project as project  # reads YAML

    patient = patient._replace(loops=project.read_loops(patient))
    checks: tuple[Check, ...] = (
        *(installation, on_path, project.loops, project.tools, project.imports),
        *(project.settings, file_system, space),
        *(project.agents, project.consent, project.runs, history, terminal),
    )
    return [finding for check in checks for finding in _carefully(check, patient)]


def _carefully(check: Check, patient: CheckupInputs) -> Iterator[Finding]:
    """A check that cannot be made is a finding, and no reason to leave out the others."""
    try:
        yield from check(patient)
    except LittleLoopsError as error:
        yield Finding(check.__name__, "problem", error.message, fix=error.help or "")
    except OSError as error:
        yield Finding(check.__name__, "problem", f"could not check: {error}")


# ── the tool itself ────────────────────────────────────────────────────────────────────────────


def installation(patient: CheckupInputs) -> Iterator[Finding]:
    here = "installation"
    yield Finding("version", "ok", f"ll-loop {__version__}", together=here)
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        yield Finding(
            "python", "problem", f"python {version}", "too old", f"python {needed} or newer"
        )
    else:
        yield Finding("python", "ok", f"python {version}", together=here)
    yield from _library("jq", _try_jq, here)
    yield from _library("re2", _try_re2, here)
    yield from _library("psutil", _try_psutil, here)
    yield from _yaml(here)
    if patient.impostor is not None:
        other = (
            f"the distribution little-loops {patient.impostor} is installed in the same environment"
        )
        yield Finding(
            "distribution",
            "warning",
            other,
            "another program with the same command",
            "uninstall both, then pipx install . in a clone of this one",
        )


def _library(name: str, attempt: Callable[[], object], here: str) -> Iterator[Finding]:
    try:
        attempt()
    except Exception as error:  # whatever a broken extension module may raise
        yield Finding(name, "problem", f"{name} does not work", str(error), REINSTALL)
    else:
        yield Finding(name, "ok", name, together=here)


def _try_jq() -> None:
    import jq  # each of these is slow, and only tried here

    assert jq.compile(".a").input_value({"a": 1}).first() == 1


def _try_re2() -> None:
    import re2

    assert re2.search("b+", "abbc") is not None


def _try_psutil() -> None:
    import psutil

    assert psutil.pid_exists(os.getpid())


def _yaml(here: str) -> Iterator[Finding]:
    try:
        from yaml._yaml import CParser  # noqa: F401 — whether it is there is the question
    except ImportError as error:
        why = f"reading loop files is about 20 times slower ({error})"
        yield Finding("yaml", "warning", "PyYAML has no C loader", why, REINSTALL)
    else:
        yield Finding("yaml", "ok", "YAML", together=here)


def on_path(patient: CheckupInputs) -> Iterator[Finding]:
    if patient.which("ll-loop") is None:
        why = "loop actions can run it, but your shell cannot find it"
        fix = "activate the environment it is installed in, or install it with pipx"
        yield Finding("path", "note", "`ll-loop` is not on PATH", why, fix)


# ── the machine ────────────────────────────────────────────────────────────────────────────────


def file_system(patient: CheckupInputs) -> Iterator[Finding]:
    here = "file system"
    place = os.path.join(patient.root, ".loops")
    if not os.path.isdir(place):
        yield Finding("locks", "note", "file system: not checked", "there is no .loops yet")
        return
    kind = _kind_of_disk(place)
    if kind in NETWORK:
        why = f"{kind} is a network file system, where locks and renames may be unreliable"
        yield Finding(
            "disk", "warning", "the project is not on a local disk", why, "move it to one"
        )
    why_not = _why_no_lock(place)
    if why_not:
        fix = "move the project to a local disk; ll-loop does not run without locks"
        yield Finding("locks", "problem", "files cannot be locked here", why_not, fix)
    else:
        of = f" on {kind}" if kind else ""
        yield Finding("locks", "ok", f"file system: locks work{of}", together=here)


def _why_no_lock(place: str) -> str:
    """A shared lock on the directory itself: that changes nothing and disturbs nobody."""
    from fcntl import LOCK_NB, LOCK_SH, flock  # only needed here

    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return ""  # somebody holds it, so it can be held
    except OSError as error:
        return (error.strerror or str(error)).lower()
    finally:
        os.close(descriptor)
    return ""


def _kind_of_disk(place: str) -> str:
    """The type of the file system, where the kernel tells it."""
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


def space(patient: CheckupInputs) -> Iterator[Finding]:
    seen = os.statvfs(patient.root)
    free = seen.f_bavail * seen.f_frsize
    told = f"{size_text(free)} of disk space left"
    if free < LITTLE_SPACE:
        level: Level = "problem" if free < NO_SPACE else "warning"
        yield Finding("space", level, told, "runs write logs and output", "free some space")
    else:
        yield Finding("space", "ok", told, together="file system")


def history(patient: CheckupInputs) -> Iterator[Finding]:
    size = sum(_sizes(os.path.join(patient.root, ".loops", ".history")))
    told = f".loops/.history holds {size_text(size)}"
    if size > GB:
        yield Finding("history", "warning", told, "", "ll-loop history --prune 30d")
    elif size:
        yield Finding("history", "ok", told)


def _sizes(place: str) -> Iterator[int]:
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # gone meanwhile
                continue


def size_text(size: int) -> str:
    """`812 kB`, `14 MB`, `1.4 GB`."""
    if size >= GB:
        return f"{size / GB:.1f} GB"
    return f"{size // MB} MB" if size >= MB else f"{-(-size // 1024)} kB"


def terminal(patient: CheckupInputs) -> Iterator[Finding]:
    encoding = patient.encoding.lower()
    if encoding.replace("-", "") in ("utf8", "utf16", "utf32"):
        yield Finding("terminal", "ok", f"output: {encoding}")
    else:
        fix = "LANG=C.UTF-8, or PYTHONIOENCODING=utf-8"
        yield Finding("terminal", "note", f"output: {encoding}", "symbols are shown as words", fix)
