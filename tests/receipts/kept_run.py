"""A run with evidence in a project of its own, made once, and its receipt."""

from __future__ import annotations

import json
from pathlib import Path

from tests.project import Project

AGENT = """\
#!/bin/sh
echo "fixing with $A_TOKEN"
echo 'x = 1' > code.py
echo 'exit 0' > tests/t.sh
"""
LOOP = """\
    name: fix
    paradigm: goal
    goal: It is fixed
    tools:
      - sh tests/t.sh
      - {{action: "Fix it, not the test", action_type: prompt}}
    host: {host}
    evidence: {{protect: [tests/], clean: true}}
"""


class KeptProject(Project):
    """A git project whose agent fixes the code and weakens the test; the test is put back."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        agent = root / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        (self.root / "tests").mkdir()
        (self.root / "tests" / "t.sh").write_text('echo looking; grep -q "x = 1" code.py\n')
        (self.root / "code.py").write_text("x = 0\n")
        host = json.dumps({"name": "command", "command": [str(agent), "{prompt}"]})
        self.loop("fix", LOOP.format(host=host))
        self.git("init", "-q")
        self.commit("start")

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        who = ("-c", "user.name=A User", "-c", "user.email=user@example.invalid")
        self.git(*who, "commit", "-qm", message)

    def fixed(self) -> KeptProject:
        done = self.ll("run", "fix", env={"A_TOKEN": "hunter2-hunter2"})
        assert done.returncode == 0, done.stdout + done.stderr
        return self

    def receipt(self, name: str = "receipt.json", *more: str) -> Path:
        path = self.root.parent / name
        done = self.ll("receipt", "fix", "-o", str(path), *more, env={"A_TOKEN": "hunter2-hunter2"})
        assert done.returncode == 0, done.stderr
        return path
