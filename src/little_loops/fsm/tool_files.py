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
PROTECTED_CONFIG: ConfigFiles = {
    **dict.fromkeys(("make", "gmake"), NAMES),
    **dict.fromkeys(RUN_TOOLS, _PACKAGE),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "cargo": _CARGO,
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile",),
}
"""A tool's files that are protected unless `protect` is set, in the directory the tool runs in."""
_JS = ("js", "mjs", "cjs", "ts")


def _anywhere(*names: str) -> tuple[str, ...]:
    """Return patterns for files that count in every directory, not only in that of the tool."""
    return tuple(f"**/{name}" for name in names)


def _config_of(*tools: str) -> tuple[str, ...]:
    return tuple(f"{tool}.config.{suffix}" for tool in tools for suffix in _JS)


# `npm test` finds programs there first. Usually it is ignored, and then part of what is installed.
_PACKAGES = (*_PACKAGE, "node_modules/.bin/", *_anywhere(PACKAGE_JSON))
WATCHED_FILES: ConfigFiles = {
    **PROTECTED_CONFIG,
    **dict.fromkeys(RUN_TOOLS, _PACKAGES),
    "ava": _config_of("ava"),
    "bandit": (".bandit",),
    "bazel": (".bazelrc", "MODULE.bazel", "WORKSPACE", *_anywhere("BUILD", "BUILD.bazel", "*.bzl")),
    "biome": ("biome.json", "biome.jsonc"),
    # It checks no files that git ignores, even if git tracks them.
    "black": ("pyproject.toml", *_anywhere(".gitignore")),
    "bun": (*_PACKAGE, "bunfig.toml"),
    "cabal": ("cabal.project", "cabal.project.local", *_anywhere("*.cabal")),
    "cargo": (
        *(*_CARGO, *_anywhere("Cargo.toml", "build.rs"), "rust-toolchain.toml", "rust-toolchain"),
        *("clippy.toml", ".clippy.toml", ".config/nextest.toml"),
    ),
    **dict.fromkeys(("cmake", "ctest"), _anywhere("CMakeLists.txt")),
    "codespell": (".codespellrc", "setup.cfg", "pyproject.toml"),
    "coverage": (".coveragerc", "pyproject.toml", "setup.cfg", "tox.ini"),
    "cypress": _config_of("cypress"),
    **dict.fromkeys(("dart", "flutter"), ("pubspec.yaml", "dart_test.yaml")),
    "deno": ("deno.json", "deno.jsonc"),
    "dotnet": (*_anywhere("*.csproj", "*.fsproj", "*.props", "*.targets"), "global.json"),
    "eslint": (*_config_of("eslint"), *_anywhere(".eslintrc", ".eslintrc.*"), ".eslintignore"),
    "flake8": (".flake8", "setup.cfg", "tox.ini"),
    "go": (*_anywhere("go.mod"), "go.work"),
    "golangci-lint": (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"),
    **dict.fromkeys(
        ("gradle", "gradlew"), _anywhere("*.gradle", "*.gradle.kts", "gradle.properties")
    ),
    "hatch": ("hatch.toml", "pyproject.toml"),
    "jest": (*_config_of("jest"), "jest.config.json", *_config_of("babel"), *_anywhere(".babelrc")),
    "karma": ("karma.conf.js", "karma.conf.ts"),
    "luacheck": (".luacheckrc",),
    **dict.fromkeys(("make", "gmake"), (*NAMES, *_anywhere(*NAMES))),
    "mage": ("magefile.go", "magefiles/"),
    "meson": _anywhere("meson.build", "meson.options", "meson_options.txt"),
    "mix": ("mix.exs",),
    "mocha": (".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml"),
    **dict.fromkeys(("mvn", "mvnw"), (*_anywhere("pom.xml"), ".mvn/")),
    "mypy": ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"),
    "ninja": ("build.ninja",),
    "oxlint": (".oxlintrc.json",),
    "phpunit": ("phpunit.xml", "phpunit.xml.dist"),
    "playwright": _config_of("playwright"),
    "pnpm": (*_PACKAGES, ".pnpmfile.cjs", "pnpm-workspace.yaml"),
    "pre-commit": (".pre-commit-config.yaml",),
    "prove": (".proverc",),
    "pylint": (".pylintrc", "pylintrc", "pyproject.toml", "setup.cfg"),
    "pyright": ("pyrightconfig.json", "pyproject.toml"),
    "rspec": (".rspec",),
    # It checks no files that git ignores, even if git tracks them.
    "ruff": _anywhere("ruff.toml", ".ruff.toml", "pyproject.toml", ".gitignore", ".ignore"),
    "sbt": ("build.sbt", ".sbtopts", "project/"),
    "scons": _anywhere("SConstruct", "SConscript"),
    "shellcheck": _anywhere(".shellcheckrc", "shellcheckrc"),
    "shfmt": _anywhere(".editorconfig"),
    "stack": ("stack.yaml", "package.yaml"),
    "swift": ("Package.swift",),
    "tap": (".taprc",),
    "task": tuple(
        f"{name}{dist}.{suffix}"
        for name in ("Taskfile", "taskfile")
        for dist in ("", ".dist")
        for suffix in ("yml", "yaml")
    ),
    "tox": ("tox.ini", "tox.toml", "pyproject.toml", "setup.cfg"),
    "tsc": _anywhere("tsconfig.json"),
    "vitest": (*_config_of("vitest", "vite"), "vitest.workspace.js", "vitest.workspace.ts"),
    "yamllint": (".yamllint", ".yamllint.yaml", ".yamllint.yml"),
    "yarn": (*_PACKAGES, ".yarnrc.yml", ".yarnrc"),
    "zig": ("build.zig", "build.zig.zon"),
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
