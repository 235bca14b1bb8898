"""Provide our own `ll-loop` as a program in a directory to put first on PATH.

However this process was started, an action or session that runs `ll-loop` gets the same version.
"""

from __future__ import annotations

import os
import sys

from little_loops.system.files import Folder

DIRECTORY = "bin"


def path_with_own_command(data: Folder, path: str | None) -> str:
    """Write the program `ll-loop` to `bin` in the run's directory, and return PATH with `bin`
    first.

    Anything that an action has put into the directory is removed.
    """
    with data.make(DIRECTORY) as directory:
        for name in os.listdir(directory.fd):
            if name != "ll-loop":
                _remove(name, directory.fd)
        script = f'#!/bin/sh\nexec {_quoted(sys.executable)} -P -m little_loops "$@"\n'
        directory.replace("ll-loop", script.encode(), f".ll-loop.{os.urandom(8).hex()}")
        os.chmod("ll-loop", 0o700, dir_fd=directory.fd)
        return f"{directory.path}{os.pathsep}{path or os.defpath}"


def _quoted(path: str) -> str:
    """Quote a path for the shell; importing `shlex` for one path would be slow."""
    return "'" + path.replace("'", """'"'"'""") + "'"


def _remove(name: str, folder: int) -> None:
    """Remove a file or a directory, if it exists."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        from shutil import rmtree  # rare and slow

        rmtree(name, dir_fd=folder)
    except FileNotFoundError:
        pass
