"""The design's sample run: its lines as they are printed there, and its events."""

from __future__ import annotations

import re
from typing import Any

from tests.project import Project

LOOP = """\
name: fix-types
initial: check
max_iterations: 20
states:
  check: {action: "mypy src/", on_pass: done, on_fail: fix}
  fix: {action: "/ll:manage_issue bug fix", next: check}
  done: {terminal: true}
"""
MYPY = 'n=$(cat left 2>/dev/null || echo 12); echo "$n errors"; [ "$n" -eq 0 ]'
CLAUDE = """\
[ "$1" = plugin ] && echo "[]" && exit
cat > /dev/null
n=$(cat left 2>/dev/null || echo 12)
m=$((n > 8 ? 8 : n)); echo $((n - m)) > left; echo "fixed $m errors"
"""
LINES = """\
[1/20] check → running mypy src/...
       ✗ 12 errors (exit 1)
       → fix (on_fail)
[1/20] fix → running /ll:manage_issue...
       ✓ fixed 8 errors
       → check
[2/20] check → running mypy src/...
       ✗ 4 errors (exit 1)
       → fix (on_fail)
[2/20] fix → running /ll:manage_issue...
       ✓ fixed 4 errors
       → check
[3/20] check → running mypy src/...
       ✓ 0 errors (exit 0)
       → done (on_pass)

Loop completed: done (3 iterations, TIME)
"""
DESIGN = {
    "loop_start": ("loop",),
    "state_enter": ("state", "iteration"),
    "action_start": ("action",),
    "action_complete": ("exit_code",),
    "transition": ("from", "to", "reason"),
    "loop_complete": ("final_state", "iterations"),
}
ROUND = [
    ("state_enter", "check", 1),
    ("action_start", "mypy src/"),
    ("action_complete", 1),
    ("transition", "check", "fix", "on_fail"),
    ("state_enter", "fix", 1),
    ("action_start", "/ll:manage_issue bug fix"),
    ("action_complete", 0),
    ("transition", "fix", "check", "next"),
]


def test_the_sample_reads_as_the_design_prints_it(project: Project):
    programs = project.home / "bin"
    programs.mkdir()
    for name, body in (("mypy", MYPY), ("claude", CLAUDE)):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    project.loop("fix-types", LOOP)
    env = {
        "PATH": f"{programs}:{project.environ()['PATH']}",
        "IS_SANDBOX": "1",
        "LL_ALLOW_SKIP_PERMISSIONS": "1",
    }
    said = project.ll("run", "fix-types.yaml", env=env)
    assert re.sub(r", [\dms. ]+\)", ", TIME)", said.stdout) == LINES
    assert said.returncode == 0
    second = [(*event[:2], 2) if event[0] == "state_enter" else event for event in ROUND]
    assert as_designed(project.events("fix-types")) == [
        ("loop_start", "fix-types"),
        *ROUND,
        *second,
        ("state_enter", "check", 3),
        ("action_start", "mypy src/"),
        ("action_complete", 0),
        ("transition", "check", "done", "on_pass"),
        ("state_enter", "done", 3),
        ("loop_complete", "done", 3),
    ]


def as_designed(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Without the types and fields that were added, and without times."""
    return [
        (event["event"], *(event[field] for field in DESIGN[event["event"]]))
        for event in events
        if event["event"] in DESIGN
    ]
