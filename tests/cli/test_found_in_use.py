"""What was found by using it, each held by a test named after the promise it broke."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import psutil
import pytest

from little_loops.fsm.timestamps import wall_ms_of
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


def test_a_value_that_is_not_the_number_it_should_be_is_an_error(project: Project):
    project.loop(
        "row",
        """\
        name: row
        initial: count
        states:
          count: {action: "echo a[$(id)]", next: check}
          check:
            shell: bash
            action: "(( ${captured.count.output:int} > 3 ))"
            on_pass: done
            on_fail: done
          done: {terminal: true}
        """,
    )
    said = project.ll("run", "row")
    assert said.returncode == 1
    assert "`action`: `${captured.count.output:int}` is not a whole number: 'a[" in said.stdout


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
    assert [line.split(" (")[0] for line in ours] == ["Loop failed in state 'a': exit 3: err"]


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


def test_no_page_shows_a_secret_that_only_the_runner_knows(project: Project):
    """Who looks has another environment than who ran: what is shown is what the log says."""
    project.loop(
        "leaky",
        """\
        name: leaky
        initial: a
        states:
          a: {action: 'echo "FATAL_ERROR: the key is $OUTER_TOKEN"', next: d}
          d: {terminal: true}
        """,
    )
    project.loop(
        "handed",
        """\
        name: handed
        initial: a
        states:
          a: {action: 'echo "CONTEXT_HANDOFF: the key is $OUTER_TOKEN"', next: d}
          d: {terminal: true}
        """,
    )
    secret = "outer-secret-value"
    for name in ("leaky", "handed"):
        assert secret not in project.ll("run", name, "-v", env={"OUTER_TOKEN": secret}).stdout
    pages = [
        *(("status", name) for name in ("leaky", "handed")),
        *(("status", name, "--json") for name in ("leaky", "handed")),
        *(("logs", name) for name in ("leaky", "handed")),
        *(("attach", name) for name in ("leaky", "handed")),
        *(("status", "--json"), ("list", "--json"), ("history", "--json"), ("history", "leaky")),
    ]
    shown = {words: project.ll(*words).stdout for words in pages}
    assert [words for words, text in shown.items() if secret in text] == []
    assert "the key is ***" in shown["status", "leaky"]
    assert "Continuation context: the key is ***" in shown["status", "handed"]
    assert '"error": "the key is ***"' in shown["history", "--json"]


def test_what_ran_before_a_crash_counts_as_far_as_the_log_shows(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        child.kill()
        child.wait()
        last = project.events("row")[-1]
        log = project.running("row", ".log")
        os.utime(log)  # as if the action had printed just before its runner was killed
        printed_ms = log.stat().st_mtime_ns // 1_000_000
        (project.root / "fast").touch()
        assert project.ll("resume", "row").returncode == 0
    resumed = next(each for each in project.events("row") if each["event"] == "resume")
    assert last["event"] == "action_start"
    assert resumed["ran_ms"] >= last["ran_ms"] + printed_ms - wall_ms_of(last["ts"])


LEAVES_A_CHILD = """\
name: row
initial: a
states:
  a: {action: "sleep 600 >/dev/null 2>&1 & echo started", next: done}
  done: {terminal: true}
