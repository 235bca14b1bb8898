"""Notifications of real runs: what is sent, how often, and that nobody waits for it."""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from little_loops.engine.notifying import NoticeTarget, Notifier, Senders
from little_loops.fsm.events import AgentWait, Cost, Entry, Iteration
from little_loops.fsm.notices import LONG_WAIT_MS
from little_loops.fsm.schema import OCCASIONS
from little_loops.system.clock import wall_ms
from tests.engine.listeners import Received, listening
from tests.project import Project, until
from tests.simulation.command import At, command, dies, operations, projects

LOOP = """\
name: work
initial: act
notify: {notify}
states:
  act: {{action: "{action}", on_pass: done, on_fail: failed}}
  done: {{terminal: true}}
  failed: {{terminal: true}}
"""


def loop(project: Project, notify: Any, action: str = "true") -> None:
    project.loop("work", LOOP.format(notify=json.dumps(notify), action=action))


def config(project: Project, text: str) -> None:
    path = project.home / ".config" / "little-loops" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def bodies(received: list[Received]) -> list[str]:
    return [each.body for each in received]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_each_recipient_gets_the_ending_once(project: Project):
    with listening() as ntfy, listening() as hook:
        env = {"NTFY": ntfy.ntfy.replace("127", "me:pa%20ss@127"), "HOOK_URL": hook.url}
        told = 'cat > told; echo \\"$LL_NOTICE $LL_LOOP\\" >> told'
        loop(
            project,
            [{"to": "${env.NTFY}"}, {"to": "${env.HOOK_URL}"}, {"to": json.loads(f'"{told}"')}],
        )
        done = project.ll("run", "work", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    (one,), (other,) = ntfy.received, hook.received
    assert (one.path, one.body) == ("/very-secret-topic", "Loop work completed ($0.00)")
    assert one.headers["Authorization"] == "Basic bWU6cGEgc3M="
    assert json.loads(other.body) == {"text": "Loop work completed ($0.00)"}
    document, text = lines(project.root / "told")
    assert json.loads(document)["ending"] == "completed"
    assert text == "Loop work completed ($0.00) work"


@pytest.mark.parametrize(
    ("when", "action", "expected"),
    [
        (["waits", "failed"], "true", []),
        (["failed"], "false", ["Loop work failed: terminal ($0.00)"]),
        (["completed"], "false", []),
        (["failed"], "echo LOOP_STOP: enough", ["Loop work stopped: stop signal ($0.00)"]),
    ],
)
def test_a_recipient_hears_only_of_its_occasions(project: Project, when, action, expected):
    with listening() as hook:
        loop(project, [{"to": "${env.HOOK}", "when": when}], action)
        project.ll("run", "work", env={"HOOK": hook.url})
    assert [json.loads(each)["text"] for each in bodies(hook.received)] == expected


@pytest.mark.parametrize(
    ("answers", "tries", "problem"),
    [
        pytest.param([503, 429, 200], 3, None, id="accepted at the third try"),
        pytest.param([503, 500, 503, 200], 3, "HTTP 503", id="never accepted"),
        pytest.param([404, 200], 1, "HTTP 404", id="refused"),
        pytest.param([302, 200], 1, "HTTP 302", id="a redirect, which would lose the message"),
        pytest.param([504, 200], 1, "HTTP 504", id="it may have arrived"),
        pytest.param(
            [None, 200],
            1,
            "no answer: the server closed the connection",
            id="no answer, so it may have arrived",
        ),
    ],
)
def test_a_try_is_repeated_only_if_the_message_has_not_arrived(
    project: Project, answers, tries, problem
):
    with listening(lambda number: answers[number - 1]) as hook:
        loop(project, [{"to": "${env.HOOK}"}])
        done = project.ll("run", "work", env={"HOOK": hook.url})
    assert (done.returncode, len(hook.received)) == (0, tries)
    name = f"127.0.0.1:{hook.port}"
    warning = f"warning: the notification to {name} was not sent: {problem}\n"
    assert done.stderr == ("" if problem is None else warning)
    _has_no_secret(project, done.stdout + done.stderr)


def _has_no_secret(project: Project, printed: str) -> None:
    """Nothing that a run prints or writes, but its own definition, has the address."""
    assert "very-secret" not in printed
    files = [path for path in (project.root / ".loops").rglob("*") if path.is_file()]
    found = [path.name for path in files if b"very-secret" in path.read_bytes()]
    assert found == []


def test_an_address_that_an_action_prints_is_masked(project: Project):
    with listening() as hook:
        loop(project, [{"to": "${env.HOOK}"}], "echo $HOOK")
        done = project.ll("run", "work", "-v", env={"HOOK": hook.url})
    assert done.returncode == 0
    assert "***" in done.stdout
    logged = project.log("work") + project.past("work").read_text()
    assert "very-secret" not in done.stdout + done.stderr + logged


def test_a_background_run_warns_in_its_log(project: Project):
    with listening(lambda _: 404) as hook:
        loop(project, [{"to": "${env.HOOK}"}])
        project.ll("run", "work", "--background", env={"HOOK": hook.url})
        warning = f"the notification to 127.0.0.1:{hook.port} was not sent: HTTP 404\n"
        until(lambda: warning in project.log("work"), "warning")
    assert project.ll("wait", "work").returncode == 0


def test_a_server_that_refuses_is_a_warning(project: Project):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, but not listening
        port = held.getsockname()[1]
        loop(project, [{"to": "${env.HOOK}"}])
        done = project.ll("run", "work", env={"HOOK": f"http://127.0.0.1:{port}/very-secret"})
    assert done.returncode == 0
    assert done.stderr == (
        f"warning: the notification to 127.0.0.1:{port} was not sent: Connection refused\n"
    )


def test_a_server_that_never_answers_is_a_warning_and_gets_one_request(project: Project):
    with listening() as hook:
        hook.may_answer.clear()
        loop(project, [{"to": "${env.HOOK}"}, {"to": "sleep 600"}])
        done = project.ll("run", "work", env={"HOOK": hook.url})
        received = len(hook.received)
    assert (done.returncode, received) == (0, 1)
    assert sorted(done.stderr.splitlines()) == [
        f"warning: the notification to 127.0.0.1:{hook.port} was not sent: no answer within 10 s",
        "warning: the notification to `sleep 600` was not sent: no answer within 10 s",
    ]


def test_a_slow_server_holds_up_no_other_run(project: Project):
    with listening() as hook:
        hook.may_answer.clear()
        loop(project, [{"to": "${env.HOOK:-}"}])
        with project.started("run", "work", env={"HOOK": hook.url}) as first:
            until(lambda: hook.received, "request")
            assert project.state("work")["status"] == "completed"
            again = project.ll("run", "work")
            assert (again.returncode, first.poll()) == (0, None)
            hook.may_answer.set()
            assert first.wait(60) == 0
    assert len(hook.received) == 1


def test_a_second_stop_ends_the_sending(project: Project):
    with listening() as hook:
        hook.may_answer.clear()
        loop(project, [{"to": "${env.HOOK}"}])
        with project.started("run", "work", env={"HOOK": hook.url}) as run:
            until(lambda: hook.received, "request")
            run.send_signal(signal.SIGINT)
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate(timeout=60)
    assert "was not sent: " in errors


def test_a_crash_is_reported_once_by_the_next_command_that_sees_it(project: Project):
    with listening() as hook:
        env = {"HOOK": hook.url}
        loop(project, [{"to": "${env.HOOK}"}], "test -e go || { touch began; exec sleep 600; }")
        with project.started("run", "work", env=env) as run:
            until((project.root / "began").exists, "action")
            run.kill()
            run.wait()
        assert project.ll("status", env=env).returncode == 0
        until(lambda: hook.received, "notification")
        for words in (["status", "work"], ["list"], ["wait", "work"], ["run", "work"]):
            project.ll(*words, env=env)
        (project.root / "go").touch()
        assert project.ll("resume", "work", env=env).returncode == 0
    texts = [json.loads(each)["text"] for each in bodies(hook.received)]
    assert texts == ["Loop work interrupted: crash ($0.00)", "Loop work completed ($0.00)"]


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["wait", "work"],
        ["attach", "work"],
        ["doctor"],
        ["run", "work"],
        ["run", "work", "--queue"],
        ["run", "work", "--fresh", "--max-iterations", "1"],
        ["resume", "work"],
    ],
    ids=" ".join,
)
def test_which_commands_see_a_crash(project: Project, words):
    told = 'echo \\"$LL_NOTICE\\" >> told'
    loop(project, [], "test -e go || { touch began; exec sleep 600; }")
    project.loop(
        "work",
        (project.root / ".loops" / "work.yaml").read_text().replace("notify: []\n", ""),
    )
    config(project, f'notify: [{{to: "{told}", when: [failed]}}]\n')
    with project.started("run", "work") as run:
        until((project.root / "began").exists, "action")
        run.kill()
        run.wait()
    (project.root / "go").touch()
    project.ll(*words)
    until(lambda: lines(project.root / "told"), "notification")
    assert lines(project.root / "told") == ["Loop work interrupted: crash ($0.00)"]


