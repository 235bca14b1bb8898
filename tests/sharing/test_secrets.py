"""No secret leaves in a run file, and a run that lacks one says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.sharing.files import entries_of


def canary(number: int) -> str:
    text = f"canary{number:02}-4f9a1c7e{number:02}"
    return f"{text}\"\\'é" if number == 48 else text  # one that JSON and Python escape


COUNT = 50
# Variables of the run that whoever exports it does not have any more: it printed them.
GONE = {f"C{number:02}_SECRET": canary(number) for number in range(35, 43)}
# Variables of the run and of the export; those of the definition are in neither.
ENVIRONMENT = {
    f"C{number:02}_TOKEN": canary(number)
    for number in range(1, COUNT + 1)
    if number not in range(21, 26) and f"C{number:02}_SECRET" not in GONE
}


def halves(number: int) -> str:
    """Print a canary in two writes, so that it arrives in two pieces."""
    word = f'printf %s "$C{number:02}_TOKEN"'
    return f"{word} | head -c 11; sleep 0.05; {word} | tail -c +12; echo"


LOOP = f"""
    name: canaries
    evidence: true
    context: {{api_key: {canary(21)}, greeting: hello}}
    env: {{LOOP_TOKEN: {canary(22)}}}
    host: {{name: command, command: [./agent, "{{prompt}}"], env: {{HOST_TOKEN: {canary(23)}}}}}
    initial: short
    states:
      short:
        action: |
          echo $C01_TOKEN $C02_TOKEN$C03_TOKEN; echo "'$C04_TOKEN'" {canary(5)}
          printf '\\033[31m%.9s\\033[0m' $C06_TOKEN; printf %s $C06_TOKEN | tail -c +10; echo
          echo "$C07_TOKEN,$C08_TOKEN"; echo $C09_TOKEN $C10_TOKEN >&2; echo "$C48_TOKEN"
          echo $LOOP_TOKEN $OWN_TOKEN ${{context.api_key}} $LL_CONTEXT_DB_PASSWORD ${{context.greeting}}
          echo $C35_SECRET $C36_SECRET; echo $C37_SECRET $C38_SECRET >&2
        env: {{OWN_TOKEN: {canary(24)}}}
        context: {{db_password: {canary(25)}}}
        next: long
      long:
        action: |
          seq 20000; printf $C13_TOKEN; seq 20000; echo $C14_TOKEN; seq 20000 >&2; echo $C11_TOKEN >&2
          printf 'x%.0s' $(seq 65530); echo $C15_TOKEN; echo $C16_TOKEN; seq 9; echo $C12_TOKEN
          {halves(17)}; {halves(18)}; {halves(19)} >&2; {halves(20)}
        next: files
      files:
        action: |
          echo $C34_TOKEN > $LL_RUN_DIR/notes.txt; echo $C39_SECRET > $LL_RUN_DIR/more.txt
          echo $C39_SECRET $C40_SECRET; echo $C41_SECRET $C42_SECRET >&2
        next: get
      get: {{action: echo $C43_TOKEN $C44_TOKEN, capture: got, next: ask}}
      ask:
        action: "Use {canary(26)} and {canary(27)}: ${{captured.got.output}}, ${{env.C28_TOKEN}}"
        action_type: prompt
        context: {{note: {canary(29)}}}
        next: done
      done: {{terminal: true, action: "echo ${{env.C49_TOKEN}} ${{context.greeting}}"}}
"""
AGENT = """\
#!/bin/sh
echo key=$C30_TOKEN > secret.py; cp secret.py again.py; echo $C31_TOKEN$C32_TOKEN > two.py
echo $C40_SECRET > other.py; echo $C41_SECRET > x.py; echo fine > fine.py; ln -s $C33_TOKEN link
echo "I saw $C45_TOKEN and $C46_TOKEN, $HOST_TOKEN too, in: $1"
echo "{\\"token\\": \\"$C47_TOKEN\\"}"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("canaries"))
    agent = made.root / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    made.loop("canaries", LOOP)
    made.git("init", "-q")
    given = ("--context", f"greeting={canary(50)}")
    done = made.ll("run", "canaries", *given, env={**ENVIRONMENT, **GONE})
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def run_file(project: Project) -> Path:
    path = project.root.parent / "canaries.llrun"
    done = project.ll("export", "canaries", "-o", str(path), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return path


def unpacked(path: Path, place: Path) -> dict[str, bytes]:
    """Everything in a run file, with every object of its bundle."""
    found = entries_of(path)
    project = Project(place)
    project.git("init", "-q", "--bare", "objects")
    pack = found["trees.bundle"].partition(b"\n\n")[2]
    subprocess.run(
        ["git", "-C", str(project.root / "objects"), "unpack-objects", "-q"],
        input=pack,
        check=True,
        env=project.environ(),
    )
    ids = project.git(
        "-C",
        "objects",
        "cat-file",
        "--batch-all-objects",
        "--batch-check=%(objectname) %(objecttype)",
    )
    for line in ids.splitlines():
        id, kind = line.split()
        done = subprocess.run(
            ["git", "-C", str(project.root / "objects"), "cat-file", kind, id],
            capture_output=True,
            check=True,
            env=project.environ(),
        )
        found[f"object {id}"] = done.stdout
    return found


def test_the_run_itself_has_them_all(project):
    """Otherwise nothing would be tested."""
    files = [path for path in project.root.rglob("*") if path.is_file()]
    data = b"".join(path.read_bytes() for path in files) + canary(33).encode()  # a link
    plain = data.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"")
    missing = [
        number for number in range(1, COUNT + 1) if f"canary{number:02}".encode() not in plain
    ]
    assert missing == []


