"""`keep: best` in real runs: real files, real git, kills.

The agent of these projects writes another number in each iteration; the check prints it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from little_loops.runs.reading import Runs
from tests.entries import log_of
from tests.project import Project
from tests.simulation.command import GONE, At, command, dies, operations, projects

Make = Callable[[], Project]
SOME = 97
"""In `make test`, every so many operations; `make soak` takes all of them."""
LOOP = """\
    paradigm: convergence
    name: tune
    check: {{action: cat src/speed, repeat: {repeat}}}
    toward: 100
    direction: min
    using: {using}
    keep: best
    patience: 3
    scope: [src/]
    host: {{name: command, command: [./agent.sh, "{{prompt}}"]}}
"""
PROMPT = "{action: Make it faster., action_type: prompt}"
AGENT = """\
#!/bin/sh
printf '%s\\n--\\n' "$1" >> "$HOME/prompts"
case $LL_ITERATION in
1) echo 110 > src/speed ;;
2) echo 130 > src/speed; rm src/data; echo x > src/new; mkdir -p src/deep/er; echo y > src/deep/er/z
   ln -sf speed src/link; chmod 755 src/plain; echo built > src/out.o; echo o > other/mine ;;
3) echo broken > src/speed ;;
*) echo 99 > src/speed ;;
esac
echo finished
"""


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def laid_out(
    project: Project, agent: str = AGENT, more: str = "", repeat: int = 1, using: str = PROMPT
) -> Project:
    for folder in ("src", "other"):
        (project.root / folder).mkdir()
    files = {
        "src/speed": "120\n",
        "src/data": "\0binary\xff",
        "src/plain": "text\n",
        "other/mine": "1\n",
        "agent.sh": agent,
        ".gitignore": "*.o\n",
    }
    for name, text in files.items():
        (project.root / name).write_bytes(text.encode("latin-1"))
    (project.root / "src/link").symlink_to("plain")
    (project.root / "src/plain").chmod(0o640)
    (project.root / "agent.sh").chmod(0o755)
    project.loop("tune", dedent(LOOP.format(repeat=repeat, using=using)) + dedent(more))
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return project


def run(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return project.ll("run", "tune", "--allow-skip-permissions", *words)


def events(project: Project) -> list[dict[str, Any]]:
    view = Runs(str(project.root)).view("tune")
    assert view is not None
    return log_of(view.files)


def decisions(project: Project) -> list[tuple[str, float | None]]:
    decided = [event for event in events(project) if event["event"] == "keep_best"]
    return [(event["decision"], event.get("best")) for event in decided]


def content(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below, with its mode and its bytes or where it leads."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(root))] = (0, os.readlink(path).encode())
        elif stat.S_ISREG(mode):
            found[str(path.relative_to(root))] = (stat.S_IMODE(mode), path.read_bytes())
        else:
            found[str(path.relative_to(root))] = (1, b"")
    return found


def plain(text: str) -> str:
    text = re.sub(r"tree [0-9a-f]{6}", "tree ID", text)
    return re.sub(r"\d+(\.\d+)?m?s\)", "TIME)", text)


WHOLE = """\
[1/50] measure → running cat src/speed...
       · 120 (exit 0) · tree ID
       first measurement: 120 (target: 100)
[1/50] measure → running cat src/speed...
       · 120 (exit 0) · tree ID
       second measurement: 120 (target: 100); a change is kept if it is better
       → apply (on_progress)
[1/50] apply → running "Make it faster."...
       ✓ finished
       → measure
[2/50] measure → running cat src/speed...
       · 110 (exit 0) · tree ID
       110 is better than 120 (target: 100)
       kept: tree ID
       → apply (on_progress)
[2/50] apply → running "Make it faster."...
       ✓ finished
       ! the agent changed other/mine outside the scope
       → measure
[3/50] measure → running cat src/speed...
       · 130 (exit 0) · tree ID
       130 is not better than 110 (target: 100; 1 of 3 without improvement)
       reverted: src/data, src/deep/er/z, src/link and 3 more (best: 110, tree ID)
       → apply (on_progress)
[3/50] apply → running "Make it faster."...
       ✓ finished
       → measure
[4/50] measure → running cat src/speed...
       · broken (exit 0) · tree ID
       the change cannot be measured: expected a number, got 'broken' (best: 110; 2 of 3 without improvement)
       reverted: src/speed (best: 110, tree ID)
       → apply (on_progress)
[4/50] apply → running "Make it faster."...
       ✓ finished
       → measure
[5/50] measure → running cat src/speed...
       ✓ 99 (exit 0) · tree ID
       99 meets the target 100
       kept: tree ID
       → done (on_target)

