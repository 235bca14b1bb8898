"""Our own `ll-loop` as a program in a directory of its own, to be put first on PATH.

Whichever way this one was started, an action or a session that types `ll-loop` gets the same.
"""

from __future__ import annotations

import os
import shlex
import sys

from little_loops.system.files import Folder

DIRECTORY = "bin"


def path_with_own_command(data: Folder, path: str | None) -> str:
    """PATH with that directory first; nothing else is in it, whatever an action has put there."""
    with data.make(DIRECTORY) as directory:
        for name in os.listdir(directory.fd):
            if name != "ll-loop":
                _remove(name, directory.fd)
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m little_loops "$@"\n'
        directory.replace("ll-loop", script.encode(), f".ll-loop.{os.urandom(8).hex()}")
        os.chmod("ll-loop", 0o700, dir_fd=directory.fd)
        return f"{directory.path}{os.pathsep}{path or os.defpath}"


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        from shutil import rmtree  # rare and slow

        rmtree(name, dir_fd=folder)
    except FileNotFoundError:
        pass