def test_the_users_recipients_apply_beside_those_of_the_loop(project: Project):
    config(
        project, 'notify: [{to: "echo user >> told"}, {to: "echo both >> told", when: [waits]}]\n'
    )
    loop(project, [{"to": "echo both >> told"}])
    done = project.ll("run", "work")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(lines(project.root / "told")) == ["both", "user"]
    assert "user" not in project.past("work", ".d/run.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("notify: [{to: 'slack://x'}]\n", "notifications cannot be sent to `slack://`"),
        ("notify: yes please\n", "`notify`"),
    ],
)
def test_a_wrong_recipient_of_the_user_is_an_error(project: Project, text, message):
    config(project, text)
    loop(project, [{"to": "true"}])
    done = project.ll("run", "work")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_project_names_no_recipients(project: Project):
    (project.root / ".loops" / ".config.yaml").write_text("notify: [{to: 'true'}]\n")
    loop(project, [{"to": "true"}])
    done = project.ll("run", "work")
    assert done.returncode == 2
    assert "`notify` can be set only in a loop or by the user" in done.stderr


def test_runs_inside_a_run_leave_notifications_to_it(project: Project):
    config(project, 'notify: [{to: "echo \\"$LL_NOTICE\\" >> $HOME/told"}]\n')
    loop(project, [{"to": "echo inner >> $HOME/told"}])
    project.loop(
        "outer",
        """\
        name: outer
        initial: first
        scope: [elsewhere]
        states:
          first: {loop: work, next: second}
          second: {action: ll-loop run work, next: done}
          done: {terminal: true}
        """,
    )
    (project.root / "elsewhere").mkdir()
    assert project.ll("run", "outer").returncode == 0
    assert lines(project.home / "told") == ["Loop outer completed ($0.00)"]


