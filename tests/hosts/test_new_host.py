"""A new agent CLI is one module and one name: shown by adding one to a copy of the sources."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.project import Project

SOURCES = Path(__file__).parents[2] / "src"
ECHO = '''\
"""The host `echo`: answers with what it is asked."""

from little_loops.hosts.base import Launch, Probe, int_term_kill
from little_loops.hosts.plain import PlainReader


class EchoHost:
    name = "echo"
    has_slash = False
    counts = ()

    def probe(self, which, run, command=()):
        return Probe(which("echo"), "1", True)

    def recognises(self, action):
        return False

    def needs_consent(self, permission_mode):
        return False

    def check_options(self, options):
        return []

    def build(self, request):
        return Launch(("echo", request.action), dict(request.env), b"", session_id=None)

    def reader(self, request):
        return PlainReader(request, "echo")

    def stop_plan(self, kill_grace_s):
        return int_term_kill(kill_grace_s)


HOST = EchoHost()
'''
LOOP = """\
initial: ask
host: echo
states:
  ask: {action: Say hello, action_type: prompt, next: done}
  done: {terminal: true}
"""


def test_a_host_is_added_by_a_module_and_a_name(project: Project, tmp_path: Path) -> None:
    copy = tmp_path / "src"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "little_loops/hosts/echo.py").write_text(ECHO)
    schema = copy / "little_loops/fsm/schema.py"
    text, count = re.subn(r'("claude", "codex", )', r'\1"echo", ', schema.read_text())
    schema.write_text(text)
    project.loop("greet", LOOP)

    def ll(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "little_loops", *words],
            cwd=project.root,
            env=project.environ(PYTHONPATH=str(copy)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert count == 1, "the names of hosts stand in one place"
    assert ll("validate", "greet").returncode == 0
    ended = ll("run", "greet")
    assert ended.stdout.splitlines()[:2] == [
        '[1/50] ask → running "Say hello"...',
        "       ✓ Say hello",
    ]
    assert ended.returncode == 0
