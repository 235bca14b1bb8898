"""Real runs with two agents: `claude` meets a usage limit, and `codex` takes over.

Both are stand-ins, started as processes. What each of their turns does is written down beforehand.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from little_loops.spending import host_limits
from little_loops.system.clock import wall_ms
from tests.project import Project

LOOP = """\
name: fix
initial: check
max_iterations: 5
evidence: true
host: {permission_mode: acceptEdits}
fallback: [{name: codex}]
states:
  check: {action: "test -e fixed", check: true, on_pass: done, on_fail: repair}
  repair: {action: "Fix it", action_type: prompt, next: check}
  done: {terminal: true}
"""
AGENT = """\
#!/bin/sh
cat > /dev/null
cd {home}
echo {name} >> turns
turn=$(grep -c {name} turns)
[ -e {name}.$turn ] || turn=last
. ./{name}.$turn
"""


def prints(*events: dict[str, Any]) -> str:
    return "".join(f"printf '%s\\n' {shlex.quote(json.dumps(event))}\n" for event in events)


INIT = {"type": "system", "subtype": "init", "session_id": "s"}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
CLAUDE_WORKS = prints(INIT, RESULT | {"result": "ok", "session_id": "s", "total_cost_usd": 0.1})
USAGE = {"input_tokens": 100, "output_tokens": 20}
CODEX_WORKS = prints(
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "ok"}},
    {"type": "turn.completed", "usage": USAGE},
)


def claude_is_limited(until: str) -> str:
    """A turn that meets a limit until then: a number of seconds since 1970, or shell for it."""
    info = {"status": "rejected", "resetsAt": 111}
    event = {"type": "rate_limit_event", "rate_limit_info": info}
    refused = RESULT | {
        "is_error": True,
        "api_error_status": 429,
        "result": "You've hit your limit",
    }
    return prints(INIT, event, refused | {"session_id": "s"}).replace("111", f"'\"{until}\"'")


def stage(project: Project, name: str, *turns: str) -> None:
    """Install a stand-in; the last turn is repeated."""
    folder = project.home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(AGENT.format(home=shlex.quote(str(project.home)), name=name))
    (folder / name).chmod(0o755)
    for number, text in enumerate(turns, 1):
        (project.home / f"{name}.{number}").write_text(text)
    (project.home / f"{name}.last").write_text(turns[-1])


def environ(project: Project) -> dict[str, str]:
    return {"PATH": f"{project.home / 'bin'}:/usr/bin:/bin"}


def turns(project: Project) -> list[str]:
    path = project.home / "turns"
    return path.read_text().split() if path.exists() else []


def fixes(project: Project) -> str:
    return f"touch {shlex.quote(str(project.root / 'fixed'))}\n"


@pytest.fixture
def fixing(project: Project) -> Project:
    project.git("init", "-q")
    project.loop("fix", LOOP)
    return project


IN_AN_HOUR = "$(( $(date +%s) + 3600 ))"


def test_the_next_agent_takes_the_turn_and_the_first_comes_back_after_its_reset(fixing):
    """The limit ends during the turn of `codex`, so the next turn is that of `claude`."""
    soon = "$(date +%s | tee reset.0 | { read now; echo $(( now + 2 )) | tee reset; })"
    until_reset = 'while [ "$(date +%s)" -lt "$(cat reset)" ]; do sleep 0.1; done\n'
    stage(fixing, "claude", claude_is_limited(soon), fixes(fixing) + CLAUDE_WORKS)
    stage(fixing, "codex", until_reset + CODEX_WORKS)
    done = fixing.ll("run", "fix", env=environ(fixing))
    assert done.returncode == 0, done.stdout + done.stderr
    assert turns(fixing) == ["claude", "codex", "claude"]
    assert [line.strip() for line in done.stdout.splitlines() if "takes over" in line] == [
        "→ codex takes over",
        "→ claude takes over",
    ]
    fixing.ll("receipt", "fix", "-o", "receipt.json", env=environ(fixing))
    told = json.loads((fixing.root / "receipt.json").read_text())["predicate"]
    assert [(turn["host"], turn["step"], turn["attempt"]) for turn in told["turns"]] == [
        ("claude", 2, 1),
        ("codex", 2, 2),
        ("claude", 4, 1),
    ]


def test_another_run_of_the_user_does_not_try_the_limited_agent(fixing, tmp_path):
    stage(fixing, "claude", claude_is_limited(IN_AN_HOUR))
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    assert fixing.ll("run", "fix", env=environ(fixing)).returncode == 0
    assert turns(fixing) == ["claude", "codex"]
    other = Project(tmp_path / "elsewhere")
    other.loop("fix", LOOP)
    other.git("init", "-q")
    env = environ(fixing) | {"HOME": str(fixing.home)}
    (fixing.home / "codex.last").write_text(fixes(other) + CODEX_WORKS)
    (fixing.home / "codex.2").write_text(fixes(other) + CODEX_WORKS)
    assert other.ll("run", "fix", env=env).returncode == 0
    assert turns(fixing) == ["claude", "codex", "codex"]


def test_a_run_without_a_fallback_tells_the_others(fixing):
    fixing.loop(
        "fix", LOOP.replace("fallback: [{name: codex}]\n", "").replace("{p", "{max_wait: 0, p")
    )
    stage(fixing, "claude", claude_is_limited(IN_AN_HOUR))
    fixing.ll("run", "fix", env=environ(fixing))
    assert list(host_limits.known(fixing.environ(), wall_ms())) == ["claude"]


def test_an_agent_that_worked_is_not_limited_any_more(fixing):
    fixing.loop("fix", LOOP.replace("fallback: [{name: codex}]\n", ""))
    host_limits.remember(fixing.environ(), "claude", wall_ms() + 3_600_000, wall_ms())
    stage(fixing, "claude", fixes(fixing) + CLAUDE_WORKS)
    assert fixing.ll("run", "fix", env=environ(fixing)).returncode == 0
    assert host_limits.known(fixing.environ(), wall_ms()) == {}


def test_a_missing_program_gives_its_turn_to_the_next(fixing):
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    done = fixing.ll("run", "fix", env=environ(fixing))
    assert (done.returncode, turns(fixing)) == (0, ["codex"]), done.stdout + done.stderr


def test_a_run_needs_one_of_its_programs(fixing):
    fixing.loop("fix", "check: test -e fixed\nfix: {action: Fix it, action_type: prompt}\n"
                "host: {permission_mode: acceptEdits}\nfallback: [codex]\n")  # fmt: skip
    done = fixing.ll("run", "fix", env=environ(fixing))
    assert done.returncode == 2
    assert "`claude` is not on PATH, but state `fix` needs it to run an agent" in done.stderr


def test_consent_is_asked_for_all_of_them(fixing):
    fixing.loop("fix", LOOP.replace("host: {permission_mode: acceptEdits}\n", ""))
    stage(fixing, "claude", CLAUDE_WORKS)
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    env = environ(fixing) | {"IS_SANDBOX": "1"}
    refused = fixing.ll("run", "fix", env=env)
    assert refused.returncode == 2
    assert "`claude: Fix it`; `codex: Fix it`" in refused.stderr
    assert turns(fixing) == []


def test_consent_to_the_first_agent_does_not_cover_a_fallback_that_is_added(fixing):
    """Neither the new agent nor the run that would use it starts until the user agrees to it."""
    own = LOOP.replace("host: {permission_mode: acceptEdits}\n", "")
    alone = own.replace("fallback: [{name: codex}]\n", "")
    fixing.loop("fix", alone)
    stage(fixing, "claude", claude_is_limited(IN_AN_HOUR))
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    env = environ(fixing) | {"IS_SANDBOX": "1"}
    assert fixing.ll("trust", "fix", env=env).returncode == 0
    listed = fixing.ll("trust", "--list", env=env).stdout
    assert ("claude: Fix it" in listed, "codex" in listed) == (True, False)

    fixing.loop("fix", own)
    refused = fixing.ll("run", "fix", env=env)
    assert refused.returncode == 2
    assert "you have not agreed to that: `codex: Fix it`\n" in refused.stderr
    assert turns(fixing) == []

    assert fixing.ll("trust", "fix", env=env).returncode == 0
    assert fixing.ll("run", "fix", env=env).returncode == 0
    assert turns(fixing) == ["claude", "codex"]


def test_a_dry_run_and_show_name_all_of_them(fixing):
    stage(fixing, "claude", CLAUDE_WORKS)
    stage(fixing, "codex", CODEX_WORKS)
    dry = fixing.ll("run", "fix", "--dry-run", env=environ(fixing)).stdout
    assert "claude" in dry
    assert "codex" in dry
    assert "fallback codex" in fixing.ll("show", "fix", env=environ(fixing)).stdout


# ── what is remembered ─────────────────────────────────────────────────────────────────────────

NOW = 1_768_473_000_000


def file_of(environ: dict[str, str]) -> Path:
    return Path(environ["XDG_STATE_HOME"], "little-loops", host_limits.FOLDER, host_limits.FILE)


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def test_a_limit_is_known_until_it_ends(own):
    host_limits.remember(own, "claude", NOW + 5000, NOW)
    host_limits.remember(own, "codex", NOW + 9000, NOW)
    assert host_limits.known(own, NOW) == {"claude": NOW + 5000, "codex": NOW + 9000}
    assert host_limits.known(own, NOW + 5000) == {"codex": NOW + 9000}
    host_limits.forget(own, "codex", NOW)
    host_limits.forget(own, "codex", NOW)
    assert host_limits.known(own, NOW) == {"claude": NOW + 5000}


def test_nothing_is_created_to_look(own):
    assert host_limits.known(own, NOW) == {}
    host_limits.forget(own, "claude", NOW)
    assert not file_of(own).parent.exists()


def test_a_reset_in_the_far_future_is_not_believed(own):
    host_limits.remember(own, "claude", 1 << 60, NOW)
    assert host_limits.known(own, NOW) == {"claude": NOW + host_limits.LONGEST_MS}
    assert host_limits.known(own, NOW - 60_000) == {}  # the clock was set back


@pytest.mark.parametrize("text", ["", "{", "[]", '{"claude": null}', '{"a": 1e999}', "[" * 99_999])
def test_a_damaged_file_is_replaced(own, text):
    host_limits.remember(own, "claude", NOW + 5000, NOW)
    file_of(own).write_text(text)
    assert host_limits.known(own, NOW) == {}
    host_limits.remember(own, "codex", NOW + 5000, NOW)
    assert host_limits.known(own, NOW) == {"codex": NOW + 5000}


def test_the_file_is_private_and_stays_small(own):
    for number in range(host_limits.MOST_HOSTS + 5):
        host_limits.remember(own, f"host {number}", NOW + 5000, NOW)
    assert len(host_limits.known(own, NOW)) == host_limits.MOST_HOSTS
    assert f"host {host_limits.MOST_HOSTS + 4}" in host_limits.known(own, NOW)
    assert stat.S_IMODE(file_of(own).parent.stat().st_mode) == 0o700


def test_many_processes_remember_at_the_same_time(own):
    """None of them loses what another has written."""
    code = (
        "import sys; from little_loops.spending.host_limits import remember; "
        f"remember({own!r}, sys.argv[1], {NOW + 5000}, {NOW})"
    )

    def start(name: str) -> int:
        return subprocess.run(
            [sys.executable, "-c", code, name], timeout=60, check=False
        ).returncode

    names = [f"host {number}" for number in range(6)]
    with ThreadPoolExecutor() as pool:
        assert set(pool.map(start, names)) == {0}
    assert sorted(host_limits.known(own, NOW)) == names


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_does_not_stop_a_run(fixing):
    state = fixing.home / ".local" / "state" / "little-loops" / host_limits.FOLDER
    state.mkdir(parents=True)
    state.chmod(0o500)
    stage(fixing, "claude", claude_is_limited(IN_AN_HOUR))
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    assert fixing.ll("run", "fix", env=environ(fixing)).returncode == 0
    assert turns(fixing) == ["claude", "codex"]
    state.chmod(0o700)


def test_a_file_in_the_place_of_the_directory_does_not_stop_a_run(fixing):
    state = fixing.home / ".local" / "state" / "little-loops"
    state.mkdir(parents=True, mode=0o700)
    (state / host_limits.FOLDER).write_text("")
    stage(fixing, "claude", claude_is_limited(IN_AN_HOUR))
    stage(fixing, "codex", fixes(fixing) + CODEX_WORKS)
    done = fixing.ll("run", "fix", env=environ(fixing))
    assert (done.returncode, turns(fixing)) == (0, ["claude", "codex"]), done.stdout + done.stderr
