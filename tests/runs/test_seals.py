"""Seals: what an agent writes into the files of its own run counts for nothing.

Real runs, real agents: each of them forges its run's files, ends its runner and leaves the code wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.runs.seals import Seal, SealedRun, Sealing, Seals, SealWriter
from tests.project import Project

LOOP = """\
    paradigm: goal
    name: fix
    goal: the value is right
    tools:
      - grep -q right value
      - {action: Fix the value, action_type: prompt}
    host: {name: command, command: [../agent, "{prompt}"]}
"""
PROLOGUE = """\
#!/usr/bin/env python3
import json, os, signal, glob, shutil
log, state = ".loops/.running/fix.events.jsonl", ".loops/.running/fix.state.json"
lines = [json.loads(line) for line in open(log)]
last = lines[-1]
stamp = {name: last[name] for name in ("ts", "run", "ran_ms")}
END = {"event": "loop_complete", "status": "completed", "reason": "terminal", "final_state": "done",
       "iterations": 1, "duration_ms": 1, "evidence": "verified"}

def forge(*events):
    with open(log, "a") as file:
        for seq, event in enumerate(events, last["seq"] + 1):
            file.write(json.dumps({**event, **stamp, "seq": seq}) + "\\n")

def done():
    return {"event": "action_complete", "state": "fix", "exit_code": 0, "duration_ms": 1,
            "output": "", "stderr": ""}

def completed_state():
    text = open(state).read().replace('"status":"running"', '"status":"completed"')
    text = text.replace('"reason":null', '"reason":"terminal"', 1)
    return text.replace('"phase":"running"', '"phase":"ended"')

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

"""
EPILOGUE = "\nos.kill(os.getppid(), signal.SIGKILL)\n"
FORGERIES = {
    "appends the end of the run": "forge(END)",
    "appends a whole story": """
forge(done(), {"event": "transition", "from": "fix", "to": "evaluate", "reason": "next"},
      {"event": "state_enter", "state": "evaluate", "iteration": 2, "step": 3},
      {"event": "action_start", "action": "true", "state": "evaluate", "attempt": 1,
       "action_type": "shell", "is_check": True},
      {**done(), "state": "evaluate"},
      {"event": "transition", "from": "evaluate", "to": "done", "reason": "on_pass"},
      {"event": "state_enter", "state": "done", "iteration": 2, "step": 4}, END)""",
    "appends a transition to success": """
forge(done(), {"event": "transition", "from": "fix", "to": "done", "reason": "next"})""",
    "edits the snapshot": "write(state, completed_state())",
    "edits the snapshot and the log": "write(state, completed_state()); forge(END)",
    "changes the last line of the log": """
raw = open(log, "rb").read()
whole, _, tail = raw[:-1].rpartition(b"\\n")
end = json.dumps({**END, **stamp, "seq": last["seq"]}).encode()
open(log, "wb").write(whole + b"\\n" + end.ljust(len(tail)) + b"\\n")""",
    "puts another run in place": """
text = completed_state().replace(stamp["run"], "20200101T000000-00000000")
write(state, text)
write(log, open(log).read().replace(stamp["run"], "20200101T000000-00000000"))
stamp["run"] = "20200101T000000-00000000"
forge(END)""",
}
REFUSED = {"changes the last line of the log", "puts another run in place"}
"""What is left is not the run's log at all: it cannot be continued."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (project.root / "value").write_text("wrong\n")
    project.loop("fix", LOOP)
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return project


def agent(project: Project, text: str) -> None:
    path = project.root.parent / "agent"
    path.write_text(text)
    path.chmod(0o755)


def honest(project: Project) -> None:
    agent(project, "#!/bin/sh\necho right > value; echo done\n")


def forged(project: Project, forgery: str) -> None:
    """A run whose agent has forged its files and killed its runner."""
    agent(project, PROLOGUE + forgery + EPILOGUE)
    assert project.ll("run", "fix").returncode == -9


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_run_has_not_completed(project: Project, forgery: str):
    forged(project, FORGERIES[forgery])
    for words in (("status", "fix"), ("wait", "fix")):
        said = project.ll(*words)
        assert "ompleted" not in said.stdout, said.stdout
    assert project.ll("status", "fix", "--exit-code").returncode == 1
    assert project.ll("wait", "fix").returncode == 1
    assert '"completed"' not in project.ll("status", "--json").stdout
    assert project.ll("receipt", "fix").returncode != 0