Loop completed: done (5 iterations, TIME)
Kept: tree ID from step 9, which measured 99 (at the start: 120)
Files changed: src/speed (+1 -1)
Verified on tree ID; for a receipt: ll-loop receipt tune
"""


def test_a_change_that_is_not_better_is_put_back_exactly(tmp_path):
    project = laid_out(Project(tmp_path))
    before = content(project.root / "src")
    ended = run(project)
    assert (ended.returncode, plain(ended.stdout)) == (0, WHOLE)
    left = content(project.root / "src")
    assert left.pop("out.o") == (0o644, b"built\n")  # ignored, so it is not part of the tree
    assert left == {**before, "speed": (0o644, b"99\n")}
    # Outside the scope, nothing is put back.
    assert (project.root / "other/mine").read_text() == "o\n"


def test_the_next_agent_is_told_and_the_change_can_be_had_again(tmp_path):
    project = laid_out(Project(tmp_path))
    run(project)
    prompts = (project.home / "prompts").read_text().split("\n--\n")
    assert prompts == [
        "Make it faster.",
        "Make it faster.",
        "Make it faster.\n\nput_back: true\nmeasured: 130\nbest: 110",
        "Make it faster.\n\nput_back: true\nmeasured: none\nbest: 110",
        "",
    ]
    shown = project.ll("diff", "tune", "4").stdout
    assert ("+130" in shown, "src/deep/er/z" in shown) == (True, True)
    project.ll("restore", "tune", "src/deep/er/z", "--step", "4")
    assert (project.root / "src/deep/er/z").read_text() == "y\n"


def test_what_people_see_of_it_afterwards(tmp_path):
    project = laid_out(Project(tmp_path))
    kept = run(project, "-q").stdout.splitlines()[2]
    steps = json.loads(project.ll("steps", "tune", "--json").stdout)["steps"]
    decided = [step["decision"] for step in steps if step["state"] == "measure"]
    assert decided == ["kept", "kept", "put_back", "put_back", "kept"]
    status = json.loads(project.ll("status", "tune", "--json").stdout)
    tree = steps[8]["tree"]
    assert status["best"] == {"value": 99, "tree": tree, "step": 9}
    assert f"  best       99, tree {tree[:6]} from step 9\n" in project.ll("status", "tune").stdout
    assert " 120 ██▅▅▅▁ 99 " in project.ll("history", "tune").stdout
    assert kept == f"Kept: tree {tree[:6]} from step 9, which measured 99 (at the start: 120)"
    report = project.ll("report", "tune", "--markdown").stdout
    assert report.count("| `progress`, kept |") == 2
    assert report.count("| `progress`, reverted |") == 2
    assert "| best | 99, from step 9 |" in report


@pytest.mark.parametrize(
    ("more", "agent", "code", "speed"),
    [
        pytest.param("max_iterations: 2\n", AGENT, 3, "110\n", id="a limit"),
        pytest.param(
            "", AGENT.replace("echo finished", "exit 3"), 1, "120\n", id="a failing agent"
        ),
        pytest.param(
            *("", AGENT.replace("echo finished", "echo LOOP_STOP: enough"), 6, "120\n"),
            id="a stop by the agent",
        ),
        pytest.param(
            "", "#!/bin/sh\necho 110 > src/speed\nkill -9 $$\n", 1, "120\n", id="a dying agent"
        ),
    ],
)
def test_the_best_is_left_however_it_ends(tmp_path, more, agent, code, speed):
    project = laid_out(Project(tmp_path), agent, more)
    ended = run(project)
    assert (ended.returncode, (project.root / "src/speed").read_text()) == (code, speed), ended


def test_a_protected_file_that_is_as_it_should_be_is_left_alone(tmp_path):
    """The reference has moved on in a pause; the best tree has an older version of that file."""
    more = "evidence: {protect: [src/data]}\nmax_iterations: 1\n"
    project = laid_out(Project(tmp_path), AGENT.replace("rm src/data;", ""), more)
    assert run(project).returncode == 3
    assert (project.root / "src/speed").read_text() == "110\n"
    (project.root / "src/data").write_text("mine\n")
    resumed = project.ll("resume", "tune", "--max-iterations", "9", "--allow-skip-permissions")
    assert resumed.returncode == 0, resumed.stdout
    assert (project.root / "src/data").read_text() == "mine\n"
    assert ("moved", None) in decisions(project)


def test_a_device_in_the_place_of_a_file_is_replaced(tmp_path):
    agent = AGENT.replace("rm src/data;", "rm src/data; mkfifo src/data;")
    project = laid_out(Project(tmp_path), agent)
    ended = run(project)
    assert ended.returncode == 0, ended.stdout
    assert (project.root / "src/data").read_bytes() == "\0binary\xff".encode("latin-1")


def test_the_users_repository_is_only_read(tmp_path):
    project = laid_out(Project(tmp_path))
    (project.root / "src/staged").write_text("1\n")
    project.git("add", "src/staged")
    before = [project.git(*words) for words in (["rev-parse", "HEAD"], ["ls-files", "-s"])]
    index = (project.root / ".git/index").read_bytes()
    run(project)
    assert (project.root / ".git/index").read_bytes() == index
    after = [project.git(*words) for words in (["rev-parse", "HEAD"], ["ls-files", "-s"])]
    assert after == before


@pytest.mark.parametrize(
    ("words", "prepare", "told"),
    [
        pytest.param(
            ("run", "tune", "--no-evidence"),
            lambda project: None,
            "error: `tune` has `keep: best`, which needs evidence\n"
            "   = help: run it without `--no-evidence`\n",
            id="no evidence",
        ),
        pytest.param(
            ("validate", "tune"),
            lambda project: shutil.rmtree(project.root / ".git"),
            """\