def test_a_missing_variable_is_a_warning_at_the_start(project: Project):
    loop(project, [{"to": "${env.NO_SUCH_VARIABLE}"}], "echo acted >&2")
    done = project.ll("run", "work")
    assert done.returncode == 0
    assert done.stderr == "warning: `notify`: the variable NO_SUCH_VARIABLE is not set\n"


# ── kills ──────────────────────────────────────────────────────────────────────────────────────


def told_after_kills(numbers: Iterable[int]) -> list[Counter[str]]:
    """Kill a run before each of these operations, look at it, and finish it: what was told."""
    found = []
    with projects() as make:
        for number in numbers:
            project = make()
            loop(project, [{"to": 'echo "$LL_NOTICE" >> told'}], "echo acted >> trace")
            command(project, "run", "work", at=At(number, dies))
            for words in (["status"], ["list"], ["status", "work"]):
                command(project, *words)
            for words in (["resume", "work"], ["run", "work", "--fresh"]):
                if "loop_complete" not in _log(project):
                    command(project, *words)
            until(lambda: not _senders(project), "end of the notifications")  # noqa: B023
            found.append(Counter(lines(project.root / "told")))
    return found


def _log(project: Project) -> str:
    return "".join(path.read_text() for path in project.root.rglob("*.events.jsonl"))


def _senders(project: Project) -> list[int]:
    """Processes that report a crash, or are started by one that did."""

    def is_one(process: psutil.Process) -> bool:
        try:
            words = " ".join(process.cmdline())
            return process.cwd() == str(project.root) and (
                "crash_reports" in words or "told" in words
            )
        except psutil.Error:
            return False

    return [each.pid for each in psutil.process_iter() if is_one(each)]


def check_told(told: list[Counter[str]]) -> None:
    crash, completed = "Loop work interrupted: crash ($0.00)", "Loop work completed ($0.00)"
    for each in told:
        assert set(each) <= {crash, completed}
        assert all(count == 1 for count in each.values()), each
    assert any(each[crash] and each[completed] for each in told)


def places() -> list[str]:
    with projects() as make:
        project = make()
        loop(project, [{"to": 'echo "$LL_NOTICE" >> told'}], "echo acted >> trace")
        return operations(project, "run", "work")


def test_killed_before_some_operations_each_event_is_reported_at_most_once():
    """Among them where the log is ahead of the snapshot, which is replaced by a rename."""
    every = enumerate(places(), 1)
    numbers = [n for n, what in every if n % 15 == 0 or what.startswith("os.rename .work.tmp")]
    check_told(told_after_kills(numbers))


@pytest.mark.soak
def test_killed_before_any_operation_each_event_is_reported_at_most_once():
    check_told(told_after_kills(range(1, len(places()) + 1)))


# ── waits ──────────────────────────────────────────────────────────────────────────────────────