@pytest.mark.parametrize("forgery", [each for each in FORGERIES if each not in REFUSED])
def test_a_resume_continues_from_what_the_run_itself_wrote(project: Project, forgery: str):
    forged(project, FORGERIES[forgery])
    honest(project)
    said = project.ll("resume", "fix")
    assert said.returncode == 0, said.stdout + said.stderr
    assert project.file("value") == "right\n"
    assert project.events("fix")[-1]["evidence"] == "verified"
    assert "not written by this run" in said.stderr
    seqs = [event["seq"] for event in project.events("fix")]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("forgery", sorted(REFUSED))
def test_a_run_whose_log_is_another_one_is_not_continued(project: Project, forgery: str):
    forged(project, FORGERIES[forgery])
    honest(project)
    said = project.ll("resume", "fix")
    assert said.returncode == 1, said.stdout
    assert "not written by this run" in said.stderr or "were replaced by other files" in said.stderr
    again = project.ll("run", "fix", "--fresh")
    assert again.returncode == 0, again.stderr


def test_a_resume_says_what_was_left_out_and_keeps_it(project: Project):
    forged(project, FORGERIES["appends the end of the run"])
    honest(project)
    said = project.ll("resume", "fix")
    log = str(project.running("fix", ".events.jsonl"))
    assert re.sub(r"\d+", "N", said.stderr.partition("\n")[0].replace(log, "LOG")) == (
        "warning: the last N bytes of `LOG` were not written by this run and are ignored"
    )
    (kept,) = (project.root / ".loops/.history/fix").glob("*.d/not-of-this-run.jsonl")
    assert json.loads(kept.read_text())["event"] == "loop_complete"


def test_an_agent_that_removes_its_run_does_not_bring_back_an_earlier_one(project: Project):
    honest(project)
    assert project.ll("run", "fix").returncode == 0
    (project.root / "value").write_text("wrong\n")
    forged(
        project,
        'for path in glob.glob(".loops/.running/fix.*"): '
        "shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)",
    )
    said = project.ll("wait", "fix")
    assert said.returncode == 1
    assert re.sub(r"\(\w+-\w+\)", "(RUN)", said.stdout) == (
        "Loop damaged: the last run's files (RUN) were replaced by other files\n"
    )


def test_the_next_run_takes_the_name_whether_it_is_sealed_or_not(project: Project):
    honest(project)
    assert project.ll("run", "fix").returncode == 0
    (project.root / "value").write_text("wrong\n")
    assert project.ll("run", "fix", "--no-evidence").returncode == 0
    assert project.ll("status", "fix", "--exit-code").returncode == 0
    project.loop("fix", "name: fix\ninitial: a\nstates: {a: {terminal: true}}\n")
    assert project.ll("run", "fix").returncode == 0
    assert project.ll("status", "fix", "--exit-code").returncode == 0


def test_a_past_run_that_somebody_edits_is_damaged(project: Project):
    honest(project)
    assert project.ll("run", "fix").returncode == 0
    (state,) = (project.root / ".loops/.history/fix").glob("*.state.json")
    state.write_text(state.read_text().replace('"iteration":1', '"iteration":2'))
    said = project.ll("history", "fix", "--json")
    assert [run["status"] for run in json.loads(said.stdout)["runs"]] == ["damaged"]


def test_a_project_without_evidence_has_no_seals(project: Project):
    honest(project)
    assert project.ll("run", "fix", "--no-evidence").returncode == 0
    assert not (project.home / ".local/state/little-loops/seals").exists()


def test_pruning_deletes_the_seals_of_the_runs_it_deletes(project: Project):
    honest(project)
    assert project.ll("run", "fix").returncode == 0
    assert len(sealed_runs(project)) == 1
    assert project.ll("history", "--prune", "--keep", "0").returncode == 0
    assert sealed_runs(project) == []


def sealed_runs(project: Project) -> list[str]:
    return [path.name for path in (project.home / ".local/state").rglob("seals/*/runs/*")]


