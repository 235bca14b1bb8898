"""Start the child process of an action, with its pipes and session; or explain why it failed.

Not here: what happens to it then (`process`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache

from little_loops.light_modules import signal
from little_loops.records import NamedTuple
from little_loops.system import process_tree


class CannotStart(Exception):
    """The action could not be started; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Pipes(NamedTuple):
    """Our ends of the pipes; `stdin` is None without input."""

    stdin: int | None
    stdout: int
    stderr: int


class ChildProcess(NamedTuple):
    """A process that leads a session and has not been waited for."""

    pid: int
    pipes: Pipes


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    has_input: bool,
    kept_open: Sequence[int] = (),
) -> ChildProcess:
    """Start a command in its own session, with pipes for its output, and for input if `has_input`.

    It also inherits the descriptors in `kept_open`. Raises `CannotStart`.
    """
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
        pid = _start_process(argv, env, cwd, theirs, kept_open)
    except (OSError, ValueError) as error:
        close(ours)
        raise CannotStart(_why(error, argv[0], cwd)) from error
    finally:
        close(theirs)
    return ChildProcess(pid, Pipes(ours[2] if has_input else None, ours[0], ours[1]))


def close(descriptors: Collection[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


# Both ways create a new session: signals for the action must not reach us, nor the terminal's
# Ctrl-C the action.


def _start_process(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    ends: Sequence[int],
    kept_open: Sequence[int],
) -> int:
    """Start the process in the fastest way that works. Return its pid. Raises `OSError` or
    `ValueError`.

    `ends` are its ends of the pipes: stdout, stderr, and stdin if it has input.
    """
    program = _located(argv[0], env.get("PATH", os.defpath))
    if not kept_open and _may_spawn(program, cwd, ends):
        with suppress(NotImplementedError):  # an interpreter built for a libc from before 2017
            return _spawn(program, argv, env, ends)
    return _popen(program, argv, env, cwd, ends, kept_open)


def _may_spawn(program: str, cwd: str, ends: Sequence[int]) -> bool:
    """Return whether `posix_spawn` can be used, which closes no descriptors and changes no
    directory.

    It makes a step a seventh faster, and needs no import.
    """
    return (
        process_tree.is_adopting()
        and os.path.isabs(program)
        and min(ends) > 2  # one among the first three would be overwritten
        and _is_current(cwd)
        and _make_descriptors_private(os.getpid())
    )


def _is_current(directory: str) -> bool:
    """Return whether this is the current directory."""
    try:
        return os.path.samestat(os.stat(directory), os.stat("."))
    except OSError:
        return False


@cache
def _make_descriptors_private(_pid: int) -> bool:
    """Make all descriptors non-inheritable, once for each process. Return False if they cannot be
    listed."""
    try:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2:
                with suppress(OSError):  # the one used for this listing
                    os.set_inheritable(descriptor, False)
    except OSError:
        return False
    return True


def _spawn(program: str, argv: Sequence[str], env: Mapping[str, str], ends: Sequence[int]) -> int:
    """Start the process with `posix_spawn` and return its pid. Raises `NotImplementedError` if that
    cannot create a session."""
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
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # the interpreter ignores them
    )


def _popen(
    program: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    ends: Sequence[int],
    kept_open: Sequence[int],
) -> int:
    """Start the process with `subprocess` and return its pid; the caller has to wait for it."""
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
        pass_fds=tuple(kept_open),
    )
    child.returncode = 0  # the object must not wait for it, too
    return child.pid


@cache
def _located(program: str, search: str) -> str:
    """Return the path of a program, cached: a child that searches PATH itself takes 50 µs longer.

    Returns the name itself if it is not found, or if PATH has a relative directory before it.
    """
    if os.sep in program:
        return program
    for directory in search.split(os.pathsep):
        path = os.path.join(directory, program)
        if not os.path.isabs(path):
            break  # relative to the child's directory
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return program


_WHY = {
    errno.E2BIG: "the command and its environment are longer than the system allows",
    errno.EAGAIN: "the limit on the number of processes has been reached",
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
    """Return a message that explains why a process could not be started."""
    if not isinstance(error, OSError):
        return f"the command cannot be passed to a process: {error}"
    number = error.errno or 0
    if number in _WHY:
        return _WHY[number]
    name, words = (cwd, _WHY_CWD) if error.filename == cwd else (program, _WHY_PROGRAM)
    return words.get(number, f"`{{}}`: {error.strerror}").format(name)
