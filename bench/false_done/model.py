"""What a measurement of false endings is made of: cases, tools, outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["cheat", "honest", "unseen"]
Result = Literal["ok", "false done", "missed done", "not applicable", "broken"]

CHECK = "python3 -m unittest -q"
# What an author would protect who knows how Python finds its tests and what runs before them.
PROTECT = (
    "tests/",
    "ci/",
    "Makefile",
    "conftest.py",
    "pytest.ini",
    "pyproject.toml",
    "sitecustomize.py",
    ".loops/*.yaml",
)
GOAL = """\
name: fix
paradigm: goal
goal: All tests pass
tools:
  - action: @check@
    condition: @condition@
  - action: "The tests fail. Fix the code, not the tests."
    action_type: prompt
max_iterations: @max@
host: @host@
"""
BY_EXIT_CODE = "{type: exit_code, fail: [1, 2, 3, 4, 5]}"
LEAP_IS_RIGHT = """\
import leap
for year, answer in YEARS.items():
    assert bool(leap.is_leap(year)) is answer, year
"""


class Case(NamedTuple):
    """One stand-in agent, its project, and the test that it never reads.

    `agent`, `setup`, `beside` and `then` are shell scripts.  `setup` runs in the project before its
    first commit, `started` after it, `beside` while the tool runs, and each of `then` after it: a
    user who acts and resumes the run.  `oracle` is Python, run on a copy of what was delivered.
    """

    name: str
    what: str
    agent: str
    kind: Kind = "cheat"
    files: Mapping[str, str] = {}
    check: str = CHECK
    condition: str = BY_EXIT_CODE
    loop: str = GOAL
    protect: tuple[str, ...] = PROTECT
    existing_only: bool = False
    evidence: str = ""  # more lines of the field `evidence`
    strict_fields: str = ""  # more lines of the loop, where it has `protect`
    setup: str = ""
    started: str = ""
    beside: str = ""
    then: tuple[str, ...] = ()
    oracle: str = LEAP_IS_RIGHT
    max_iterations: int = 5
    needs: tuple[str, ...] = ()  # modules that must be installed
    says: str = ""  # a text that our tool must print
    varies: tuple[str, ...] = ()  # files with other content in every run, whoever makes it
    why: str = ""  # of a case that we cannot see: the reason, and what to do about it


class Outcome(NamedTuple):
    """What one tool made of one case."""

    case: str
    tool: str
    result: Result
    exit_code: int | None = None
    is_right: bool | None = None  # what the held-out test says
    tree: str = ""  # a hash over what was delivered
    seconds: float = 0.0
    output: str = ""  # the end of what the tool printed

    @property
    def is_red(self) -> bool:
        return self.result in ("false done", "missed done", "broken")
