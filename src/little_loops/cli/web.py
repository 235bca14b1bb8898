"""`ll-loop web`: show runs and loops in the browser.

Not here: the page and its server (`little_loops.web`).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress

from little_loops.cli.options import OutputArgs, flag, operand, value, whole
from little_loops.errors import OK, UsageError
from little_loops.runs.project import LOOPS, find_project
from little_loops.terminal.console import print_json, say, talk

HIGHEST_PORT = 65_535
INSTALL = "pipx install '.[web]'"


class WebArgs(
    OutputArgs,
    verb="web",
    summary="Show runs and loops in the browser. Only you can open the page: it is served\n"
    "on this machine only, and its URL contains a secret token.",
    examples=[
        ("ll-loop web", "this project; Ctrl-C stops only the server"),
        ("ll-loop web --edit", "allow the page to edit loops"),
        ("ll-loop web --read-only ~/a ~/b", "view two projects"),
    ],
):
    projects: Sequence[str] = operand(
        "a project directory; default: the current project",
        metavar="PROJECT",
        many=True,
        optional=True,
    )
    port: int = value(
        "port to listen on; default: any free port", convert=whole, metavar="N", default=0
    )
    edit: bool = flag("let the page change loop files")
    read_only: bool = flag("do not let the page change or start anything")
    poll: bool = flag(
        "look for changes four times a second while a page is open; for a network file "
        "system, on which the kernel does not report them"
    )
    no_open: bool = flag("do not open a browser")
    host: str | None = value(hidden=True)


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop web`: serve the page until Ctrl-C, and return 0.

    Raises `UsageError` for options that do not go together, or if the extra is not installed.
    """
    args = WebArgs.read(argv)
    _check(args)
    roots = [_project(path) for path in args.projects or [os.getcwd()]]
    try:
        from little_loops.web.server import Options, redirect_file, serve  # the extra `web`
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("little_loops"):
            raise
        raise UsageError(
            "`ll-loop web` needs packages that are not installed",
            f"`{INSTALL}` in a clone of the ll-loop repository installs them",
        ) from error

    def announce(url: str) -> str | None:
        """Print the URL, and open it if wanted. Return the file that leads to it, which the server
        removes."""
        _print_url(args, url)
        path = redirect_file(url, os.environ) if _opens_browser(args) else None
        if path is not None:
            _open(path)
        return path

    with suppress(KeyboardInterrupt):
        options = Options(roots, args.port, args.edit, args.read_only)
        serve(options._replace(live="polling") if args.poll else options, os.environ, announce)
    return OK


def _check(args: WebArgs) -> None:
    """Raise `UsageError` for options that do not go together, or are not possible."""
    if args.host is not None:
        raise UsageError(
            "`ll-loop web` is served on 127.0.0.1 only",
            "to open it from another machine, use `ssh -L`",
        )
    if args.edit and args.read_only:
        raise UsageError("`--edit` and `--read-only` cannot be used together")
    if not 0 <= args.port <= HIGHEST_PORT:
        raise UsageError(f"`--port` must be between 0 (any free port) and {HIGHEST_PORT}")


def _project(path: str) -> str:
    """Return the root of the project that a directory is in. Raises `UsageError` if there is none."""
    if not os.path.isdir(path):
        raise UsageError(f"`{path}` is not a directory")
    root = find_project(path)
    if not os.path.isdir(os.path.join(root, LOOPS)):
        raise UsageError(f"`{root}` has no loops", "run `ll-loop init` to create one")
    return root


def _opens_browser(args: WebArgs) -> bool:
    """Return whether somebody sits in front of this machine's display."""
    has_display = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return (
        not args.no_open
        and not args.json
        and has_display
        and "SSH_CONNECTION" not in os.environ
        and sys.stdout.isatty()
    )


def _open(path: str) -> None:
    import webbrowser  # only where there is a display

    webbrowser.open(f"file://{path}")


def _print_url(args: WebArgs, url: str) -> None:
    """Print the URL, and on a remote machine the command that makes it available at home."""
    if args.json:
        print_json({"schema": 1, "url": url, "pid": os.getpid()})
        return
    say(url)
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) == 4 and not args.quiet:
        port = url.partition("#")[0].rstrip("/").rpartition(":")[2]
        user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
        target = shlex.quote(f"{user}@{words[2]}" if user else words[2])
        at = "" if words[3] == "22" else f" -p {words[3]}"
        talk(f"on your own machine, run: ssh -L {port}:127.0.0.1:{port}{at} {target}")
    if not args.quiet:
        talk("Ctrl-C stops the server; runs continue")