def test_no_canary_is_in_a_run_file(run_file, tmp_path):
    whole = unpacked(run_file, tmp_path)
    for number in range(1, COUNT + 1):
        word = f"canary{number:02}".encode()
        where = [name for name, data in whole.items() if word in data or word in name.encode()]
        assert where == [], number
    assert b"canary0" not in run_file.read_bytes()
    assert b"4f9a1c7e" not in b"".join(whole.values())


def test_what_was_left_out_is_said(project, run_file):
    path = run_file.parent / "again.llrun"
    done = project.ll("export", "canaries", "-o", str(path), env=ENVIRONMENT)
    assert path.read_bytes() == run_file.read_bytes()
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"wrote {path}: its definition, ")
    assert lines[-1] == "note: 6 files of the project left out because of a secret"
    assert lines[-2].startswith("note: secrets were masked in ")


def test_an_imported_run_shows_what_the_original_shows(project, run_file, tmp_path):
    there = Project(tmp_path)
    assert there.ll("import", str(run_file)).returncode == 0
    for words in (["logs", "canaries"], ["steps", "canaries"], ["history", "canaries"]):
        shown = project.ll(*words).stdout.replace(canary(21), "***")  # not masked on the screen
        assert there.ll(*words).stdout == shown, words
    diff = there.ll("diff", "canaries").stdout
    assert "+fine" in diff
    why = "left out of the run file, because it contains a secret"
    assert f"Binary files a/secret.py and b/secret.py differ ({why})" in diff


def test_a_secret_as_the_name_of_a_file(tmp_path):
    """Snapshots consist of names, so none of them can be given away."""
    made = KeptProject(tmp_path)
    (made.root / canary(1)).write_text("x")
    made.fixed()
    path = tmp_path / "fix.llrun"
    done = made.ll("export", "fix", "-o", str(path), env={"FILE_KEY": canary(1)})
    assert done.returncode == 0, done.stderr
    assert "note: the snapshots were left out, because a file name contains a secret" in done.stderr
    assert all(canary(1).encode() not in data for data in entries_of(path).values())
    manifest = json.loads(entries_of(path)["manifest.json"])
    assert "trees" not in manifest
    assert manifest["no_trees"] == "a file name contains a secret"


def test_a_name_in_the_loop_is_no_secret(tmp_path):
    made = KeptProject(tmp_path).fixed()
    path = tmp_path / "fix.llrun"
    done = made.ll("export", "fix", "-o", str(path), env={"DEPLOY_KEY": "evaluate"})
    assert done.returncode == 0, done.stderr
    assert b"evaluate" in entries_of(path)["events.jsonl"]


# ── what an imported run lacks ─────────────────────────────────────────────────────────────────

NEEDS = """
    name: needs
    context: {{mode: fast}}
    {env}
    initial: login
    states:
      login: {{action: echo $LOGIN_TOKEN, next: wait}}
      wait: {{terminal: true, outcome: review, next: use}}
      use:
        action: '[ "${{captured.login.output}}" = {token} ]'
        next: done
      other: {{action: echo fine, next: done}}
      done: {{terminal: true}}
"""


