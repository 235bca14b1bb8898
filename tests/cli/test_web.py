"""`ll-loop web` as a command: what it refuses, what it prints, the browser, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pexpect
import psutil
import pytest

from tests.engine.test_terminal import terminal
from tests.project import DEADLINE_S, SOURCE, Project, until
from tests.web.served import Served, serving

LOOP = """\
    name: wait
    initial: work
    states:
      work: {action: "while [ ! -e go ]; do sleep 0.01; done", next: done}
      done: {terminal: true}
    """


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    made.loop("wait", LOOP)
    yield made
    made.end_actions()


# ── what is refused ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            ["--host", "0.0.0.0"],
            "error: `ll-loop web` is served on 127.0.0.1 only\n"
            "   = help: to open it from another machine, use `ssh -L`\n",
            id="another host",
        ),
        pytest.param(
            ["--host=127.0.0.1"],
            "error: `ll-loop web` is served on 127.0.0.1 only\n"
            "   = help: to open it from another machine, use `ssh -L`\n",
            id="its own host",
        ),
        pytest.param(
            ["--edit", "--read-only"],
            "error: `--edit` and `--read-only` cannot be used together\n",
            id="edit and read-only",
        ),
        pytest.param(
            ["--port", "65536"],
            "error: `--port` must be between 0 (any free port) and 65535\n",
            id="port too high",
        ),
        pytest.param(
            ["--port=-1"],
            "error: `--port` must be between 0 (any free port) and 65535\n",
            id="negative port",
        ),
        pytest.param(
            ["--port", "http"],
            "error: argument --port: must be a whole number, not 'http'\n"
            "   = help: see `ll-loop web --help`\n",
            id="a name as port",
        ),
        pytest.param(["nowhere"], "error: `nowhere` is not a directory\n", id="no directory"),
        pytest.param(
            [".loops/wait.yaml"],
            "error: `.loops/wait.yaml` is not a directory\n",
            id="a file",
        ),
        pytest.param(
            ["../home"],
            "error: `HOME` has no loops\n   = help: run `ll-loop init` to create one\n",
            id="no loops",
        ),
        pytest.param(
            [".", "../home"],
            "error: `HOME` has no loops\n   = help: run `ll-loop init` to create one\n",
            id="no loops in the second project",
        ),
    ],
)
def test_what_is_refused(project: Project, words: list[str], error: str):
    done = project.ll("web", *words)
    found = done.stderr.replace(str(project.home), "HOME")
    assert (done.returncode, done.stdout, found) == (2, "", error)


def test_a_port_that_is_taken(project: Project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = project.ll("web", "--port", str(port))
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        (
            f"error: cannot use port {port}: address already in use\n"
            "   = help: leave out `--port` for a free one\n"
        ),
    )


@pytest.mark.parametrize("package", ["uvicorn", "starlette"])
def test_without_the_packages_it_says_how_to_install_them(project: Project, package: str):
    without = project.root.parent / "without"
    without.mkdir()
    missing = f"raise ModuleNotFoundError('No module named {package}', name='{package}')\n"
    (without / f"{package}.py").write_text(missing)
    done = project.ll("web", env={"PYTHONPATH": f"{without}{os.pathsep}{SOURCE}"})
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        (
            "error: `ll-loop web` needs packages that are not installed\n"
            "   = help: `pipx install '.[web]'` in a clone of the ll-loop repository installs them\n"
        ),
    )


# ── what is printed ────────────────────────────────────────────────────────────────────────────

URL = re.compile(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{43})\n")


def printed(project: Project, *words: str, **env: str) -> tuple[str, str]:
    """What it prints until Ctrl-C ends it; the port and the token are left out."""
    with project.started("web", *words, env=env) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        url = URL.fullmatch(line)
        assert url, line
        served = Served(line.rstrip("\n"), child)
        assert served.get("/api/server").status == 200
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0
    assert url[2] not in err
    return out, err.replace(url[1], "PORT")


END = "Ctrl-C stops the server; runs continue\n"
SSH = "on your own machine, run: ssh -L PORT:127.0.0.1:PORT"


@pytest.mark.parametrize(
    ("words", "env", "err"),
    [
        pytest.param([], {}, END, id="here"),
        pytest.param(["--quiet"], {}, "", id="quiet"),
        pytest.param(
            [],
            {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.5 22", "USER": "ada"},
            f"{SSH} ada@10.0.0.5\n{END}",
            id="by ssh",
        ),
        pytest.param(
            [],
            {"SSH_CONNECTION": "::1 50000 fe80::1 2222", "LOGNAME": "ada"},
            f"{SSH} -p 2222 ada@fe80::1\n{END}",
            id="by ssh on another port",
        ),
        pytest.param(
            [],
            {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.5 22", "USER": "a b"},
            f"{SSH} 'a b@10.0.0.5'\n{END}",
            id="a user's name with a blank",
        ),
        pytest.param([], {"SSH_CONNECTION": "10.0.0.9"}, END, id="a connection of another form"),
    ],
)
def test_what_is_printed(project: Project, words: list[str], env: dict[str, str], err: str):
    assert printed(project, *words, **env) == ("", err)


def test_json_is_one_line_with_the_url_and_the_process(project: Project):
    with project.started("web", "--json") as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        found = json.loads(line)
        assert URL.fullmatch(found["url"] + "\n")
        assert found == {"schema": 1, "url": found["url"], "pid": child.pid}
        assert Served(found["url"], child).get("/api/server").status == 200
        child.send_signal(signal.SIGTERM)
        assert child.communicate(timeout=DEADLINE_S) == ("", "")
        assert child.returncode == 0


def test_two_projects_with_the_same_name(project: Project, tmp_path: Path):
    (tmp_path / "second").mkdir()
    other = Project(tmp_path / "second")
    other.loop("more", LOOP.replace("wait", "more"))
    with serving(project, ".", str(other.root), "--read-only") as served:
        assert served.get("/api/server").json["projects"] == [
            {"key": "project", "name": "project", "path": str(project.root)},
            {"key": "project-2", "name": "project", "path": str(other.root)},
        ]
        loops = served.get("/api/loops").json["loops"]
        assert [each["key"] for each in loops] == ["project:wait.yaml", "project-2:more.yaml"]
        assert served.get("/api/loops/project-2:more.yaml").status == 200
        assert served.get("/api/loops/project:more.yaml").status == 404
        assert served.get("/api/loops/more.yaml").status == 404


# ── the browser ────────────────────────────────────────────────────────────────────────────────


class Opened:
    """A page that was opened in a browser: a program that notes its arguments."""

    def __init__(self, url: str, child: pexpect.spawn[str], words: str) -> None:
        self.served = Served(url, cast("Any", child))
        self.child = child
        self.words = words
        self.file = Path(unquote(words.strip().removeprefix("file://")))


@pytest.fixture
def opened(project: Project, tmp_path: Path) -> Iterator[Opened]:
    runtime, browser, noted = (tmp_path / name for name in ("runtime", "browser", "noted"))
    runtime.mkdir(0o700)
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {noted}.new\nmv {noted}.new {noted}\n')
    browser.chmod(0o700)
    env = {"DISPLAY": ":99", "BROWSER": f"{browser} %s", "XDG_RUNTIME_DIR": str(runtime)}
    with terminal(project, "web", env=env, columns=200) as screen:
        screen.child.expect(r"(http://127\.0\.0\.1:\d+/#token=[\w-]{43})\r\n")
        match = cast("re.Match[str]", screen.child.match)
        until(noted.exists, "browser")
        yield Opened(match[1], screen.child, noted.read_text())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_browser_gets_a_private_file_until_the_page_has_asked(opened: Opened):
    token = opened.served.token
    assert (mode(opened.file), mode(opened.file.parent)) == (0o600, 0o700)
    assert f"/#token={token}" in opened.file.read_text()
    server = psutil.Process(opened.child.pid)
    arguments = [each.cmdline() for each in (server, *server.children(recursive=True))]
    assert token not in f"{opened.words} {arguments}"

    host = {"Host": opened.served.host}
    assert opened.served.send("GET", "/", host).status == 200
    wrong = {**host, "Authorization": "Bearer wrong"}
    assert opened.served.send("GET", "/api/server", wrong).status == 401
    assert opened.file.exists()
    assert opened.served.get("/api/server").status == 200
    assert not opened.file.parent.exists()


def test_the_file_for_the_browser_is_also_deleted_by_ctrl_c(opened: Opened):
    child = opened.child
    assert opened.served.send("GET", "/", {"Host": opened.served.host}).status == 200
    assert opened.file.exists()
    child.sendintr()
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0
    assert not opened.file.parent.exists()


# ── its end ────────────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_ends_the_page_and_no_run(project: Project):
    with serving(project) as served, served.stream("/api/stream") as items:
        assert served.post("/api/loops/wait.yaml/run").status == 200
        until(lambda: project.has_event("wait", "action_start"), "action under way")
        assert next(items)
        os.killpg(served.process.pid, signal.SIGINT)
        assert served.process.wait(DEADLINE_S) == 0
        with pytest.raises(ProcessLookupError):
            os.killpg(served.process.pid, 0)
        (project.root / "go").touch()
        assert project.ll("wait", "wait").returncode == 0
