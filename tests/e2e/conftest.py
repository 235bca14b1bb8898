"""A server, and a real browser that looks at its page; what must never happen fails every test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.shop import Shop, busy_shop
from tests.project import Project

sync_api = pytest.importorskip("playwright.sync_api", reason="`make e2e` installs Playwright")

CHROMIUM = os.environ.get("CHROMIUM", shutil.which("chromium") or "/usr/bin/chromium")
# Without these, Chromium asks other hosts for updates at every start.
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+)/)#token=(\S+)")
WAIT_MS = 30_000
sync_api.expect.set_options(timeout=WAIT_MS)


class Server:
    """A process of `ll-loop web`; it can be killed and started again at the same port."""

    def __init__(self, project: Project, *options: str) -> None:
        self.project, self.options = project, options
        self.port = 0
        self.start()

    def start(self) -> None:
        words = ("web", "--no-open", "--port", str(self.port), *self.options)
        self.process = subprocess.Popen(
            self.project.argv(*words),
            cwd=self.project.root,
            env=self.project.environ(PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if found := ADDRESS.search(line):
                self.base, self.port, self.token = found[1], int(found[2]), found[3]
                return
        raise AssertionError(f"`ll-loop web` printed no URL:\n{said}")

    @property
    def url(self) -> str:
        return f"{self.base}#token={self.token}"

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def serving(project: Project, *options: str) -> Iterator[Server]:
    server = Server(project, *options)
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Watched:
    """A tab. Its console, its requests and the browser's refusals are recorded."""

    def __init__(self, browser: Any, **options: Any) -> None:
        options = {
            "viewport": {"width": 1280, "height": 900},
            "timezone_id": "Europe/Berlin",
            **options,
        }
        self.context = browser.new_context(locale="en-GB", **options)
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.expected: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text} ({message.location['url']})")

    def _request(self, request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "file") and address.hostname not in LOOPBACK:
            self.problems.append(f"request to {address.hostname}")

    def check(self) -> None:
        """Fail if the page did what it must never do; errors that a test brings about are expected."""
        found = [each for each in self.problems if not any(word in each for word in self.expected)]
        assert found == []


@contextmanager
def tab(browser: Any, url: str, **options: Any) -> Iterator[Watched]:
    watched = Watched(browser, **options)
    try:
        watched.page.goto(url)
        yield watched
        watched.check()
    finally:
        watched.context.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A project with loops, of which none has run."""
    made = Shop(tmp_path)
    yield made
    made.end_actions()


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A project with many kinds of runs, for tests that change none of them."""
    made = busy_shop(tmp_path_factory.mktemp("busy"))
    yield made
    made.end_actions()


@pytest.fixture(scope="session")
def busy_server(busy: Shop) -> Iterator[Server]:
    with serving(busy) as server:
        yield server
