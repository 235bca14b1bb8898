"""Only one behavior starts anything, and how is up to the caller."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from little_loops.fsm.handoff_handler import HandoffBehavior, HandoffHandler, HandoffResult

QUIET = [HandoffBehavior.TERMINATE, HandoffBehavior.PAUSE, HandoffBehavior.CONTINUE]


def start_nothing(loop_name, continuation):
    raise AssertionError("nothing is to be started")


@pytest.mark.parametrize("behavior", QUIET, ids=lambda behavior: behavior.value)
@pytest.mark.parametrize("continuation", ["go on", "", None])
def test_quiet_behaviors(behavior, continuation):
    handler = HandoffHandler(behavior, start_nothing)
    assert handler.handle("fix-types", continuation) == HandoffResult(behavior, continuation, None)


def test_the_default_is_pause():
    assert HandoffHandler().behavior is HandoffBehavior.PAUSE


def test_the_words_of_the_definition():
    words = {behavior.value for behavior in HandoffBehavior}
    assert words == {"terminate", "pause", "spawn", "continue"}


def test_spawn_starts_a_session_the_way_it_was_given():
    asked = []

    def start(loop_name, continuation):
        asked.append((loop_name, continuation))
        return subprocess.Popen([sys.executable, "-c", ""], text=True)

    result = HandoffHandler(HandoffBehavior.SPAWN, start).handle("fix-types", "go on")
    assert result.spawned_process is not None
    result.spawned_process.wait()
    assert (result[:2], asked) == (
        (HandoffBehavior.SPAWN, "go on"),
        [("fix-types", "go on")],
    )


@pytest.mark.parametrize(
    ("continuation", "prompt"),
    [
        ("go on", "Continue loop execution. Run: ll-loop resume fix-types\n\ngo on"),
        ("", "Continue loop execution. Run: ll-loop resume fix-types"),
        (None, "Continue loop execution. Run: ll-loop resume fix-types"),
    ],
    ids=["a continuation", "an empty one", "none"],
)
def test_the_default_session_is_claude_detached(tmp_path, monkeypatch, continuation, prompt):
    told = tmp_path / "told"
    claude = tmp_path / "claude"
    claude.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"open({str(told)!r}, 'w').write(repr((sys.argv[1:], os.getsid(0) == os.getpid())))\n"
        "sys.exit(any(sys.stdin.read()))\n"
    )
    claude.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    result = HandoffHandler(HandoffBehavior.SPAWN).handle("fix-types", continuation)
    assert result.spawned_process is not None
    assert result.spawned_process.wait(timeout=30) == 0
    assert told.read_text() == repr((["-p", prompt], True))
