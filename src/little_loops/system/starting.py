"""Start the child of an action: its pipes, its session, or in words why there is none.

Not here: what becomes of it (`process`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from signal import SIGPIPE, SIGXFSZ

from little_loops.records import NamedTuple
from little_loops.system import process_tree


class CannotStart(Exception):
    """The action did not begin, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Pipes(NamedTuple):
    """Our ends; no stdin where there is nothing to be read."""

    stdin: int | None
    stdout: int
    stderr: int


class Child(NamedTuple):
    """A process that leads a session, not yet waited for by anybody."""

    pid: int
    pipes: Pipes


def start(argv: Sequence[str], env: Mapping[str, str], cwd: str, has_input: bool) -> Child:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for _ in ("stdout", "stderr"):
            read_end, write_end = os.pipe()
            ours.append(read_end)
            theirs.append(write_end)
        if has_input:
            read_end, write_end = os.pipe()
            ours.append(write_end)
            theirs.append(read_end)
            os.set_blocking(write_end, False)
        pid = _begin(argv, env, cwd, theirs)
    except (OSError, ValueError) as error:
        close(ours)
        raise CannotStart(_why(error, argv[0], cwd)) from error
    finally:
        close(theirs)
    return Child(pid, Pipes(ours[2] if has_input else None, ours[0], ours[1]))


def close(descriptors: Collection[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


# A session of its own, either way: what ends the action must not reach us, nor the terminal's
# Ctrl-C the action.


def _begin(argv: Sequence[str], env: Mapping[str, str], cwd: str, ends: Sequence[int]) -> int:
    program = _located(argv[0], env.get("PATH", os.defpath))
    if _may_spawn(program, cwd, ends):
        with suppress(NotImplementedError):  # an interpreter made for a libc of before 2017
            return _spawn(program, argv, env, ends)
    return _popen(program, argv, env, cwd, ends)


def _may_spawn(program: str, cwd: str, ends: Sequence[int]) -> bool:
    """Whether `posix_spawn` will do, which closes no descriptors and changes no directory.

    Where it does, a step takes a seventh less, and nothing has to be imported for it.
    """
    return (
        process_tree.is_adopting()
        and os.path.isabs(program)
        and min(ends) > 2  # one among the first three would be overwritten
        and _is_here(cwd)
        and _is_self_contained(os.getpid())
    )


def _is_here(directory: str) -> bool:
    try:
        return os.path.samestat(os.stat(directory), os.stat("."))
    except OSError:
        return False


@cache
def _is_self_contained(_pid: int) -> bool:
    """Have no child inherit what our caller had left open; done once, of our own nothing is."""
    try:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2:
                with suppress(OSError):  # the one of this listing
                    os.set_inheritable(descriptor, False)
    except OSError:
        return False
    return True


def _spawn(program: str, argv: Sequence[str], env: Mapping[str, str], ends: Sequence[int]) -> int:
    out, err, *given = ends
    stdin: tuple[int, ...] | tuple[int, int, str, int, int]
    stdin = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    if given:
        stdin = (os.POSIX_SPAWN_DUP2, given[0], 0)
    return os.posix_spawn(
        program,
        list(argv),
        env,
        file_actions=[stdin, (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)],
        setsid=True,
        setsigdef=(SIGPIPE, SIGXFSZ),  # the interpreter ignores them
    )


def _popen(
    program: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, ends: Sequence[int]
) -> int:
    import subprocess  # 3 ms most runs do not need

    out, err, *given = ends
    child = subprocess.Popen(
        argv,
        executable=program,
        stdin=given[0] if given else subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    child.returncode = 0  # it is not to be waited for by its own object too
    return child.pid


@cache
def _located(program: str, search: str) -> str:
    """Where a program is, found once: a child that looks for it along PATH takes 50 µs longer."""
    if os.sep in program:
        return program
    for directory in search.split(os.pathsep):
        path = os.path.join(directory, program)
        if not os.path.isabs(path):
            break  # relative to where the child will be
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return program


_WHY = {
    errno.E2BIG: "the command and its environment are longer than the system allows",
    errno.EAGAIN: "the limit on processes is reached",
    errno.ENOMEM: "there is not enough memory to start a process",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open in the whole system",
}
_WHY_CWD = {
    errno.ENOENT: "the directory `{}` does not exist",
    errno.ENOTDIR: "`{}` is not a directory",
    errno.EACCES: "the directory `{}` cannot be entered: permission denied",
}
_WHY_PROGRAM = {
    errno.ENOENT: "`{}` was not found",
    errno.EACCES: "`{}` is not executable: permission denied",
    errno.ENOEXEC: "`{}` is not a program this system can run",
}


def _why(error: OSError | ValueError, program: str, cwd: str) -> str:
    if not isinstance(error, OSError):
        return f"the command cannot be passed to a process: {error}"
    number = error.errno or 0
    if number in _WHY:
        return _WHY[number]
    name, words = (cwd, _WHY_CWD) if error.filename == cwd else (program, _WHY_PROGRAM)
    return words.get(number, f"`{{}}`: {error.strerror}").format(name)
