"""The schema in the hands of an editor: the real language server completes keys and flags typos.

`yaml-language-server` is what editors use for YAML.  It is installed once by npm, into
`.cache/language-server`, and spoken to as an editor does: JSON-RPC over its stdin and stdout.  What
it reads is what `ll-loop init` writes: a loop, the schema beside it, and the line that names it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from textwrap import dedent
from typing import Any

import pytest

from tests.project import DEADLINE_S, Project

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "language-server"
PACKAGE, VERSION = "yaml-language-server", "1.25.0"
INSTALL_S = 300.0
SERVER = CACHE / "node_modules" / PACKAGE / "bin" / PACKAGE
# It would else ask the network for the schemas of all the world.
SETTINGS = {"schemaStore": {"enable": False}, "completion": True, "validate": True, "hover": True}


def install() -> str | None:
    """Fetch the server if it is not there; why it could not be done."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "npm is not on PATH"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE.parent / "language-server.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = CACHE / "installed"
        if stamp.exists() and stamp.read_text() == VERSION:
            return None
        flags = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--cache", ".npm"]
        done = subprocess.run(
            ["npm", "install", "--prefix", ".", *flags, f"{PACKAGE}@{VERSION}"],
            cwd=CACHE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
        shutil.rmtree(CACHE / ".npm", ignore_errors=True)
        if done.returncode != 0:
            return f"npm failed: {'; '.join(done.stderr.splitlines()[-3:])}"
        stamp.write_text(VERSION)
        return None


class Editor:
    """As much of an editor as it takes: opens files, asks, reads what the server has to say."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self._server = subprocess.Popen(
            ["node", str(SERVER), "--stdio"],
            cwd=root,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._said: Queue[dict[str, Any]] = Queue()
        self._id = 0
        threading.Thread(target=self._listen, daemon=True).start()
        self._ask("initialize", processId=os.getpid(), rootUri=root.as_uri(), capabilities={})
        self._tell("initialized")
        self._tell("workspace/didChangeConfiguration", settings={"yaml": SETTINGS})

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()

    def open(self, name: str) -> list[dict[str, Any]]:
        """Show a file; the problems the server sees in it."""
        uri = (self.root / name).as_uri()
        text = (self.root / name).read_text()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._tell("textDocument/didOpen", textDocument=document)
        while True:
            told = self._next()
            if told.get("method") == "textDocument/publishDiagnostics":
                if told["params"]["uri"] == uri:
                    problems: list[dict[str, Any]] = told["params"]["diagnostics"]
                    return problems

    def completions(self, name: str, line: int, column: int) -> set[str]:
        uri = (self.root / name).as_uri()
        place = {"line": line, "character": column}
        offered = self._ask("textDocument/completion", textDocument={"uri": uri}, position=place)
        return {item["label"] for item in offered["items"]}

    def hover(self, name: str, line: int, column: int) -> str:
        uri = (self.root / name).as_uri()
        place = {"line": line, "character": column}
        shown = self._ask("textDocument/hover", textDocument={"uri": uri}, position=place)
        return str(shown["contents"]["value"])

    # JSON-RPC

    def _ask(self, method: str, **params: Any) -> Any:
        self._id += 1
        self._send({"id": self._id, "method": method, "params": params})
        while True:
            told = self._next()
            if told.get("id") == self._id and "method" not in told:
                assert "error" not in told, told
                return told["result"]

    def _tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()

    def _next(self) -> dict[str, Any]:
        try:
            told = self._said.get(timeout=DEADLINE_S)
        except Empty:
            raise AssertionError("the language server says nothing") from None
        if "id" in told and "method" in told:
            self._answer(told)
        return told

    def _answer(self, asked: dict[str, Any]) -> None:
        """It asks too: for its settings, and to be told of changed files."""
        wanted = asked.get("params", {}).get("items", [])
        settings = [SETTINGS if item.get("section") == "yaml" else None for item in wanted]
        is_settings = asked["method"] == "workspace/configuration"
        self._send({"id": asked["id"], "result": settings if is_settings else None})

    def _listen(self) -> None:
        assert self._server.stdout is not None
        while header := self._server.stdout.readline():
            length = int(header.split(b":")[1])
            while self._server.stdout.readline().strip():
                pass
            self._said.put(json.loads(self._server.stdout.read(length)))


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    why = install()
    if why is not None:
        if os.environ.get("CI") and "not on PATH" not in why:
            pytest.fail(f"the language server could not be installed: {why}")
        pytest.skip(f"no language server: {why}")


@pytest.fixture
def editor(project: Project) -> Iterator[Editor]:
    """An editor in a project that `ll-loop init` has just set up."""
    assert project.ll("init", "--template", "empty").returncode == 0
    made = Editor(project.root, project.home)
    yield made
    made.close()


def edit(project: Project, text: str) -> str:
    """A loop under the first line that `init` writes."""
    first = (project.root / ".loops" / "my-loop.yaml").read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    path = project.loop("edited", f"{first}\n{dedent(text)}")
    return str(path.relative_to(project.root))


NATIVE = """\
initial: check
states:
  check:
    action: make test
    on_pass: done
    {key}: {value}
  done: {{terminal: true}}
"""
LINE = 6
"""Where the key is, from 0, below the first line."""


@pytest.mark.parametrize(
    "template", ["tests", "lint", "types", "relay", "deploy", "empty"], ids=str
)
def test_what_init_writes_has_no_problems(editor: Editor, project: Project, template: str):
    if template != "empty":
        assert project.ll("init", "--template", template).returncode == 0
    for path in sorted((project.root / ".loops").glob("*.yaml")):
        assert editor.open(str(path.relative_to(project.root))) == []


def test_a_misspelt_key_is_flagged_where_it_stands(editor: Editor, project: Project):
    (problem,) = editor.open(edit(project, NATIVE.format(key="on_fial", value="check")))
    start, end = problem["range"]["start"], problem["range"]["end"]
    assert (start["line"], start["character"], end["character"]) == (LINE, 4, 11)
    assert "on_fial" in problem["message"]


def test_a_wrong_kind_of_value_is_flagged_where_it_stands(editor: Editor, project: Project):
    (problem,) = editor.open(edit(project, NATIVE.format(key="capture_exit", value="often")))
    assert problem["range"]["start"] == {"line": LINE, "character": 18}


def test_the_keys_of_a_state_are_completed(editor: Editor, project: Project):
    name = edit(project, NATIVE.format(key="on_f", value="").replace(":  \n", "\n"))
    editor.open(name)
    offered = editor.completions(name, LINE, 8)
    assert offered >= {"on_fail", "on_error", "on_timeout", "capture", "retry", "timeout"}
    assert "on_pass" not in offered  # which is there already


@pytest.mark.parametrize(
    ("paradigm", "keys"),
    [
        pytest.param("goal", {"goal", "tools"}, id="goal"),
        pytest.param("convergence", {"check", "toward", "using", "patience"}, id="convergence"),
        pytest.param("invariants", {"constraints", "recheck"}, id="invariants"),
        pytest.param("imperative", {"steps", "until"}, id="imperative"),
        pytest.param("relay", {"agent", "plan", "metadata"}, id="relay"),
        pytest.param("fsm", {"initial", "states"}, id="fsm"),
    ],
)
def test_the_keys_of_a_paradigm_are_completed(
    editor: Editor, project: Project, paradigm: str, keys: set[str]
):
    name = edit(project, f"paradigm: {paradigm}\n\n")
    editor.open(name)
    assert editor.completions(name, 2, 0) >= keys | {"max_iterations", "scope", "host"}


def test_a_key_is_explained(editor: Editor, project: Project):
    name = edit(project, NATIVE.format(key="timeout", value="10m"))
    assert editor.open(name) == []
    assert "maximum time for this action" in editor.hover(name, LINE, 6)
