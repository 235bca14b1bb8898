"""What `ll-loop init` sees in a project, and which loops it offers for it."""

from __future__ import annotations

import json
import sys

import pytest

from little_loops.cli.setup.detect import read_environment
from little_loops.cli.setup.init import fitting, has_module, in_words
from tests.stand_ins import lay_out, no_modules, nothing

PYPROJECT = '[project]\nname = "x"\ndependencies = []\n'


def everything(name: str) -> str | None:
    return f"/bin/{name}"


def all_modules(python: str, module: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("files", "seen", "commands"),
    [
        pytest.param({}, "no project files", (None, None, None), id="empty"),
        pytest.param(
            {"pyproject.toml": PYPROJECT},
            "python (pyproject.toml)",
            (None, None, None),
            id="python without tools",
        ),
        pytest.param(
            {"pyproject.toml": PYPROJECT + "[dependency-groups]\ndev = ['pytest>=8', 'mypy']\n"},
            "python (pyproject.toml), pytest, mypy",
            ("python3 -m pytest -q", None, "python3 -m mypy ."),
            id="dependency groups",
        ),
        pytest.param(
            {
                "pyproject.toml": "[tool.poetry.group.dev.dependencies]\nPytest = '*'\nruff = '^1'\n",
                "poetry.lock": "",
            },
            "python (pyproject.toml), pytest, ruff",
            ("poetry run python -m pytest -q", "poetry run ruff check --fix .", None),
            id="poetry",
        ),
        pytest.param(
            {
                "pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\nfiles=['a']\n",
                "uv.lock": "",
            },
            "python (pyproject.toml), pytest, ruff, mypy",
            (
                "uv run python -m pytest -q",
                "uv run ruff check --fix .",
                "uv run python -m mypy",
            ),
            id="settings of the tools, uv",
        ),
        pytest.param(
            {"setup.cfg": "[tool:pytest]\n[mypy]\nstrict = true\n", "src/x.py": ""},
            "python (setup.cfg), pytest, mypy",
            ("python3 -m pytest -q", None, "python3 -m mypy src"),
            id="setup.cfg",
        ),
        pytest.param(
            {"requirements.txt": "flask\n", "requirements-dev.txt": "ruff==1.0\n# mypy\n"},
            "python (requirements.txt), ruff",
            (None, "ruff check --fix .", None),
            id="requirements, and a comment that names a tool",
        ),
        pytest.param(
            {"pyproject.toml": "not = = toml", "mypy.ini": "[mypy]\n", ".venv/bin/python3": ""},
            "python (pyproject.toml), mypy",
            (None, None, ".venv/bin/python3 -m mypy ."),
            id="a broken file, an environment of its own",
        ),
        pytest.param(
            {"pyproject.toml": '[project]\ndescription = "pytest, ruff and mypy are great"\n'},
            "python (pyproject.toml)",
            (None, None, None),
            id="tools that are only talked about",
        ),
        pytest.param(
            {"calc.py": "", "test_calc.py": "def test_it():\n    pass\n"},
            "python (calc.py), pytest",
            ("python3 -m pytest -q", None, None),
            id="scripts with tests for pytest",
        ),
        pytest.param(
            {"calc.py": "", "tests/test_calc.py": "import unittest\n"},
            "python (calc.py), unittest",
            ("python3 -m unittest discover -s tests", None, None),
            id="unittest in a folder",
        ),
        pytest.param(
            {"calc.py": "", "tests/__init__.py": "", "tests/test_calc.py": "import unittest\n"},
            "python (calc.py), unittest",
            ("python3 -m unittest", None, None),
            id="unittest in a package",
        ),
        pytest.param(
            {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'},
            "javascript (package.json)",
            (None, None, None),
            id="what npm init writes",
        ),
        pytest.param(
            {
                "package.json": json.dumps(
                    {"scripts": {"test": "vitest", "lint": "eslint .", "typecheck": "tsc"}}
                ),
                "tsconfig.json": "{}",
            },
            "typescript (package.json), test script, lint script, tsc",
            ("npm run -s test", "npm run -s lint -- --fix", "npm run -s typecheck"),
            id="npm",
        ),
        pytest.param(
            {
                "package.json": json.dumps(
                    {"scripts": {"lint": "biome check"}, "devDependencies": {"typescript": "5"}}
                ),
                "tsconfig.json": "{}",
                "pnpm-lock.yaml": "",
            },
            "typescript (package.json), lint script, tsc",
            (None, "pnpm run lint", "node_modules/.bin/tsc --noEmit"),
            id="pnpm, typescript without a script",
        ),
        pytest.param(
            {"package.json": '{"scripts": {"types": "flow"}}', "yarn.lock": ""},
            "javascript (package.json), types script",
            (None, None, "yarn run types"),
            id="yarn, another type checker",
        ),
        pytest.param(
            {"package.json": "[1"},
            "javascript (package.json)",
            (None, None, None),
            id="a broken package.json",
        ),
        pytest.param(
            {"Cargo.toml": '[package]\nname = "x"\n'},
            "rust (Cargo.toml), cargo test, cargo clippy",
            ("cargo test -q", "cargo clippy --all-targets -- -D warnings", None),
            id="rust",
        ),
        pytest.param(
            {"go.mod": "module x\n"},
            "go (go.mod), go test, go vet",
            ("go test ./...", "go vet ./...", None),
            id="go",
        ),
        pytest.param(
            {"go.mod": "module x\n", ".golangci.yaml": ""},
            "go (go.mod), go test, golangci-lint",
            ("go test ./...", "golangci-lint run", None),
            id="go with a linter of its own",
        ),
        pytest.param(
            {"Makefile": "CC := gcc\nbuild test: x\n\tcc x\n.PHONY: lint\nlint_all:\n"},
            "make (Makefile), make test",
            ("make test", None, None),
            id="make",
        ),
        pytest.param(
            {
                "Makefile": "test:\n\tpytest\nlint:\n\truff check\n",
                "pyproject.toml": PYPROJECT + "[tool.pytest]\n",
                "package.json": '{"scripts": {"lint": "x"}}',
            },
            "python (pyproject.toml), javascript (package.json), make (Makefile),"
            " pytest, lint script",
            ("python3 -m pytest -q", "npm run -s lint", None),
            id="several languages: the first that knows",
        ),
    ],
)
def test_it_sees_what_a_project_is_made_of(tmp_path, files, seen, commands):
    found = read_environment(str(lay_out(tmp_path, files)), everything, all_modules)
    told = tuple(None if check is None else check.command for check in found.checks)
    assert (in_words(found, "·"), told) == (f"{seen} · claude, codex", commands)


@pytest.mark.parametrize(
    ("files", "here", "modules", "seen", "names"),
    [
        pytest.param(
            {"pyproject.toml": "[tool.pytest]\n[tool.ruff]\n[tool.mypy]\n"},
            *("python3", "mypy"),
            "python (pyproject.toml), mypy",
            "types tests lint relay deploy empty",
            id="python: only mypy",
        ),
        pytest.param(
            {"test_x.py": "import unittest\n"},
            *("python3", ""),
            "python (test_x.py), unittest",
            "tests relay deploy empty",
            id="unittest comes with Python",
        ),
        pytest.param(
            {"pyproject.toml": "[tool.pytest]\n", "uv.lock": ""},
            *("uv", ""),
            "python (pyproject.toml), pytest",
            "tests relay deploy empty",
            id="uv installs what is missing",
        ),
        pytest.param(
            {"pyproject.toml": "[tool.pytest]\n", "uv.lock": "", ".venv/bin/python3": ""},
            *("python3", "pytest"),
            "python (pyproject.toml), pytest",
            "tests relay deploy empty",
            id="a lock of uv, but no uv",
        ),
        pytest.param(
            {"pyproject.toml": "[tool.ruff]\n", ".venv/bin/ruff": ""},
            *("", ""),
            "python (pyproject.toml), ruff",
            "lint relay deploy empty",
            id="a program of the project's own environment",
        ),
        pytest.param(
            {"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""},
            *("npm", ""),
            "javascript (package.json)",
            "tests relay deploy empty",
            id="no yarn",
        ),
        pytest.param(
            {"Cargo.toml": ""},
            *("cargo", ""),
            "rust (Cargo.toml), cargo test",
            "tests lint relay deploy empty",
            id="cargo without clippy",
        ),
        pytest.param(
            {"go.mod": "", ".golangci.yml": ""},
            *("golangci-lint", ""),
            "go (go.mod), golangci-lint",
            "lint tests relay deploy empty",
            id="a linter without its language",
        ),
    ],
)
def test_found_is_only_what_is_installed(tmp_path, files, here, modules, seen, names):
    found = read_environment(
        str(lay_out(tmp_path, files)),
        lambda name: f"/bin/{name}" if name in here.split() else None,
        lambda python, module: module in modules.split(),
    )
    assert in_words(found, "·") == f"{seen} · no agent CLI"
    assert fitting(found) == names.split()


def test_a_python_is_asked_for_its_modules():
    assert has_module(sys.executable, "pytest")
    assert not has_module(sys.executable, "no_such_module")
    assert not has_module("/no/such/python", "pytest")


def test_it_sees_git_and_agents(tmp_path):
    (tmp_path / ".git").mkdir()
    found = read_environment(str(tmp_path), everything, all_modules)
    assert in_words(found, "-") == "no project files - git - claude, codex"


@pytest.mark.parametrize(
    ("files", "names"),
    [
        pytest.param({}, "empty relay deploy", id="nothing known"),
        pytest.param(
            {"pyproject.toml": "[tool.mypy]\n[tool.ruff]\n"},
            "lint types relay deploy empty",
            id="what is known comes first",
        ),
    ],
)
def test_it_offers_what_fits(tmp_path, files, names):
    found = read_environment(str(lay_out(tmp_path, files)), nothing, no_modules)
    assert fitting(found) == names.split()
