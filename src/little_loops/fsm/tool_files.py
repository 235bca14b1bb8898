"""Which files a tool reads before it runs a check: its configuration, and what it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from little_loops.fsm.makefiles import NAMES

PACKAGE_JSON = "package.json"
RUN_TOOLS = ("npm", "npx", "pnpm", "yarn", "bun")
_PACKAGE = (PACKAGE_JSON, ".npmrc")
_CARGO = (".cargo/config.toml", ".cargo/config")
ConfigFiles = Mapping[str, tuple[str, ...]]
CONFIG_FILES: ConfigFiles = {
    **dict.fromkeys(("make", "gmake"), NAMES),
    **dict.fromkeys(RUN_TOOLS, _PACKAGE),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "cargo": _CARGO,
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile",),
}
"""The configuration files of a tool, in the directory it runs in."""
_JS = ("js", "mjs", "cjs", "ts")


def _anywhere(*names: str) -> tuple[str, ...]:
    """Return patterns for files that count in every directory, not only in that of the tool."""
    return tuple(f"**/{name}" for name in names)


def _config_of(*tools: str) -> tuple[str, ...]:
    return tuple(f"{tool}.config.{suffix}" for tool in tools for suffix in _JS)


WATCHED_FILES: ConfigFiles = {
    **CONFIG_FILES,
    # `npm test` finds programs there first. Usually it is ignored, and then part of what is installed.
    **dict.fromkeys(RUN_TOOLS, (*_PACKAGE, "node_modules/.bin/", *_anywhere(PACKAGE_JSON))),
    "ava": _config_of("ava"),
    "bun": (*_PACKAGE, "bunfig.toml"),
    "cargo": (*_CARGO, *_anywhere("Cargo.toml"), "rust-toolchain.toml", "rust-toolchain"),
    **dict.fromkeys(("cmake", "ctest"), _anywhere("CMakeLists.txt")),
    "coverage": (".coveragerc", "pyproject.toml", "setup.cfg", "tox.ini"),
    "deno": ("deno.json", "deno.jsonc"),
    "dotnet": _anywhere("*.csproj", "*.fsproj", "*.props", "*.targets"),
    "eslint": (*_config_of("eslint"), *_anywhere(".eslintrc", ".eslintrc.*")),
    "flake8": (".flake8", "setup.cfg", "tox.ini"),
    "go": (*_anywhere("go.mod"), "go.work"),
    **dict.fromkeys(
        ("gradle", "gradlew"), _anywhere("*.gradle", "*.gradle.kts", "gradle.properties")
    ),
    "jest": (*_config_of("jest"), "jest.config.json"),
    **dict.fromkeys(("make", "gmake"), (*NAMES, *_anywhere(*NAMES))),
    "mix": ("mix.exs",),
    "mocha": (".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml"),
    **dict.fromkeys(("mvn", "mvnw"), (*_anywhere("pom.xml"), ".mvn/")),
    "mypy": ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"),
    "phpunit": ("phpunit.xml", "phpunit.xml.dist"),
    "playwright": _config_of("playwright"),
    "pylint": (".pylintrc", "pylintrc", "pyproject.toml", "setup.cfg"),
    "pyright": ("pyrightconfig.json", "pyproject.toml"),
    "rspec": (".rspec",),
    "ruff": _anywhere("ruff.toml", ".ruff.toml", "pyproject.toml"),
    "swift": ("Package.swift",),
    "tox": ("tox.ini", "tox.toml", "pyproject.toml", "setup.cfg"),
    "tsc": _anywhere("tsconfig.json"),
    "vitest": _config_of("vitest", "vite"),
    "pytest": (
        # Those between the project and its tests count, too.
        *_anywhere("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
        *_anywhere("pyproject.toml", "tox.ini", "setup.cfg"),
        # Plugins of packages that are built in the project, which `python -m pytest` finds.
        "*.egg-info/entry_points.txt",
        "*.dist-info/entry_points.txt",
    ),
}
"""With `protect`, also files that agents often have good reasons to change."""


def scripts_of_package(text: str) -> tuple[str, ...]:
    """Return the scripts of a `package.json`; none if it is damaged."""
    try:
        match json.loads(text):
            case {"scripts": dict(scripts)}:
                return tuple(one for one in scripts.values() if isinstance(one, str))
            case _:
                return ()
    except (ValueError, RecursionError):
        return ()
