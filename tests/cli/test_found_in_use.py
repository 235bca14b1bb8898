"""What was found by using it, each held by a test named after the promise it broke."""

from __future__ import annotations

import os
import signal
import subprocess

import psutil

from tests.project import Project, until

SLEEPY = """\
name: row
initial: deploy
states:
  deploy:
    action: "echo $$ > pid; echo deploy >> trace; test -e fast || sleep 600"
    next: done
    on_interrupt: rollback
  rollback: {action: "echo rollback >> trace", next: done}
  done: {terminal: true}
"""


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_stop_that_reaches_the_action_too_is_an_interrupt(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        os.killpg(int(project.file("pid")), signal.SIGTERM)
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(timeout=30) == 143
    assert project.state("row")["status"] == "interrupted"
    (project.root / "fast").touch()
    assert project.ll("resume", "row").returncode == 0
    assert project.file("trace").split() == ["deploy", "rollback"]


def test_never_two_copies_when_starting_afresh(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        orphan = int(project.file("pid"))
        child.kill()
        child.wait()
        (project.root / "fast").touch()
        assert project.ll("run", "row", "--fresh").returncode == 0
        assert not lives(orphan)


def test_stop_after_a_crash_ends_what_is_left(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        orphan = int(project.file("pid"))
        child.kill()
        child.wait()
        said = project.ll("stop", "row")
        assert not lives(orphan)
    assert said.returncode == 0
    assert f"(pid {orphan})" in said.stdout


def test_the_current_definition_brings_its_context(project: Project):
    text = """\
        name: row
        initial: a
        context: {{v: {0}, w: x}}
        states:
          a: {{action: "test -e ok || exit 9; echo ${{context.v}} ${{context.w}} >> trace", next: d}}
          d: {{terminal: true}}
        """
    project.loop("row", text.format("one"))
    assert project.ll("run", "row", "--context", "w=given").returncode == 1
    (project.root / "ok").touch()
    project.loop("row", text.format("two"))
    assert project.ll("resume", "row", "--definition", "current").returncode == 0
    assert project.file("trace") == "two given\n"


def test_no_action_begins_when_the_time_is_used_up(project: Project):
    project.loop("row", SLEEPY.replace("on_interrupt: rollback", "on_interrupt: $current"))
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        os.kill(child.pid, signal.SIGTERM)
        child.wait(timeout=30)
    said = project.ll("resume", "row", "--timeout", "0.001s")
    assert said.returncode == 3
    assert project.file("trace").split() == ["deploy"]


def test_settings_are_no_change_of_a_definition(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row", env={"LL_KILL_GRACE": "2"}) as child:
        until(lambda: project.file("pid"), "action")
        os.kill(child.pid, signal.SIGTERM)
        child.wait(timeout=30)
    assert project.ll("resume", "row").returncode == 0


def test_a_source_without_a_result_is_an_error_not_a_word(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a: {action: "false", on_pass: b, on_fail: c}
          b: {action: "echo x", next: c}
          c:
            condition: {type: output_contains, pattern: error, negate: true, source: b}
            on_pass: p
            on_fail: f
          p: {terminal: true}
          f: {terminal: true}
        """,
    )
    said = project.ll("run", "row")
    assert said.returncode == 1
    assert "`captured.b` has no value" in said.stdout


def test_an_unquoted_exclamation_mark_is_answered_in_words(project: Project):
    project.loop(
        "row", "initial: a\nstates:\n  a: {action: !grep x, next: d}\n  d: {terminal: true}\n"
    )
    said = project.ll("validate", "row")
    assert said.returncode == 2
    assert "error[LL009]: tags are not allowed: `!grep`" in said.stdout
    assert project.ll("list").returncode == 0


def test_an_action_cannot_write_a_line_of_ours(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        states:
          a:
            action: |
              printf 'begin '; sleep 0.1; echo err >&2; sleep 0.1
              echo 'Loop completed: done (1 iteration, 0.4s)'; exit 3
            next: d
          d: {terminal: true}
        """,
    )
    said = project.ll("run", "row", "-v")
    ours = [line for line in said.stdout.splitlines() if line.startswith("Loop")]
    assert [line.split(" (")[0] for line in ours] == ["Loop failed: error in state 'a': exit 3"]


def test_secrets_of_the_definition_are_masked_too(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: a
        env: {INNER_TOKEN: inner-secret-value}
        states:
          a: {action: "echo $INNER_TOKEN", next: d}
          d: {terminal: true}
        """,
    )
    said = project.ll("run", "row", "-v")
    assert "inner-secret-value" not in said.stdout + project.log("row")
    assert "inner-secret-value" not in project.past("row").read_text()


def test_closed_streams_are_no_bug(project: Project):
    project.loop("row", SLEEPY)
    (project.root / "fast").touch()
    for closed in (">&-", "<&-", "2>&-"):
        command = " ".join([*project.argv("run", "row"), closed])
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=project.root,
            env=project.environ(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, "bug" in done.stderr) == (0, False), (closed, done.stderr)
