"""The real agent programs, installed once into `.cache/agents`, and a stage for them to play on.

`make live` uses the pinned versions.  `make live-newest` sets `LIVE_AGENTS=newest`, and the versions
that npm has now are installed beside them.

A `Stage` is a project with a home of its own, whose agents are the real programs and whose model is
a script on 127.0.0.1.  Nothing of the machine's own set-up reaches them, and they reach nothing but
the script.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.live.fake_model import OK, FakeModel, Rule
from tests.live.fake_replies import Reply
from tests.project import DEADLINE_S, Project

ROOT = Path(__file__).parents[2]
USE_NEWEST = os.environ.get("LIVE_AGENTS") == "newest"
AGENTS = ROOT / ".cache" / ("agents-newest" if USE_NEWEST else "agents")
STAMP = AGENTS / "installed.json"
# What the recorded streams in tests/hosts/streams were made with.
PINNED = {"@anthropic-ai/claude-code": "2.1.197", "@openai/codex": "0.166.0"}
INSTALL_S = 300
KEY = "not-a-key"
NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there."""


class NotInstalled(Exception):
    """The programs are not there, and cannot be fetched for this reason."""


def installed() -> Path:
    """The directory of the programs; the first to ask installs them."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NotInstalled("npm is not on PATH")
    AGENTS.parent.mkdir(parents=True, exist_ok=True)
    with open(AGENTS.parent / "agents.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = _newest() if USE_NEWEST else PINNED
        if installed_versions() != wanted:
            _install(wanted)
    return AGENTS / "node_modules" / ".bin"


def installed_versions() -> dict[str, str]:
    """Package → version; empty if nothing is installed."""
    found: dict[str, str] = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    return found


def package(name: str) -> Path:
    """The archive of a package that npm has; the first to ask fetches it."""
    folder = AGENTS.parent / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    with open(AGENTS.parent / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = folder / f"{name.replace('@', '-')}.tgz"
        if not archive.exists():
            _run("npm", "pack", name, "--cache", ".npm", cwd=folder)
    return archive


def wheel(requirement: str) -> Path:
    """The wheel of a package that pip has; the first to ask fetches it."""
    folder = AGENTS.parent / "packages" / requirement
    folder.mkdir(parents=True, exist_ok=True)
    with open(AGENTS.parent / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            fetch = ("-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:")
            _run(sys.executable, *fetch, requirement, cwd=folder)
    return next(folder.glob("*.whl"))


def _newest() -> dict[str, str]:
    """The versions that npm has now."""
    return {name: _run("npm", "view", name, "version", cwd=ROOT).strip() for name in PINNED}


def _install(packages: Mapping[str, str]) -> None:
    shutil.rmtree(AGENTS, ignore_errors=True)
    AGENTS.mkdir()
    wanted = [f"{name}@{version}" for name, version in packages.items()]
    # Whether npm runs a package's own script depends on its version, so it is run by hand.
    flags = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--cache", ".npm"]
    _run("npm", "install", "--prefix", ".", *flags, *wanted)
    _run("node", "node_modules/@anthropic-ai/claude-code/install.cjs")
    shutil.rmtree(AGENTS / ".npm", ignore_errors=True)
    STAMP.write_text(json.dumps(packages))


def _run(*argv: str, cwd: Path = AGENTS) -> str:
    """What the command printed; `NotInstalled` if it failed."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"`{argv[0]}` took longer than {INSTALL_S} s") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotInstalled(f"`{' '.join(argv[:2])}` failed: {'; '.join(said[-3:])}")
    return done.stdout.decode("utf-8", "replace")


class Stage(Project):
    """A project whose agents are real; `play` gives them their model."""

    def __init__(self, root: Path, programs: Path, stack: ExitStack) -> None:
        super().__init__(root)
        self.programs = programs
        self._stack = stack
        self._url = NOWHERE
        self.write("../bin/ll-loop", f'#!/bin/sh\nexec {" ".join(self.argv())} "$@"\n').chmod(0o755)

    def play(self, *rules: Rule, otherwise: Reply = OK) -> FakeModel:
        """Start the model that says this; it ends with the test."""
        model = self._stack.enter_context(FakeModel(*rules, otherwise=otherwise))
        self._url = model.url
        self.write("../home/.codex/config.toml", codex_config(model.url))
        return model

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def environ(self, **more: str) -> dict[str, str]:
        path = [str(self.programs), str(self.root.parent / "bin"), os.environ.get("PATH", "")]
        own = {
            "PATH": os.pathsep.join(path),
            "ANTHROPIC_BASE_URL": self._url,
            "ANTHROPIC_API_KEY": KEY,
            "FAKE_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Should one of them want to talk to anybody else all the same, it cannot.
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
        }
        if os.geteuid() == 0:
            own["IS_SANDBOX"] = "1"
        return {**super().environ(**own), **more}

    def program(
        self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent program by itself, without `ll-loop`."""
        name = str(self.programs / argv[0])
        done = subprocess.run(
            [name, *argv[1:]],
            cwd=self.root,
            env=self.environ(**(env or {})),
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def living(self) -> list[str]:
        """What still runs in this home: agents, their tools, sessions they started."""
        named: list[str] = []
        for each in self._living():
            with suppress(psutil.Error):  # it is gone since, or a zombie, which is dead
                named.append(" ".join(each.cmdline()) or each.name())
        return named

    def end_actions(self) -> None:
        for process in self._living():
            with suppress(psutil.Error):
                process.kill()

    def _living(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if _home_of(each) == str(self.home)]


def _home_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("HOME")
    except psutil.Error:
        return None


def codex_config(url: str) -> str:
    provider = {"name": "fake", "base_url": f"{url}/v1", "wire_api": "responses"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in provider.items()]
    lines += ['env_key = "FAKE_KEY"', "request_max_retries = 0", "stream_max_retries = 1"]
    return "\n".join(
        ['model = "fake"', 'model_provider = "fake"', "[model_providers.fake]", *lines, ""]
    )


def events_of(printed: str) -> list[dict[str, Any]]:
    """A stream of JSON lines."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def texts_of(asked: Mapping[str, Any]) -> str:
    """All that a person, or the CLI in a person's name, said in an Anthropic request."""
    said: list[str] = []
    for message in asked.get("messages", []):
        content = message.get("content", "")
        blocks: Sequence[Any] = [{"text": content}] if isinstance(content, str) else content
        if message.get("role") == "user":
            said += [block.get("text", "") for block in blocks]
    return "\n".join(said)


def results_in(asked: Mapping[str, Any]) -> str:
    """What the newest tool answered, as the model is told it."""
    # Newer versions add messages of their own after it.
    for message in reversed(asked["messages"]):
        content = message["content"] if isinstance(message["content"], list) else []
        results = [str(each["content"]) for each in content if each["type"] == "tool_result"]
        if results:
            return "\n".join(results)
    return ""