def moved(tmp_path: Path, text: str, *words: str, **env: str) -> Project:
    """A run that waits at a gate, imported into another project."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (Project(tmp_path / name) for name in ("here", "there"))
    for project in (here, there):
        project.loop("needs", text)
    done = here.ll("run", "needs", *words, env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    assert here.ll("export", "needs", "-o", "../run.llrun", env=env).returncode == 0
    done = there.ll("import", str(here.root.parent / "run.llrun"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[1:] == [
        "note: its secrets are masked; a state that needs one cannot be resumed",
        "next: ll-loop resume needs",
    ]
    return there


def test_a_state_that_needs_a_masked_value(tmp_path):
    """It is not run with asterisks: at a resume there, or when the run gets there."""
    text = NEEDS.format(env="", token="x")
    there = moved(tmp_path, text, LOGIN_TOKEN=canary(1))
    done = there.ll("resume", "needs", "--from", "use", "--definition", "original")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `needs` cannot be resumed in state `use`: it needs values that were masked when the"
        " run was exported: `${captured.login.output}`\n"
        "   = help: use `--context NAME=VALUE` to set a context variable again, or `--from STATE` to"
        " continue from another state\n"
    )
    late = there.ll("resume", "needs", "--definition", "original")
    assert late.returncode == 1
    assert (
        "`action`: `${captured.login.output}` was masked when the run was exported, so its value is"
        " not known"
    ) in late.stdout + late.stderr


def test_another_state_can_be_resumed(tmp_path):
    text = NEEDS.format(env="", token="x")
    there = moved(tmp_path, text, LOGIN_TOKEN=canary(1))
    done = there.ll("resume", "needs", "--from", "other")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_masked_definition(tmp_path):
    """The original one cannot be used any more, the file here can."""
    text = NEEDS.format(env=f"env: {{LOGIN_TOKEN: {canary(2)}}}", token=canary(2))
    there = moved(tmp_path, text)
    done = there.ll("resume", "needs", "--from", "other", "--definition", "original")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `needs` cannot be resumed with its original definition, in which secrets were masked"
        " when it was exported: `env.LOGIN_TOKEN`, `states.use.action`\n"
        "   = help: `ll-loop resume needs --definition current` continues with the loop file here\n"
    )
    done = there.ll("resume", "needs", "--from", "login", "--definition", "current")
    assert done.returncode == 4, done.stdout + done.stderr
    done = there.ll("resume", "needs", "--definition", "current")
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_of_an_earlier_definition(tmp_path):
    """A resume replaced the definition; the secrets of the old one are not given away either."""
    here = Project(tmp_path)
    here.loop("needs", NEEDS.format(env=f"env: {{LOGIN_TOKEN: {canary(2)}}}", token="x"))
    assert here.ll("run", "needs").returncode == 4
    here.loop("needs", NEEDS.format(env="", token="x"))
    done = here.ll("resume", "needs", "--from", "other", "--definition", "current")
    assert done.returncode == 0, done.stdout + done.stderr
    assert canary(2) in (here.past("needs", ".d") / "run.json").read_text()
    assert here.ll("export", "needs", "-o", "../run.llrun").returncode == 0
    entries = entries_of(tmp_path / "run.llrun")
    assert all(b"canary" not in data for data in entries.values())
    assert "canary" not in here.ll("report", "needs", "--markdown").stdout


def test_one_variable_with_several_values(tmp_path):
    """In the environment, in the loop and in two states: each of them is a secret."""
    here = Project(tmp_path)
    here.loop(
        "several",
        f"""
        name: several
        env: {{MY_TOKEN: {canary(2)}}}
        initial: one
        states:
          one: {{action: "true", env: {{MY_TOKEN: {canary(3)}}}, next: two}}
          two: {{action: "true", env: {{MY_TOKEN: {canary(4)}}}, next: done}}
          done: {{terminal: true, action: "true"}}
        """,
    )
    assert here.ll("run", "several", env={"MY_TOKEN": canary(1)}).returncode == 0
    done = here.ll("export", "several", "-o", "../run.llrun", env={"MY_TOKEN": canary(1)})
    assert done.returncode == 0, done.stderr
    entries = entries_of(tmp_path / "run.llrun")
    assert all(b"canary" not in data for data in entries.values())


def test_a_masked_context_variable(tmp_path):
    """Given again, it counts."""
    text = NEEDS.format(env="", token="x").replace("${captured.login.output}", "${context.mode}")
    there = moved(tmp_path, text, "--context", f"mode={canary(3)}", LOGIN_TOKEN=canary(3))
    done = there.ll("resume", "needs", "--from", "use")
    assert done.returncode == 2
    assert "masked when the run was exported: `${context.mode}`" in done.stderr
    done = there.ll("resume", "needs", "--from", "use", "--context", "mode=x")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_without_its_snapshots(tmp_path):
    """It can be looked at, and not be resumed."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = KeptProject(tmp_path / "here")
    (tmp_path / "here" / "agent").write_text("#!/bin/sh\necho working\n")
    assert here.ll("run", "fix", "--max-iterations", "1").returncode == 3
    done = here.ll("export", "fix", "-o", "../fix.llrun", "--no-trees")
    assert done.returncode == 0
    assert done.stderr.endswith("; no project files\n")
    there = KeptProject(tmp_path / "there")
    done = there.ll("import", str(tmp_path / "here" / "fix.llrun"))
    assert done.returncode == 0, done.stderr
    left = "its run file has no snapshots"
    assert done.stderr.splitlines()[1] == f"note: {left}: they were left out with `--no-trees`"
    assert there.ll("logs", "fix").stdout == here.ll("logs", "fix").stdout
    done = there.ll("resume", "fix", "--max-iterations", "5", "--definition", "original")
    assert done.returncode == 2
    assert f"`fix` cannot be resumed: {left}" in done.stderr
    done = there.ll("diff", "fix")
    assert done.returncode == 2
    assert "the run file of `fix` has no snapshots: they were left out with" in done.stderr
