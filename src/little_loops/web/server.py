"""Run the server: a socket on the loopback interface, a loop without ticks, a browser.

uvicorn looks ten times a second whether it should stop. This server waits for a signal instead, so
that nothing wakes it while no page is open. See docs/adr/0025-the-page.md.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape

import uvicorn

from little_loops.errors import UsageError
from little_loops.records import NamedTuple
from little_loops.system.watching import KIND, Kind
from little_loops.web.app import application
from little_loops.web.security import Policy
from little_loops.web.site import Site
from little_loops.web.static_files import FOLDER, Assets

HOST = "127.0.0.1"
STOPPING = (signal.SIGINT, signal.SIGTERM)
ENDING_S = 1
"""How long responses may take to finish when the server stops; streams end immediately."""
BACKLOG = 128


class Options(NamedTuple):
    """What `ll-loop web` was asked to serve."""

    roots: Sequence[str]
    port: int = 0
    edit: bool = False
    read_only: bool = False
    assets: str = FOLDER
    live: Kind = KIND


class QuietServer(uvicorn.Server):
    """A server that sleeps until a request or a signal arrives."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `main_loop`, whose handlers wake the loop."""
        yield

    async def main_loop(self) -> None:
        """Wait for a signal."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._site.closing.set)
        try:
            await self._site.closing.wait()
        finally:
            for number in STOPPING:
                loop.remove_signal_handler(number)


def serve(
    options: Options, environ: Mapping[str, str], started: Callable[[str], str | None]
) -> None:
    """Serve until a signal arrives.

    `started` is called with the URL once connections are accepted; it returns a file to delete after
    the first request with a token. Raises `UsageError` if the port is taken.
    """
    policy = Policy(secrets.token_urlsafe(32), options.read_only, options.edit)
    with listening(options.port) as listener:
        port = listener.getsockname()[1]
        url = f"http://{HOST}:{port}/#token={policy.token}"
        handed_over = _Disposable(started(url))
        try:
            asyncio.run(_serve(options, policy, environ, listener, handed_over.dispose))
        finally:
            handed_over.dispose()


async def _serve(
    options: Options,
    policy: Policy,
    environ: Mapping[str, str],
    listener: socket.socket,
    on_authenticated: Callable[[], None],
) -> None:
    site = Site(options.roots, policy, environ, options.live)
    config = uvicorn.Config(
        application(site, Assets(options.assets), on_authenticated),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=ENDING_S,
    )
    await QuietServer(config, site).serve(sockets=[listener])


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Open a socket on the loopback interface that accepts connections; with port 0, on any free
    port. Raises `UsageError` if the port cannot be used."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise UsageError(
                f"cannot use port {port}: {reason.lower()}", "leave out `--port` for a free one"
            ) from error
        listener.listen(BACKLOG)
        yield listener
    finally:
        listener.close()


# ── the browser ────────────────────────────────────────────────────────────────────────────────


class _Disposable:
    """A file that is deleted once."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def dispose(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def redirect_file(url: str, environ: Mapping[str, str]) -> str:
    """Write a private page that leads to a URL, and return its path.

    The URL contains the token. If it were an argument of the browser's process, everybody on the
    machine could read it.
    """
    place = environ.get("XDG_RUNTIME_DIR") or None
    if place is not None and not os.access(place, os.W_OK):
        place = None
    path = os.path.join(tempfile.mkdtemp(prefix="ll-loop-", dir=place), "open.html")
    text = (
        '<!doctype html><meta charset="utf-8"><title>ll-loop</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(url)}">'
        f'<a href="{escape(url)}">ll-loop</a>\n'
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
