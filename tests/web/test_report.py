"""Reports as a page: what is in the file, that it cannot reach the network, and no secret."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.cli.runs import COUNTDOWN, ran
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.sharing.test_secrets import COUNT, ENVIRONMENT
from tests.sharing.test_secrets import project as canaries  # noqa: F401 - a fixture

MAX_BYTES = 400_000


class Parts(HTMLParser):
    """The elements of a document, in order, and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.policy = ""
        self._data: str | None = None
        self.data: Any = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self._data = "" if found.get("id") == "data" else None
        assert {"src", "href", "style", "onclick"}.isdisjoint(found)

    def handle_data(self, data: str) -> None:
        if self._data is not None:
            self._data += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._data:
            self.data, self._data = json.loads(self._data), None


TAGS = [
    *("html", "head", "meta", "meta", "meta", "meta", "meta", "title", "style"),
    *("body", "div", "noscript", "script", "script"),
]


def read(project: Project, name: str, **env: str) -> tuple[str, Parts]:
    path = project.root / "report.html"
    done = project.ll("report", name, "-o", str(path), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {path}\n")
    text = path.read_text()
    return text, Parts(text)


def test_a_report_has_the_answers_that_the_page_asks_for(tmp_path: Path):
    project = Project(tmp_path)
    ran(project.root, COUNTDOWN)
    text, parts = read(project, "countdown")
    assert parts.tags == TAGS
    path = f"/api/runs/{parts.data['key']}"
    paths = {each.removeprefix(path) for each in parts.data["answers"]}
    assert {"", "/machine", "/timeline?limit=500", "/charts", "/steps?limit=100"} <= paths
    assert "/steps/1/output?attempt=1&stream=stdout&offset=-1&limit=65536" in paths
    assert parts.data["answers"][path]["run"]["status"] == "completed"
    assert project.ll("report", "countdown").stdout.startswith("<!doctype html>")
    told = json.loads(project.ll("report", "countdown", "--json").stdout)
    assert told["html"].startswith("<!doctype html>")
    assert len(text) <= MAX_BYTES


def test_a_report_has_the_receipt_or_says_why_there_is_none(tmp_path: Path):
    kept = KeptProject(tmp_path).fixed()
    _, parts = read(kept, "fix")
    receipt = parts.data["answers"][f"/api/runs/{parts.data['key']}/receipt"]
    assert json.loads(receipt["text"])["predicateType"]
    project = Project(tmp_path / "other")
    ran(project.root, COUNTDOWN)
    _, parts = read(project, "countdown")
    receipt = parts.data["answers"][f"/api/runs/{parts.data['key']}/receipt"]
    assert receipt["text"] is None
    assert receipt["reason"].startswith("no snapshots of the files were recorded")


def test_a_report_cannot_reach_the_network(tmp_path: Path):
    project = Project(tmp_path)
    ran(project.root, COUNTDOWN)
    _, parts = read(project, "countdown")
    rules = dict(rule.split(" ", 1) for rule in parts.policy.split("; "))
    hashed = re.compile(r"'sha256-[A-Za-z0-9+/]{43}='")
    assert rules.pop("default-src") == "'none'"
    assert all(hashed.fullmatch(rules.pop(name)) for name in ("script-src", "style-src"))
    assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}


def test_twenty_iterations_fit_into_400_kb(tmp_path: Path):
    project = Project(tmp_path)
    states = {
        "check": {
            "action": "seq 1 300 | sed 's/$/: a line of a test run that failed/'; test -e 19",
            "on_pass": "done",
            "on_fail": "fix",
        },
        "fix": {"action": "i=$(ls | wc -l); touch $i; echo working on it", "next": "check"},
        "done": {"terminal": True},
    }
    loop = {"name": "long", "max_iterations": 20, "initial": "check", "states": states}
    ran(project.root, loop)
    text, parts = read(project, "long")
    [detail] = [v for k, v in parts.data["answers"].items() if k.endswith(parts.data["key"])]
    assert detail["run"]["iteration"] >= 19
    assert len(text.encode()) <= MAX_BYTES


WORDY = """\
#!/bin/sh
n=$(cat count.txt)
echo $((n + 1)) > count.txt
seq 1 900 | sed "s/$/: <td>line of turn $n<\\/td>/" > page.html
seq 1 300 | sed 's/$/: what an agent thinks aloud/'
"""
WORDY_LOOP = """\
    name: wordy
    initial: check
    max_iterations: 20
    evidence: true
    host: {host}
    states:
      check:
        action: "seq 1 300 | sed 's/$/: a <b>line<\\\\/b> of a test/' | tee /dev/stderr; grep -q 19 count.txt"
        check: true
        on_pass: done
        on_fail: fix
      fix: {{action: "Fix it", action_type: prompt, next: check}}
      done: {{terminal: true}}
"""


def test_twenty_iterations_with_an_agent_and_large_diffs_fit_too(tmp_path: Path):
    """Nothing is left out but parts of outputs and diffs."""
    project = KeptProject(tmp_path)
    agent = tmp_path / "agent"
    agent.write_text(WORDY)
    (project.root / "count.txt").write_text("0\n")
    host = json.dumps({"name": "command", "command": [str(agent), "{prompt}"]})
    project.loop("wordy", WORDY_LOOP.format(host=host))
    done = project.ll("run", "wordy")
    assert done.returncode == 0, done.stdout + done.stderr
    text, parts = read(project, "wordy")
    assert len(text.encode()) <= MAX_BYTES
    path = f"/api/runs/{parts.data['key']}"
    answers = parts.data["answers"]
    assert answers[path]["run"]["iteration"] == 20
    steps = answers[path]["steps"]
    shown = [number for number in range(1, steps + 1) if f"{path}/steps/{number}" in answers]
    assert shown == list(range(1, steps + 1))
    diffs = [answer["text"] for name, answer in answers.items() if name.endswith("/diff")]
    assert (len(diffs), min(map(len, diffs)) > 0) == (19, True)
    outputs = [answer["text"] for name, answer in answers.items() if "/output?" in name]
    assert all(text.startswith("1: ") for text in outputs if text)


def test_no_output_becomes_markup(tmp_path: Path):
    project = Project(tmp_path)
    text = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)>"
    states = {"say": {"action": f"echo '{text}'", "next": "done"}, "done": {"terminal": True}}
    ran(project.root, {"name": "hostile", "initial": "say", "states": states})
    _, parts = read(project, "hostile")
    assert parts.tags == TAGS
    assert text in json.dumps(parts.data)


def test_no_canary_is_in_a_report(canaries):  # noqa: F811
    text, _ = read(canaries, "canaries", **ENVIRONMENT)
    assert [n for n in range(1, COUNT + 1) if f"canary{n:02}" in text] == []
    assert "4f9a1c7e" not in text


def test_a_report_needs_no_server(tmp_path: Path):
    """The packages of the extra `web` are for the server."""
    project = Project(tmp_path)
    ran(project.root, COUNTDOWN)
    hook = "import sys; sys.modules.update(starlette=None, anyio=None, uvicorn=None)\n"
    code = f"{hook}from little_loops.cli.main import process; process()"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", "countdown"],
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("<!doctype html>"), done.stderr