def told_by(path: Path, *entries: Entry) -> list[str]:
    """What is sent for these events, right away."""
    target = NoticeTarget(f'echo "$LL_NOTICE" >> {path}', OCCASIONS)
    problems: list[str] = []
    senders = Senders("sh", str(path.parent), {}, lambda _, problem: problems.append(problem))
    notifier = Notifier("fix", 1.0, [target], senders, None)
    for entry in entries:
        notifier.record(entry)
    notifier.close()
    assert [each for each in problems if each] == []
    return lines(path)


def test_a_wait_without_an_end_is_reported_when_it_has_become_long(tmp_path: Path):
    began = wall_ms() - LONG_WAIT_MS - 1
    wait = Entry(AgentWait("a", "slot", "busy"), began, 0, "run-1", 3)
    cost = Entry(Cost("a", 10, 0.5, 1), began, 0, "run-1", 2)
    assert told_by(tmp_path / "told", cost, wait) == ["Loop fix waits: agent slot ($1.50)"]


def test_a_run_that_ends_does_not_wait_for_a_server_that_hangs(tmp_path: Path):
    problems: list[str] = []
    senders = Senders("sh", str(tmp_path), {}, lambda _, problem: problems.append(problem))
    target = NoticeTarget("sleep 600", OCCASIONS)
    notifier = Notifier("fix", 1.0, [target], senders, None)
    began = wall_ms() - LONG_WAIT_MS - 1
    notifier.record(Entry(AgentWait("a", "slot", "busy"), began, 0, "run-1", 3))
    notifier.drain()  # before the end of the run is recorded
    assert problems == ["stopped"]  # it was given much less than its 10 s


def test_a_wait_that_is_over_soon_is_not_reported(tmp_path: Path):
    wait = Entry(AgentWait("a", "slot", "busy"), wall_ms(), 0, "run-1", 3)
    after = Entry(Iteration(2), wall_ms(), 0, "run-1", 4)
    assert told_by(tmp_path / "told", wait, after) == []


def test_a_wait_asks_for_a_look_when_it_becomes_long(tmp_path: Path):
    senders = Senders("sh", str(tmp_path), {}, lambda *_: None)
    notifier = Notifier("fix", 0.0, [], senders, None)
    assert notifier.tick() is None
    notifier.record(Entry(AgentWait("a", "slot", "busy"), wall_ms(), 0, "run-1", 3))
    pause_s = notifier.tick()
    assert pause_s is not None
    assert 0 < pause_s <= LONG_WAIT_MS / 1000


# ── ll-loop notify ─────────────────────────────────────────────────────────────────────────────


def test_a_test_notification_goes_to_everybody(project: Project):
    with listening() as ntfy, listening(lambda _: 404) as hook:
        config(project, f"notify: [{{to: '{ntfy.ntfy}', when: [failed]}}]\n")
        loop(project, [{"to": "${env.HOOK}"}, {"to": "exit 3"}])
        env = {"HOOK": hook.url}
        shown = project.ll("notify", "work", env=env)
        tested = project.ll("notify", "work", "--test", env=env)
        only = project.ll("notify", "--test", "--json", env=env)
    assert bodies(ntfy.received) == [
        "Loop work waits: this is a test",
        "Loop test waits: this is a test",
    ]
    one, other = f"127.0.0.1:{ntfy.port} (ntfy)", f"127.0.0.1:{hook.port} (webhook)"
    assert (shown.returncode, shown.stdout) == (
        0,
        (
            f"{one}: failed\n{other}: waits, failed, completed\n"
            "`exit 3` (command): waits, failed, completed\n"
        ),
    )
    assert (tested.returncode, tested.stdout) == (
        1,
        f"sent to {one}\nnot sent to {other}: HTTP 404\nnot sent to `exit 3` (command): exit 3\n",
    )
    assert json.loads(only.stdout)["recipients"] == [
        {
            "kind": "ntfy",
            "name": f"127.0.0.1:{ntfy.port}",
            "when": ["failed"],
            "sent": True,
            "problem": "",
        }
    ]


def test_nobody_to_notify_is_an_error_with_a_way_out(project: Project):
    done = project.ll("notify", "--test")
    assert (done.returncode, done.stderr) == (
        2,
        (
            "error: nobody is notified\n   = help: write `notify: [{to: ntfy://SERVER/TOPIC}]` to"
            f" `{project.home}/.config/little-loops/config.yaml`\n"
        ),
    )


def test_a_loop_says_whom_it_notifies(project: Project):
    loop(project, [{"to": "https://hooks.example.org/very-secret", "when": ["waits"]}])
    for words in (["show", "work"], ["run", "work", "--dry-run"]):
        said = project.ll(*words).stdout
        assert "notify   hooks.example.org: waits\n" in said
        assert "very-secret" not in said
