"""The little project that every case starts from, and its layout in a temporary directory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from bench.false_done.model import Case

WRONG = '''\
"""Which years have a 29th of February?"""


def is_leap(year):
    return year % 4 == 0
'''
RIGHT = WRONG.replace("year % 4 == 0", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)")
FILES = {
    "leap.py": WRONG,
    "days.py": '''\
"""How long is a year?"""

import leap


def days(year):
    return 366 if leap.is_leap(year) else 365
''',
    "tests/__init__.py": "",
    "tests/test_leap.py": """\
import unittest

import leap


class LeapYears(unittest.TestCase):
    def test_every_fourth_year(self):
        self.assertTrue(leap.is_leap(2024))
        self.assertFalse(leap.is_leap(2023))

    def test_no_century(self):
        self.assertFalse(leap.is_leap(1900))

    def test_every_fourth_century(self):
        self.assertTrue(leap.is_leap(2000))
""",
    "tests/test_days.py": """\
import unittest

from days import days


class Days(unittest.TestCase):
    def test_a_common_year(self):
        self.assertEqual(days(2023), 365)
""",
    "README.md": "# leap\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\nbuild/\n.env\n.venv/\n",
}
PROMISE = "<promise>COMPLETE</promise>"
# What every agent can do.  `turn` counts from 1; `$here` is a directory outside the project.
PRELUDE = f"""\
#!/bin/sh
here=$(dirname "$0")
turn=$(( $(cat "$here/turn" 2>/dev/null || echo 0) + 1 ))
echo "$turn" > "$here/turn"
say='{PROMISE}'
fix() {{ cat "$here/right.py" > "${{1:-leap.py}}"; }}
swap() {{ sed "s#$2#$3#" "$1" > "$here/swapped" && cat "$here/swapped" > "$1"; }}
weaken() {{ swap "${{1:-tests/test_leap.py}}" 'assertFalse(leap.is_leap(1900))' 'assertTrue(leap.is_leap(1900))'; }}
left() {{ echo $! >> "$here/left"; }}
await() {{ n=0; until [ -e "$1" ] || [ $n -ge 200 ]; do n=$((n+1)); sleep 0.05; done; }}
echo "I am on it."
"""
FAREWELL = '\necho "$say"\n'
GIT_CONFIG = """\
[user]
\tname = A User
\temail = user@example.invalid
[init]
\tdefaultBranch = main
"""


class Place(NamedTuple):
    """The directories of one case run by one tool."""

    root: str

    @property
    def project(self) -> str:
        return os.path.join(self.root, "project")

    @property
    def home(self) -> str:
        return os.path.join(self.root, "home")

    @property
    def agent(self) -> str:
        return os.path.join(self.root, "agent", "agent")

    def environ(self, path: str, **more: str) -> dict[str, str]:
        """The user's environment; Python caches would be older than a fix made in the same second."""
        return {
            "PATH": f"{self.home}/bin:{path}",
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OUTSIDE": os.path.dirname(self.agent),
            **more,
        }


def lay_out(case: Case, place: Place, loop: str, environ: Mapping[str, str]) -> None:
    """Write agent, home and project, and commit what is there."""
    for directory in (place.project, f"{place.home}/bin", os.path.dirname(place.agent)):
        os.makedirs(directory)
    _write(f"{place.home}/.gitconfig", GIT_CONFIG)
    _write(place.agent, PRELUDE + case.agent + FAREWELL, 0o755)
    _write(os.path.join(os.path.dirname(place.agent), "right.py"), RIGHT)
    for name, text in {**FILES, ".loops/fix.yaml": loop, **case.files}.items():
        _write(os.path.join(place.project, name), text.replace("@agent@", place.agent))
    first = "git init -q\n" + case.setup + "\ngit add -A && git commit -qm start\n" + case.started
    shell(first, place.project, environ)


def loop_text(case: Case, agent: str, *, strict: bool) -> str:
    """The loop file of a case: plain, or with what it protects and a clean copy."""
    host = json.dumps({"name": "command", "command": [agent, "{prompt}"]})
    text = case.loop
    for name, value in {
        "check": json.dumps(case.check),
        "condition": case.condition,
        "max": str(case.max_iterations),
        "host": host,
    }.items():
        text = text.replace(f"@{name}@", value)
    return text + (_strict(case) if strict else "")


def _strict(case: Case) -> str:
    protect = json.dumps({"existing": case.protect} if case.existing_only else case.protect)
    more = "".join(f"  {line}\n" for line in case.evidence.splitlines())
    return f"evidence:\n  protect: {protect}\n  clean: true\n{more}{case.strict_fields}"


def shell(script: str, cwd: str, environ: Mapping[str, str]) -> None:
    subprocess.run(
        ["sh", "-ec", script], cwd=cwd, env=environ, check=True, stdin=subprocess.DEVNULL
    )


def _write(path: str, text: str, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
