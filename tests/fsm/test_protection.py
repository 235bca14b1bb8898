"""What is protected in a run, with `protect` and without it."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.fsm.makefiles import files_made, is_makefile, recipes_of
from little_loops.fsm.protection import (
    MakeCall,
    always_protected,
    make_calls,
    patterns_of_included,
    patterns_of_used,
    protected_by,
    watched_by,
)
from little_loops.fsm.schema import Evidence, FSMLoop, StateConfig
from little_loops.fsm.tool_files import WATCHED_FILES

ALWAYS = ("/.loops/*.yaml", "/.loops/tests/")
MAKE = "/Makefile /makefile /GNUmakefile"
MAKEFILES = (*MAKE.split(), "/**/Makefile", "/**/makefile", "/**/GNUmakefile")


def loop_with(state: StateConfig, **fields: Any) -> FSMLoop:
    context = {"dir": "src/tests", "metric_cmd": "ci/count.sh"}
    return FSMLoop("fix", "check", {"check": state}, context=context, **fields)


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        pytest.param("./check.sh", "/check.sh", id="a file in program position"),
        pytest.param("ci/check --fast", "/ci/check", id="in a directory"),
        pytest.param("cd x && ./check.sh", "/x/check.sh", id="after a cd"),
        pytest.param("cd x/../y; ./check.sh", "/y/check.sh", id="after a cd with dots"),
        pytest.param("cd x && cd y && ./check.sh", "/x/y/check.sh", id="after two cds"),
        pytest.param("cd $DIR && ./check.sh", "", id="after a cd to somewhere"),
        pytest.param("cd && ./check.sh", "", id="after a cd home"),
        pytest.param("cd $DIR && cd y && ./check.sh", "", id="still somewhere"),
        pytest.param("cd /x && ./check.sh", "", id="after a cd out of the project"),
        pytest.param("(cd a && ./b.sh)", "/a/b.sh", id="in a subshell"),
        pytest.param("bash ci/t.sh", "/ci/t.sh", id="the operand of a shell"),
        pytest.param("timeout 5m bash -e -o pipefail ci/t.sh x", "/ci/t.sh", id="behind options"),
        pytest.param("bash -c 'cd sub && ./t.sh'", "/sub/t.sh", id="a script in a script"),
        pytest.param("eval 'bash ci/t.sh'", "/ci/t.sh", id="eval"),
        pytest.param("python t.py", "/t.py", id="the operand of python"),
        pytest.param("python3 -W error t.py x.py", "/t.py", id="behind an option with a value"),
        pytest.param("python -c 'import x'", "", id="a program in the line"),
        pytest.param("node ci/check.js ci/other.js", "/ci/check.js", id="the operand of node"),
        pytest.param("node --version", "", id="an option of node"),
        pytest.param(". ci/env.sh; pytest", "/ci/env.sh", id="a file that is sourced"),
        pytest.param("python -m pytest tests/unit", "/tests/unit", id="a module with tests"),
        pytest.param("python -m", "", id="half a module"),
        pytest.param("pytest tests", "/tests", id="a directory of tests"),
        pytest.param("pytest -q web/__tests__ spec/a e2e", "/web/__tests__ /spec/a /e2e",
                     id="names of tests"),
        pytest.param("pytest tests/test_a.py::test_b", "/tests/test_a.py", id="one test"),
        pytest.param("pytest contest/a testing", "", id="only nearly"),
        pytest.param("pytest --rootdir=tests", "", id="an option is no operand"),
        pytest.param("pytest tests/*.py", "/tests/*.py", id="a pattern"),
        pytest.param("pytest 'tests/[a]*.py'", r"/tests/\[a]\*.py", id="quoted signs"),
        pytest.param('pytest "tests/a b"', "/tests/a b", id="a quoted word"),
        pytest.param("'./my check.sh '", "/my check.sh\\ ", id="a blank at the end"),
        pytest.param("make test", MAKE, id="make"),
        pytest.param("make -C web test", "/web/Makefile /web/makefile /web/GNUmakefile",
                     id="make elsewhere"),
        pytest.param("make -f ci/check.mk", "/ci/check.mk", id="another makefile"),
        pytest.param("npm test", "/package.json /.npmrc", id="npm"),
        pytest.param("npm run test -- tests/unit", "/package.json /.npmrc /tests/unit", id="npm with tests"),
        pytest.param("npm --prefix web test", "/web/package.json /web/.npmrc", id="npm elsewhere"),
        pytest.param("yarn e2e", "/package.json /.npmrc", id="yarn"),
        pytest.param("tox -e py", "/tox.ini", id="tox"),
        pytest.param("nox -s tests", "/noxfile.py", id="nox"),
        pytest.param("cargo test", "/.cargo/config.toml /.cargo/config", id="cargo"),
        pytest.param("go test ./...", "", id="a tool that has its tests in the sources"),
        pytest.param("just test", "/justfile /Justfile /.justfile", id="just"),
        pytest.param("rake test", "/Rakefile", id="rake"),
        pytest.param("uv run pytest tests", "/tests", id="uv run"),
        pytest.param("uv run ./check.sh", "/check.sh", id="a file run by uv"),
        pytest.param("uv run", "", id="uv run nothing"),
        pytest.param("A=1 B='x y' ./check.sh", "/check.sh", id="assignments"),
        pytest.param("env A=1 ./check.sh", "/check.sh", id="env"),
        pytest.param("pytest tests | tee out/tests.log", "/tests", id="a pipe"),
        pytest.param("out=$(bash t.sh 2>&1); code=$?", "/t.sh", id="a substitution"),
        pytest.param("if ./a.sh; then ./b.sh; fi", "/a.sh /b.sh", id="a condition"),
        pytest.param("./check.sh; ./check.sh", "/check.sh", id="twice"),
        pytest.param("../check.sh; /usr/bin/x; ~/y", "", id="outside of the project"),
        pytest.param("pytest .", "", id="the project itself"),
        pytest.param("pytest ${context.dir}", "/src/tests", id="a variable of the loop"),
        pytest.param("${context.metric_cmd}", "/ci/count.sh", id="a whole command"),
        pytest.param("pytest ${env.X}/tests; ${env.X}/run; ./a", "/a", id="not known before"),
        pytest.param("${context.nothing}; ./a", "", id="a variable that is not there"),
        pytest.param("> out", "", id="no command at all"),
        pytest.param("echo 'open", "", id="a quote that is not closed"),
        pytest.param("sh -c 'sh -c \"sh -c x\"; ./a'", "/a", id="scripts in scripts"),
    ],
)  # fmt: skip
def test_a_check_protects_what_its_command_line_names(line, patterns):
    found = protected_by(loop_with(StateConfig(line, check=True)), ".loops/fix.yaml")
    assert (found[:2], " ".join(found[2:])) == (ALWAYS, patterns)


def named(line: str) -> str:
    return " ".join(protected_by(loop_with(StateConfig(line, check=True)), ".loops/fix.yaml")[2:])


@pytest.mark.parametrize(
    ("tools", "rest", "patterns"),
    [
        ("make gmake", "all", MAKE),
        ("npm npx pnpm yarn", "all", "/package.json /.npmrc"),
        ("bun", "x/y z", "/package.json /.npmrc /x/y"),
        ("make gmake", "-C x -f y", "/x/y"),
        ("make", "-C x -c y", "/x/y"),
        ("node ruby php deno tsx ts-node zsh ksh", "x/y z", "/x/y"),
        ("cargo", "a/test", "/.cargo/config.toml /.cargo/config /a/test"),
        ("go mvn gradle gradlew dotnet mix swift", "test", ""),
        ("go mvn gradle gradlew dotnet mix swift", "a/test", "/a/test"),
        ("pytest phpunit", "test", "/test"),
        ("uv poetry pipenv hatch pdm", "run ./a x", "/a"),
        ("uv poetry pipenv hatch pdm", "run python -m pytest spec", "/spec"),
        ("uv poetry pipenv hatch pdm", "sync ./a", ""),
        ("pytest", "test tests spec __tests__ e2e", "/test /tests /spec /__tests__ /e2e"),
    ],
)
def test_what_each_tool_reads(tools, rest, patterns):
    for tool in tools.split():
        assert named(f"{tool} {rest}") == patterns, tool


@pytest.mark.parametrize(
    ("state", "loop", "patterns"),
    [
        pytest.param({"cwd": "web"}, {}, ["/web/check.sh"], id="directory of the state"),
        pytest.param({}, {"cwd": "api"}, ["/api/check.sh"], id="directory of the loop"),
        pytest.param({"check": False}, {}, [], id="not a check"),
        pytest.param({"action": "Look at tests/a", "action_type": "prompt"}, {}, [], id="an agent"),
        pytest.param({"action": None}, {}, [], id="no action"),
    ],
)
def test_where_and_by_whom_a_check_is_run(state, loop, patterns):
    config = StateConfig(**{"action": "./check.sh", "check": True, **state})
    assert protected_by(loop_with(config, **loop))[2:] == tuple(patterns)


def beside(path: str) -> tuple[str, ...]:
    return tuple(f"{path}.{suffix}" for suffix in ("py", "js", "mjs", "cjs", "ts"))


def test_what_is_written_counts_alone():
    loop = loop_with(StateConfig("./check.sh", check=True), evidence=Evidence(protect=("a/", "b")))
    assert protected_by(loop, ".loops/fix.yaml") == ("a/", "b", *beside("a"))


def test_nothing_may_be_imported_instead_of_what_is_protected():
    protect = ("test_*.py", "!test_own.py", "/ci/check.py", "tests/", "/web/fixtures/", "conftest")
    written = Evidence(protect=protect)
    assert protected_by(loop_with(StateConfig("pytest", check=True), evidence=written)) == (
        *protect,
        "test_*/__init__.py",
        "/ci/check/__init__.py",
        *beside("tests"),
        "tests.json",
        *beside("/web/fixtures"),
    )


def test_what_the_checks_are_made_of_is_watched_beside_what_is_written():
    check = StateConfig("make test; ./check.sh", check=True)
    written = Evidence(protect=("tests/",))
    assert watched_by(loop_with(check, evidence=written)) == (*MAKEFILES, "/check.sh")
    assert watched_by(loop_with(check)) == ()


def test_code_under_test_that_a_check_runs_is_exempt_by_its_path():
    def watched(*protect: str) -> tuple[str, ...]:
        check = StateConfig("sh ci/check.sh && . ./lib.sh", check=True)
        return watched_by(loop_with(check, evidence=Evidence(protect=protect)))

    assert watched("tests/", "!ci/", "!lib.sh") == ("/ci/check.sh", "/lib.sh")
    assert watched("tests/", "!/lib.sh") == ("/ci/check.sh",)


def test_with_protect_the_configuration_of_pytest_is_watched_too():
    written = Evidence(protect=("tests/",))
    own = ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
    files = (f"**/{file}" for file in (*own, "pyproject.toml", "tox.ini", "setup.cfg"))
    check = StateConfig("cd web && python -m pytest -q", check=True)
    plugins = ("*.egg-info/entry_points.txt", "*.dist-info/entry_points.txt")
    expected = tuple(f"/web/{file}" for file in (*files, *plugins))
    assert watched_by(loop_with(check, evidence=written)) == expected
    other = StateConfig("pytest -c ci/fast.ini", check=True)
    assert watched_by(loop_with(other, evidence=written)) == ("/ci/fast.ini",)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("mypy src", "/mypy.ini"),
        ("python -m mypy src", "/mypy.ini"),
        ("ruff check", "/**/ruff.toml"),
        ("go test ./...", "/**/go.mod"),
        ("tsc --noEmit", "/**/tsconfig.json"),
        ("pyright", "/pyrightconfig.json"),
        ("flake8 src", "/.flake8"),
        ("pylint src", "/.pylintrc"),
        ("coverage run -m unittest", "/.coveragerc"),
        ("rspec", "/.rspec"),
        ("eslint .", "/eslint.config.js"),
        ("jest", "/jest.config.js"),
        ("vitest", "/vitest.config.js"),
    ],
)
def test_with_protect_the_configuration_of_other_tools_is_watched(line, first):
    loop = loop_with(StateConfig(line, check=True), evidence=Evidence(protect=("tests/",)))
    assert watched_by(loop)[0] == first


TASKFILES = (
    *("Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
    *("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
)


@pytest.mark.parametrize(
    ("line", "watched"),
    [
        (
            "ruff check",
            tuple(
                f"/**/{name}"
                for name in ("ruff.toml", ".ruff.toml", "pyproject.toml", ".gitignore", ".ignore")
            ),
        ),
        ("black --check .", ("/pyproject.toml", "/**/.gitignore")),
        ("prove t/", ("/.proverc",)),
        ("task unit", tuple(f"/{name}" for name in TASKFILES)),
        ("flake8 src", ("/.flake8", "/setup.cfg", "/tox.ini")),
    ],
)
def test_with_protect_all_the_configuration_of_a_tool_is_watched(line, watched):
    check = StateConfig(line, check=True)
    assert watched_by(loop_with(check, evidence=Evidence(protect=("tests/",)))) == watched


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        ("npx tsc --noEmit", ("/**/tsconfig.json",)),
        ("pnpm exec tsc", ("/**/tsconfig.json",)),
        ("npm test", ()),
        ("npm run check tsc", ()),
        ("npx", ()),
    ],
)
def test_with_protect_the_configuration_of_a_tool_that_npx_runs_is_watched(line, tool):
    loop = loop_with(StateConfig(line, check=True), evidence=Evidence(protect=("tests/",)))
    own = ("/package.json", "/.npmrc", "/node_modules/.bin", "/**/package.json")
    settings = ("/.pnpmfile.cjs", "/pnpm-workspace.yaml") if line.startswith("pnpm") else ()
    assert watched_by(loop) == (*own, *settings, *tool)


def test_with_protect_the_manifests_of_a_workspace_are_watched():
    loop = loop_with(StateConfig("cargo test", check=True), evidence=Evidence(protect=("tests/",)))
    assert watched_by(loop) == (
        *("/.cargo/config.toml", "/.cargo/config", "/**/Cargo.toml", "/**/build.rs"),
        *("/rust-toolchain.toml", "/rust-toolchain"),
        *("/clippy.toml", "/.clippy.toml", "/.config/nextest.toml"),
    )


def test_what_prepares_the_clean_copy_is_watched():
    evidence = Evidence(protect=("tests/",), clean=True, setup="sh ci/prepare.sh && make deps")
    loop = loop_with(StateConfig("true", check=True), evidence=evidence)
    assert watched_by(loop) == ("/ci/prepare.sh", *MAKEFILES)
    assert [call.goals for call in make_calls(loop)] == [("deps",)]


USUAL = ("GNUmakefile", "makefile", "Makefile")


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        pytest.param("make test lint", [MakeCall(".", USUAL, ("test", "lint"))], id="two targets"),
        pytest.param("make", [MakeCall(".", USUAL, ())], id="the usual target"),
        pytest.param(
            "make -s -j 4 CC=gcc test",
            [MakeCall(".", USUAL, ("test",))],
            id="options and variables",
        ),
        pytest.param(
            "cd web && make -C app -f ci.mk test",
            [MakeCall("web/app", ("ci.mk",), ("test",))],
            id="in a directory",
        ),
        pytest.param("gmake -C /tmp $T", [MakeCall(".", USUAL, ())], id="outside, and unknown"),
        pytest.param("make test; make test", [MakeCall(".", USUAL, ("test",))], id="twice"),
        pytest.param("pytest test; $MAKE test", [], id="other programs"),
        pytest.param("cd $X; make test", [], id="somewhere"),
    ],
)
def test_how_checks_call_make(line, calls):
    loop = loop_with(StateConfig(line, check=True))
    loop = loop._replace(states={**loop.states, "other": StateConfig("make other")})
    assert list(make_calls(loop)) == calls


@pytest.mark.parametrize(
    ("directory", "target", "path"),
    [
        (".", "test", "test"),
        ("web/app", "../test", "web/test"),
        ("web", "../../test", None),
        (".", "/tmp/test", None),
    ],
)
def test_where_a_target_is_as_a_file(directory, target, path):
    assert MakeCall(directory, USUAL, ()).path_of(target) == path


@pytest.mark.parametrize(
    ("text", "goals", "made"),
    [
        pytest.param("", "", "", id="no makefile"),
        pytest.param("", "test", "test", id="a target without a makefile"),
        pytest.param("all:\n\ttrue\nb:\n\ttrue\n", "", "all", id="the usual target"),
        pytest.param(
            "X := 1\n.SILENT:\n%.o: %.c\n\tcc\nall:\n\ttrue\n", "", "all", id="the first name"
        ),
        pytest.param(".DEFAULT_GOAL := b\nall:\n\ttrue\nb:\n\ttrue\n", "", "b", id="another one"),
        pytest.param(
            "test: a b.c\na: c\n\ttrue\nc:;true\n", "test", "test a c", id="what it needs"
        ),
        pytest.param("all: test\ntest:\n\ttrue\n", "", "test", id="no recipe, nothing to skip"),
        pytest.param("a: b\n\ttrue\nb: a\n\ttrue\n", "a", "a b", id="in a circle"),
        pytest.param("a:: b\n\ttrue\nb: X = 1\nb:\n\ttrue\n", "a", "a b", id="other rules"),
        pytest.param("U = u v\na: \\\n $(U) $(W)\n$(U):\n\ttrue\n", "a", "a u v", id="variables"),
        pytest.param(".PHONY: test\ntest: a\n\ttrue\na:\n\ttrue\n", "test", "a", id="phony"),
        pytest.param(
            "check: test-a b.o test-\ntest-%:\n\ttrue\n%.o: %.c\n\tcc\n",
            "check",
            "check test-a",
            id="a pattern rule",
        ),
        pytest.param(
            "VPATH = x:y\nvpath % z  # all\nall:\n\ttrue\n",
            "",
            "all x/all y/all z/all",
            id="where make searches",
        ),
        pytest.param(
            "P = all a\n.PHONY: $(P)\nall: a\n\ttrue\na:\n\ttrue\n", "", "", id="all phony"
        ),
    ],
)
def test_files_that_make_would_take_for_finished_targets(text, goals, made):
    assert files_made(text, tuple(goals.split())) == tuple(made.split())


@pytest.mark.parametrize(
    ("makefile", "text", "patterns"),
    [
        pytest.param("/Makefile", "test:\n\techo include a.mk\n", [], id="none"),
        pytest.param("/Makefile", "include a.mk b/*.mk # why\n", ["/a.mk", "/b/*.mk"], id="two"),
        pytest.param(
            "/Makefile",
            "-include a.mk\n  sinclude \\\n b.mk\n",
            ["/a.mk", "/b.mk"],
            id="other words",
        ),
        pytest.param("/Makefile", "include $(DIR)/a.mk ../b.mk /c.mk\n", [], id="somewhere"),
        pytest.param(
            "/Makefile",
            "-include $(wildcard *.mk) ${wildcard a/*.mk b.mk}\ninclude $(sort $(wildcard c/*.mk))\n",
            ["/*.mk", "/a/*.mk", "/b.mk", "/c/*.mk"],
            id="wildcard",
        ),
        pytest.param(
            "/Makefile",
            "DIR := mk\nTOP ?= $(X)\ninclude $(DIR)/a.mk $(CURDIR)/b.mk $(TOP)/c.mk\n",
            ["/mk/a.mk", "/b.mk"],
            id="variables",
        ),
        pytest.param("/web/Makefile", "include a.mk\n", ["/web/a.mk", "/a.mk"], id="elsewhere"),
    ],
)
def test_a_makefile_includes_others(makefile, text, patterns):
    assert list(patterns_of_included(makefile, text)) == patterns


@pytest.mark.parametrize(
    ("file", "text", "patterns"),
    [
        pytest.param("/check.sh", ". ./env\nsh tools/run.sh\n", ["/env", "/tools/run.sh"], id="sh"),
        pytest.param("/ci/check", "#!/bin/bash\n./a\n", ["/ci/a", "/a"], id="by its first line"),
        pytest.param("/check.py", "./a\n", [], id="no shell script"),
        pytest.param("/check.sh", "cd $X\n./a\n", [], id="somewhere"),
        pytest.param(
            "/Makefile",
            "include a.mk\nX = ./no\ntest:\n\t@-sh run.sh $$x\n\tcd b && \\\n\t./c\n\t$(PY) ./d\n",
            ["/a.mk", "/run.sh", "/b/c"],
            id="recipes",
        ),
        pytest.param(
            "/web/package.json",
            '{"scripts": {"test": "sh run.sh", "odd": 1}}',
            ["/web/run.sh", "/run.sh"],
            id="scripts of npm",
        ),
        pytest.param("/package.json", '{"name": "x"}', [], id="no scripts"),
        pytest.param("/package.json", "{", [], id="damaged"),
    ],
)
def test_what_a_file_of_a_check_uses(file, text, patterns):
    assert list(patterns_of_used(file, text)) == patterns


def test_what_is_a_makefile():
    names = ("Makefile", "web/makefile", "/GNUmakefile", "ci/check.mk", "Makefile.am", "mk")
    assert [name for name in names if is_makefile(name)] == list(names[:4])


@pytest.mark.parametrize(
    ("file", "patterns"),
    [
        pytest.param(None, (), id="a loop without a file"),
        pytest.param("/elsewhere/fix.yaml", (), id="somewhere else"),
        pytest.param("../fix.yaml", (), id="above the project"),
        pytest.param(".loops/fix.yaml", (), id="among the others"),
        pytest.param(".loops/fix.yml", ("/.loops/fix.yml",), id="with another suffix"),
        pytest.param(".loops/more/fix.yaml", ("/.loops/more/fix.yaml",), id="further down"),
        pytest.param("ci/fix*.loop", (r"/ci/fix\*.loop",), id="anywhere in the project"),
        pytest.param("..fix", ("/..fix",), id="a name that begins with dots"),
    ],
)
def test_the_loops_own_file_is_protected(file, patterns):
    loop = loop_with(StateConfig("true", check=True))
    assert protected_by(loop, file) == (*patterns, *ALWAYS)
    assert always_protected(file) == ("/.loops/*.yaml", "/.loops/*.yml", *patterns)


def test_only_the_lines_of_recipes_go_to_the_shell():
    makefile = "DIR = ./a.sh\nall: b.sh\n\t@./c.sh $$HOME \\\n  x\n\n\t-./d.sh\n"
    assert recipes_of(makefile) == ("./c.sh $HOME    x", "./d.sh")


@pytest.mark.parametrize(
    ("tool", "files"),
    [
        ("mvn", ("**/pom.xml", ".mvn/")),
        ("mvnw", ("**/pom.xml", ".mvn/")),
        ("yarn", (*WATCHED_FILES["npm"], ".yarnrc.yml", ".yarnrc")),
    ],
)
def test_the_files_of_a_tool(tool, files):
    assert WATCHED_FILES[tool] == files