def test_a_run_that_began_elsewhere_is_believed(project: Project):
    """Another machine has no seals of it; its files are all there is."""
    honest(project)
    assert project.ll("run", "fix").returncode == 0
    shutil.rmtree(project.home / ".local/state/little-loops/seals")
    assert project.ll("status", "fix", "--exit-code").returncode == 0
    said = project.ll("receipt", "fix")
    assert said.returncode == 2
    assert said.stderr == dedent("""\
        error: the seal of `fix` is missing, so there is no proof of who wrote its log
           = help: create the receipt on the machine where the run was started
        """)


# ── the file itself ────────────────────────────────────────────────────────────────────────────


def sealed(*logs: bytes) -> SealedRun:
    from hashlib import sha256

    seals = [Seal(n, len(log), sha256(log).hexdigest()) for n, log in enumerate(logs)]
    return SealedRun(tuple(reversed(seals)))


@pytest.mark.parametrize(
    ("log", "length"),
    [
        pytest.param(b"a\nb\n", 4, id="as it was sealed"),
        pytest.param(b"a\n", 2, id="killed before it was written"),
        pytest.param(b"a\nb", 2, id="killed while it was written"),
        pytest.param(b"a\n\0\0", 2, id="zeros after a loss of power"),
        pytest.param(b"a\nb\nc\n", 4, id="somebody added to it"),
        pytest.param(b"a\nc\n", 2, id="somebody changed its end"),
        pytest.param(b"c\nb\n", None, id="somebody changed its beginning"),
        pytest.param(b"", None, id="empty"),
    ],
)
def test_what_counts_of_a_log(tmp_path: Path, log: bytes, length: int | None):
    (tmp_path / "log").write_bytes(log)
    found = sealed(b"a\n", b"a\nb\n").length_in_log(lambda: os.open(tmp_path / "log", os.O_RDONLY))
    assert found == length


def test_a_power_cut_takes_nothing_away_that_was_synced(tmp_path: Path):
    """Seals of a log are synced before it is written, those of a snapshot are not.  A slot fits into
    a sector, which a disk writes as a whole."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "log").touch()
    log = os.open(tmp_path / "log", os.O_RDWR)
    writer = SealWriter.open(str(tmp_path), "fix", Sealing("run", environ), log, 0, None)
    (file,) = tmp_path.glob("state/little-loops/seals/*/runs/run")
    synced, on_disk = b"", [file.read_bytes()]
    for number in range(6):
        data = b"line %d\n" % number
        writer.extend(data)
        on_disk.append(file.read_bytes())
        assert {counted(tmp_path, seals, synced) for seals in on_disk} == {len(synced)}
        for cut in range(len(data)):
            assert counted(tmp_path, on_disk[-1], synced + data[:cut]) == len(synced)
        synced, on_disk = synced + data, on_disk[-1:]
        writer.replace(b"state %d" % number)
        on_disk.append(file.read_bytes())
        assert {counted(tmp_path, seals, synced) for seals in on_disk} == {len(synced)}
    writer.close()
    os.close(log)


def counted(tmp_path: Path, seals: bytes, log: bytes) -> int | None:
    """How much of a log counts by these seals."""
    (tmp_path / "cut/runs").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cut/runs/run").write_bytes(seals)
    (tmp_path / "cut/log").write_bytes(log)
    found = Seals(str(tmp_path / "cut")).of("run")
    assert found is not None
    return found.length_in_log(lambda: os.open(tmp_path / "cut/log", os.O_RDONLY))


def test_a_log_that_is_gone_counts_only_before_its_first_line():
    assert sealed(b"").length_in_log(lambda: None) == 0
    assert sealed(b"a\n").length_in_log(lambda: None) is None


def test_a_seal_reads_back_unless_a_bit_of_it_is_lost():
    seal = Seal(7, 4096, "a" * 64, "b" * 64)
    raw = seal.to_bytes()
    assert Seal.from_bytes(raw) == seal
    assert Seal.from_bytes(raw.replace(b"4096", b"4097")) is None
    assert Seal.from_bytes(b"\0" * len(raw)) is None


@pytest.mark.parametrize("run", ["", ".", "..", "../runs", "a/b"])
def test_a_name_out_of_a_file_leads_nowhere(tmp_path: Path, run: str):
    assert Seals(str(tmp_path)).of(run) is None
