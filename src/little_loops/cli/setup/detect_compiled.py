"""Detect the checks of Rust and Go projects: the tools that come with the language."""

from __future__ import annotations

import os

from little_loops.cli.setup.detect import Checks, DetectedCheck, Language, names_in, need

CARGO = "Cargo.toml"
GO = "go.mod"
CARGO_FAILS = (101,)
"""Cargo's exit code if the code does not compile, a test fails or clippy reports something."""


def rust(root: str) -> Language | None:
    """Return the checks of a Rust project; None if it is not one."""
    if not os.path.exists(os.path.join(root, CARGO)):
        return None
    tests = _cargo("test", "cargo test -q", "cargo --version", "cargo")
    lint = _cargo(
        *("clippy", "cargo clippy --all-targets -- -D warnings"),
        *("cargo clippy --version", "cargo-clippy"),
    )
    return Language("rust", CARGO, Checks(tests, lint))


def _cargo(word: str, command: str, probe: str, program: str) -> DetectedCheck:
    missing = need(f"{probe} > /dev/null 2>&1", f"{program} is not installed")
    tool = f"cargo {word}"
    return DetectedCheck(tool, command, f"{missing}\n{command}", CARGO_FAILS, needs=program)


def go(root: str) -> Language | None:
    """Return the checks of a Go project; None if it is not one."""
    if not os.path.exists(os.path.join(root, GO)):
        return None
    tests = _go("go test", "go test ./...", "go")
    configured = any(name.startswith(".golangci.") for name in names_in(root))
    lint = (
        _go("golangci-lint", "golangci-lint run", "golangci-lint")
        if configured
        else _go("go vet", "go vet ./...", "go")
    )
    return Language("go", GO, Checks(tests, lint))


def _go(tool: str, command: str, program: str) -> DetectedCheck:
    probe = f"{program} version > /dev/null 2>&1"
    missing = need(probe, f"{program} is not installed")
    return DetectedCheck(tool, command, f"{missing}\n{command}", needs=program)