error[LL234]: `keep: best` needs a git repository, but this project is not in one
  --> .loops/tune.yaml:7:7
   |
 7 | keep: best
   |       ^^^^
   = help: run `git init`, or remove `keep`
""",
            id="no repository",
        ),
        pytest.param(
            ("validate", "tune"),
            lambda project: (project.root / ".loops/.config.yaml").write_text("evidence: false\n"),
            """\
error[LL218]: `keep: best` needs evidence, which a config file turns off
  --> .loops/tune.yaml:7:7
   |
 7 | keep: best
   |       ^^^^
   = help: add `evidence: true` to the loop, or remove `keep`
""",
            id="a config file",
        ),
    ],
)
def test_it_is_refused_where_it_cannot_work(tmp_path, words, prepare, told):
    project = laid_out(Project(tmp_path))
    prepare(project)
    refused = project.ll(*words)
    assert (refused.returncode, told in refused.stdout + refused.stderr) == (2, True), refused


def test_the_checks_of_such_a_loop_can_be_run_alone(tmp_path):
    project = laid_out(Project(tmp_path), repeat=3)
    assert project.ll("check", "tune").returncode == 1
    (project.root / "src/speed").write_text("90\n")
    checked = project.ll("check", "tune")
    assert (checked.returncode, checked.stdout) == (0, "✓ measure: cat src/speed\n")


# ── kills ──────────────────────────────────────────────────────────────────────────────────────

SHELL = """\
case $LL_ITERATION in 1) echo 110 > src/speed;; 2) echo 130 > src/speed; echo x > src/new;;
*) echo 99 > src/speed;; esac"""


def tuned_by_a_command(make: Make) -> Project:
    return laid_out(make(), using=json.dumps({"action": SHELL}), repeat=2)


def sweep(make: Make, rows: Iterator[int]) -> int:
    """Kill before one operation after the other; whatever was done, the resume ends alike."""
    kills = 0
    for number in rows:
        project = tuned_by_a_command(make)
        before = content(project.root / "src")
        said = command(project, "run", "tune", at=At(number, dies))
        if said.reached is None:  # on a busy machine, some runs have a few operations fewer
            assert said.code == 0
            continue
        assert said.code == GONE
        again = command(project, "resume", "tune")
        if "has no run to resume" in again.err:
            again = command(project, "run", "tune")
        assert again.code == 0 or "nothing to resume" in again.err, again.err
        left = content(project.root / "src")
        assert left == {**before, "speed": (0o644, b"99\n")}, (number, said.reached)
        assert decisions(project)[-1] == ("kept", 99)
        kills += 1
        shutil.rmtree(project.root)
    return kills


def test_a_run_killed_before_its_operations_keeps_the_best(make, record_property):
    count = len(operations(tuned_by_a_command(make), "run", "tune"))
    kills = sweep(make, iter(range(1, count + 1, SOME)))
    record_property("figure: kills at a boundary of a loop that keeps the best", kills)


@pytest.mark.soak
def test_a_run_killed_before_any_of_its_operations_keeps_the_best(make, record_property):
    count = len(operations(tuned_by_a_command(make), "run", "tune"))
    kills = sweep(make, iter(range(1, count + 1)))
    assert kills > 0.98 * count
    record_property("figure: kills at a boundary of a loop that keeps the best", kills)
