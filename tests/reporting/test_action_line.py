"""What is shown of an action on one line."""

from __future__ import annotations

import pytest

from little_loops.fsm.events import ActionStart
from little_loops.reporting.action_line import running

PYTEST = """\
python3 -c 'import pytest' || { echo 'FATAL_ERROR: pytest is not installed'; exit 127; }
python3 -m pytest -q"""
UNITTEST = """\
out=$(python3 -m unittest 2>&1); code=$?
printf '%s\\n' "$out"
exit "$code\""""
SETTINGS = """\
#!/bin/sh
# All of them.
set -eu
cd web
export CI=true
mode=fast

npm test \\
  --coverage"""
LONG = "pytest " + " ".join(f"tests/test_{number}.py" for number in range(20))


@pytest.mark.parametrize(
    ("kind", "action", "label", "line"),
    [
        pytest.param("shell", "mypy src/", None, "mypy src/...", id="a command"),
        pytest.param("shell", PYTEST, None, "python3 -m pytest -q...", id="after a guard"),
        pytest.param("shell", UNITTEST, None, "python3 -m unittest...", id="inside $()"),
        pytest.param("shell", SETTINGS, None, "npm test...", id="after settings"),
        pytest.param("shell", "cd web && npm t\nexit", None, "cd web && npm t...", id="cd && work"),
        pytest.param("shell", "set -e\ncd web", None, "set -e...", id="nothing but settings"),
        pytest.param(
            "shell", "ruff check .", None, "ruff check . ...", id="an operand that is a dot"
        ),
        pytest.param(
            "shell",
            LONG,
            None,
            "pytest tests/test_0.py tests/test_1.py tests/test_2.py tests/test_3.py...",
            id="a long command",
        ),
        pytest.param("prompt", "Fix it.\nAll of it.", None, '"Fix it."...', id="a prompt"),
        pytest.param(
            "slash", "/ll:check_code lint", None, "/ll:check_code...", id="a slash command"
        ),
        pytest.param("slash", "", None, "...", id="an empty one"),
        pytest.param("builtin", "relay.prepare", None, "relay.prepare...", id="a built-in"),
        pytest.param("shell", PYTEST, "the tests", "the tests...", id="a label"),
        pytest.param("shell", "true", "first\n  line.", "first line...", id="a label in two lines"),
    ],
)
def test_the_running_line_shows_what_does_the_work(
    kind: str, action: str, label: str | None, line: str
) -> None:
    event = ActionStart(action, "check", 1, kind, label=label)
    assert running(event) == f"running {line}"


@pytest.mark.parametrize(
    ("filled", "line"),
    [
        pytest.param("Fix 3 errors.", '"Fix 3 errors."...', id="values"),
        pytest.param(
            "Fix the tests; see /home/you/project/.loops/.running/fix-tests.d/evaluate.log. Be quick.",
            '"Fix the tests; see .loops/.running/fix-tests.d/evaluate.log. Be quick."...',
            id="a file of the run",
        ),
        pytest.param(f"See {'x' * 200}", f'"See {"x" * 76}…"...', id="one long word"),
    ],
)
def test_the_running_line_has_the_values(filled: str, line: str) -> None:
    event = ActionStart("Fix ${prev.output}.", "fix", 1, "prompt", filled=filled)
    assert running(event) == f"running {line}"