"""


def test_warnings_are_no_answer(project: Project):
    project.loop("row", LEAVES_A_CHILD)
    said = project.ll("run", "row")
    assert "warning" not in said.stdout
    assert said.stderr.startswith(
        "warning: ended processes that the actions had left running: sleep 600"
    )


def test_events_on_stdout_are_those_of_the_log(project: Project):
    project.loop("row", LEAVES_A_CHILD)
    said = project.ll("run", "row", "--json")
    assert (said.stdout, said.stderr) == (project.past("row").read_text(), "")


def test_nobody_queues_for_what_will_be_refused(project: Project):
    project.loop("row", SLEEPY)
    with project.started("run", "row") as child:
        until(lambda: project.file("pid"), "action")
        child.send_signal(signal.SIGTERM)
        child.wait()
    project.loop("other", SLEEPY.replace("name: row", "name: other").replace("> pid", "> pid2"))
    with project.started("run", "other"):
        until(lambda: project.file("pid2"), "action in the way")
        said = project.ll("run", "row", "--queue")
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("error: `row` has an unfinished run: interrupted")


@pytest.mark.parametrize("value", ["${context.who}", "${context.whom}", "${nope.x}"])
def test_a_context_value_that_cannot_be_filled_in_is_a_mistake(project: Project, value: str):
    project.loop(
        "hi",
        """\
        name: hi
        initial: a
        context: {who: world}
        states:
          a: {action: "echo hello ${context.who}", next: done}
          done: {terminal: true}
        """,
    )
    said = project.ll("run", "hi", "--context", f"who={value}")
    assert (said.returncode, said.stdout) == (2, "")
    assert f"with `--context who={value}`: " in said.stderr


def test_a_stop_while_it_judges_counts_before_the_verdict(project: Project):
    project.loop(
        "slow",
        """\
        name: slow
        initial: a
        states:
          a:
            action: echo 1
            condition: {type: output_json, path: "last(repeat(1))", target: 1}
            on_pass: done
            on_fail: done
            on_error: done
          done: {terminal: true}
        """,
    )
    with project.started("run", "slow") as child:
        until(lambda: project.has_event("slow", "action_complete"), "judgement under way")
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 143
    kinds = [each["event"] for each in project.events("slow")]
    assert kinds[-2:] == ["action_complete", "loop_interrupted"]
    assert project.ll("resume", "slow").returncode == 1
    again = [each["event"] for each in project.events("slow")]
    assert again.count("action_complete") == 1


def test_options_may_stand_before_the_verb(project: Project):
    project.loop("row", SLEEPY)
    (project.root / "fast").touch()
    before, after = project.ll("-q", "run", "row"), project.ll("run", "row", "-q")
    assert (before.returncode, before.stderr, before.stdout.count("\n")) == (0, "", 2)
    assert before.stdout.split(" (")[0] == after.stdout.split(" (")[0]


def test_a_run_of_a_newer_version_is_not_called_damaged(project: Project):
    project.loop("row", SLEEPY)
    (project.root / "fast").touch()
    project.ll("run", "row")
    project.past("row", ".state.json").write_text('{"format": 99, "seq": 1}')
    said = project.ll("status", "row")
    assert said.returncode == 0
    assert said.stdout.startswith("row  ✗ unreadable (newer version)\n  format     `")
    assert "damage" not in said.stdout


def test_a_run_killed_between_its_end_and_its_snapshot_has_ended(project: Project):
    project.loop("row", SLEEPY)
    (project.root / "fast").touch()
    project.ll("run", "row")
    state, log = project.past("row", ".state.json"), project.past("row")
    running = project.root / ".loops/.running"
    snapshot = json.loads(state.read_text())
    kept = {**snapshot, "status": "running", "reason": None, "seq": snapshot["seq"] - 1}
    (running / "row.state.json").write_text(json.dumps(kept))
    (running / "row.events.jsonl").write_bytes(log.read_bytes())
    said = project.ll("status", "--json")
    assert [one["status"] for one in json.loads(said.stdout)["runs"]] == ["completed"]


def test_a_loops_directory_that_is_a_link_is_explained(project: Project):
    linked = project.root / "linked"
    linked.mkdir()
    (linked / ".loops").symlink_to("../.loops")
    project.loop("row", SLEEPY)
    said = project.ll("run", "row", cwd=linked)
    assert said.returncode == 1
    assert said.stderr == (
        f"error: `{linked}/.loops` is a symbolic link, and links are not followed here\n"
        "   = help: replace it with a real directory, or run in the directory the link points to\n"
    )
