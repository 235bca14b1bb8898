"""`receipt`, `verify`, `diff` and `restore` on a real run."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from little_loops.receipts.canonical import canonical, digest
from little_loops.receipts.statement import Malformed
from little_loops.receipts.verification import exit_code_of, verify
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.stand_ins import tree

VERIFIED = """\
✓ the receipt is intact
– unsigned
✓ the log of `fix` matches
✓ all 4 files match
verified
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> KeptProject:
    return KeptProject(tmp_path_factory.mktemp("kept")).fixed()


@pytest.fixture
def project(original: KeptProject) -> Iterator[KeptProject]:
    """The same project for each test, put back as it was.

    Its store goes by its path, so it is not copied to another one.
    """
    base = original.root.parent
    kept = base.with_name(f"{base.name}-kept")
    shutil.copytree(base, kept, symlinks=True)
    yield original
    shutil.rmtree(base)
    kept.rename(base)


# ── what it says ───────────────────────────────────────────────────────────────────────────────


def test_a_receipt_tells_the_run(project):
    said = json.loads(project.receipt().read_text())
    told = said["predicate"]
    assert [one["name"] for one in said["subject"]] == [
        ".",
        ".loops/.gitignore",
        ".loops/fix.yaml",
        "code.py",
        "tests/t.sh",
    ]
    checks = [(one["state"], one["verdict"], one["place"]) for one in told["checks"]]
    assert checks == [
        ("evaluate", "fail", "here"),
        ("evaluate", "pass", "here"),
        ("evaluate", "pass", "clean"),
    ]
    [turn] = told["turns"]
    assert (turn["host"], turn["model"], turn["step"]) == ("command", None, 2)
    assert turn["changed"]["paths"] == ["code.py", "tests/t.sh"]
    assert told["protected"]["restored"][0]["paths"] == ["tests/t.sh"]
    assert told["start"]["commit"] == project.git("rev-parse", "HEAD")
    assert told["ending"]["status"] == "completed"


def test_a_receipt_lists_the_facts_of_checks_turns_and_the_run(project):
    told = json.loads(project.receipt().read_text())["predicate"]
    for check in told["checks"]:
        assert sorted(check) == [
            *("attempt", "command", "duration_ms", "exit_code", "place", "reason", "started"),
            *("state", "stderr", "stdout", "step", "tree", "verdict"),
        ]
    assert told["checks"][0]["stdout"] == hashlib.sha256(b"looking").hexdigest()
    assert [one["tree"]["before"] for one in told["checks"]] == [
        told["start"]["tree"],
        *[told["end"]["tree"]] * 2,
    ]
    why = "to confirm its pass in a clean copy"
    assert told["rechecks"] == [{"state": "evaluate", "place": "clean", "why": why}]
    assert told["definition"]["sha256"] == digest(told["definition"]["machine"])
    assert {"ll-loop", "python", "system"} <= set(told["versions"])
    assert told["log"]["lines"] > 0


FLAKY_AGENT = """\
#!/bin/sh
cat > /dev/null
touch "$HOME/lucky"
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "num_turns": 2, "result": "ok", \
"total_cost_usd": 0.25, "session_id": "s"}'
"""
FLAKY = """\
    name: fix
    paradigm: goal
    goal: It is fixed
    tools: ['test -e "$HOME/lucky"', {action: Fix it, action_type: prompt}]
    host: {name: claude, model: opus, permission_mode: acceptEdits}
"""


def test_a_receipt_tells_what_an_agent_cost_and_that_a_pass_was_flaky(tmp_path):
    project = Project(tmp_path)
    agent = project.home / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(FLAKY_AGENT)
    agent.chmod(0o755)
    project.loop("fix", FLAKY)
    project.git("init", "-q")
    env = {"PATH": f"{agent.parent}:{project.environ()['PATH']}"}
    done = project.ll("run", "fix", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(project.ll("receipt", "fix").stdout)["predicate"]
    [turn] = told["turns"]
    assert (turn["host"], turn["model"], turn["cost_usd"]) == ("claude", "opus", 0.25)
    assert turn["changed"]["files"] == 0
    [again] = told["rechecks"]
    assert again["why"] == "it failed on the same tree in iteration 1"
    assert told["warnings"] == ["`evaluate` failed in iteration 1 and passes now, on the same tree"]


def test_secrets_are_masked_in_it(project):
    assert "hunter2" not in project.receipt().read_text()


def test_a_commit_of_the_same_content_is_named(project):
    def commit() -> str | None:
        whole = json.loads(project.receipt().read_text())["subject"][0]
        found: str | None = whole["digest"].get("gitCommit")
        return found

    assert commit() is None
    project.commit("Fix it")
    assert commit() == project.git("rev-parse", "HEAD")


def test_a_receipt_that_cannot_be_written_names_the_file(project):
    done = project.ll("receipt", "fix", "-o", "gone/receipt.json")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "error: cannot write `gone/receipt.json`: No such file or directory\n",
    )


def test_it_is_printed_where_no_file_is_given(project):
    path = project.receipt()
    assert project.ll("receipt").stdout == path.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("receipt", "--sign", "key"),
            "error: `--sign` needs `-o`: it writes the signature beside the receipt\n   = help: add `-o FILE`\n",
            id="a signature needs a file",
        ),
        pytest.param(
            ("receipt", "--run", "2020"),
            "error: `--run` needs the name of a loop\n   = help: see `ll-loop history`\n",
            id="a time needs a name",
        ),
        pytest.param(
            ("verify", "gone.json"),
            "error: cannot read `gone.json`: No such file or directory\n",
            id="no such receipt",
        ),
        pytest.param(
            ("verify", "code.py"),
            "error: `code.py` is not a receipt: it is not valid JSON (line 1, column 1)\n",
            id="not a receipt",
        ),
        pytest.param(
            ("diff", "fix", "x"),
            "error: `x` is not a step\n   = help: write `4`, or `2..6`\n",
            id="not a step",
        ),
        pytest.param(
            ("diff", "fix", "2..1"),
            "error: `2..1` is not a range of steps: the first step must not come after the last\n",
            id="a range that runs backwards",
        ),
        pytest.param(
            ("diff", "fix", "9"),
            "error: no snapshot was recorded for step 9\n"
            "   = help: snapshots were recorded for steps 1, 2, 3\n",
            id="no such step",
        ),
        pytest.param(
            ("restore", "fix", "../x"),
            "error: `../x` is not a file in this project\n",
            id="outside of the project",
        ),
        pytest.param(
            ("restore", "fix", "gone.py"),
            "error: `gone.py` did not exist when the run started\n   = help: no snapshot contains it\n",
            id="no such file",
        ),
        pytest.param(
            ("restore", "fix", "code.py", "--step", "9"),
            "error: no snapshot was recorded after step 9\n"
            "   = help: snapshots were recorded for steps 1, 2, 3\n",
            id="no such step to restore",
        ),
    ],
)
def test_what_cannot_be_done_is_said(words, said, project):
    done = project.ll(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_run_without_evidence_has_nothing_to_show(project):
    project.loop("plain", "{name: plain, paradigm: goal, goal: x, tools: [pwd]}")
    project.ll("run", "plain")
    done = project.ll("receipt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: no snapshots of the files were recorded for `plain`, so there is nothing to put in"
        " a receipt\n"
        "   = help: evidence was off for this run: see `evidence` in the manual\n"
    )
    assert project.ll("diff").stderr == (
        "error: no snapshots of the files were recorded for `plain`\n"
        "   = help: evidence was off for this run\n"
    )


def test_where_nothing_has_run_there_is_nothing_to_show(tmp_path):
    project = KeptProject(tmp_path)
    for words in (["receipt"], ["diff"]):
        assert project.ll(*words).stderr == (
            "error: this project has no runs yet\n   = help: `ll-loop run LOOP` starts one\n"
        )
    assert project.ll("receipt", "fix").stderr == (
        "error: `fix` has not run yet\n   = help: `ll-loop run fix` starts it\n"
    )


def test_a_large_receipt_says_what_makes_it_large(tmp_path):
    project = KeptProject(tmp_path)
    deep = project.root / "node_modules" / ("d" * 250) / ("e" * 250) / ("f" * 250)
    deep.mkdir(parents=True)
    for number in range(1200):
        (deep / f"{number:04}{'g' * 240}").touch()
    project.fixed()
    done = project.ll("receipt", "fix", "-o", "../receipt.json")
    assert done.stderr == (
        "wrote ../receipt.json\n"
        "note: it lists 1,204 files, 1,200 of them in `node_modules`; list in .gitignore what you do"
        " not deliver\n"
    )
    assert project.ll("verify", "../receipt.json").returncode == 0


# ── verifying ──────────────────────────────────────────────────────────────────────────────────


def test_a_receipt_is_verified_and_nothing_is_written(project):
    path = project.receipt()
    before = tree(project.root)
    done = project.ll("verify", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, VERIFIED, "")
    assert tree(project.root) == before


@pytest.mark.parametrize(
    ("change", "line", "code"),
    [
        pytest.param("echo >> code.py", "! different: code.py", 3, id="a file was changed"),
        pytest.param("chmod +x code.py", "! different: code.py", 3, id="a mode was changed"),
        pytest.param("rm code.py", "! missing: code.py", 3, id="a file is gone"),
        pytest.param(
            "mv tests t2; ln -s t2 tests", "! missing: tests/t.sh", 3, id="a link on the way"
        ),
        pytest.param("ln -sf x code.py", "! different: code.py", 3, id="a link instead"),
        pytest.param("touch tests/new.sh", "! new protected file: tests/new.sh", 3, id="protected"),
        pytest.param("touch new.py", "– new files: new.py", 0, id="a new file"),
        pytest.param(
            "for log in .loops/.history/fix/*.events.jsonl; do echo >> $log; done",
            "✗ the log of `fix` was changed",
            1,
            id="the log was changed",
        ),
        pytest.param(
            "rm .loops/.history/fix/*.events.jsonl",
            "✗ the log of `fix` was changed",
            1,
            id="the log is gone",
        ),
        pytest.param(
            "rm -r .loops/.history",
            "– the run is not stored here, so its log was not compared",
            0,
            id="the run is gone",
        ),
        pytest.param(
            "rm -rf .git",
            "– could not check for new files: `{root}` is not in a git repository",
            0,
            id="not in git",
        ),
    ],
)
def test_what_is_different_is_named(change, line, code, project):
    path = project.receipt()
    subprocess.run(["sh", "-c", change], cwd=project.root, check=True)
    done = project.ll("verify", str(path))
    assert line.format(root=project.root) in done.stdout.splitlines()
    assert done.returncode == code


def test_it_is_verified_in_another_clone(project, tmp_path):
    path = project.receipt()
    project.commit("Fix it")
    subprocess.run(["git", "clone", "-q", str(project.root), str(tmp_path / "clone")], check=True)
    done = project.ll("verify", str(path), "--rerun", cwd=tmp_path / "clone")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["✓ 1 check passed again, in a clean copy", "verified"]


def test_a_rerun_that_fails_contradicts(project):
    (project.root / "tests" / "t.sh").write_text('grep -q "x = 1" code.py && test -z "$BROKEN"\n')
    project.fixed()
    path = str(project.receipt())
    assert project.ll("verify", path, "--rerun", env={"BROKEN": ""}).returncode == 0
    done = project.ll("verify", path, "--rerun", env={"BROKEN": "1"})
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "✗ `evaluate` does not pass in a clean copy: exit 1",
        "contradicted",
    ]


def forge(receipt: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a receipt says, and compute its hash again."""
    statement = json.loads(receipt.read_text())
    del statement["predicate"]["digest"]
    change(statement["predicate"])
    statement["predicate"]["digest"] = {"sha256": digest(statement)}
    receipt.write_bytes(canonical(statement) + b"\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fix", "the checks of the loop `fix` are different here, so they were not run again"),
        (
            "other",
            "the loop `other` is not in this project, so its checks cannot be compared and were not run again",
        ),
    ],
)
def test_a_rerun_takes_no_command_from_a_receipt_alone(project, name, said):
    """Its check is `true`, its hashes fit, and the log of the run is not there."""

    def change(said: dict[str, Any]) -> None:
        said["definition"]["machine"]["name"] = name
        said["definition"]["machine"]["states"]["evaluate"]["action"] = "true"
        said["definition"]["sha256"] = digest(said["definition"]["machine"])

    receipt = project.receipt()
    forge(receipt, change)
    shutil.rmtree(project.root / ".loops/.history")
    done = project.ll("verify", str(receipt), "--rerun")
    assert done.stdout.splitlines()[-2:] == [f"! {said}", "stale"]
    assert (done.returncode, done.stderr) == (3, "")


def test_a_receipt_lies_in_the_project_without_counting(project):
    done = project.ll("receipt", "fix", "-o", "receipt.json")
    assert (done.returncode, done.stderr) == (0, "wrote receipt.json\n")
    assert project.ll("verify", "receipt.json").stdout == VERIFIED


def test_a_run_that_did_not_complete_proves_nothing(project):
    (project.root / "code.py").write_text("x = 0\n")
    (project.root.parent / "agent").write_text("#!/bin/sh\necho no\n")
    assert project.ll("run", "fix").returncode == 3
    done = project.ll("verify", str(project.receipt()))
    assert done.returncode == 1
    assert "✗ the run did not complete: failed, stalled" in done.stdout.splitlines()


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "ending": lambda said: said["ending"].update(iterations=1),
    "verdict": lambda said: said["checks"][0].update(verdict="pass"),
    "dropped check": lambda said: said["checks"].pop(0),
    "dropped field": lambda said: said["checks"][0].pop("exit_code"),
    "type": lambda said: said["checks"][0].update(exit_code=True),
    "restored files": lambda said: said["protected"].update(restored=[]),
    "definition": lambda said: said["definition"].update(sha256="0" * 64),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_receipt_that_does_not_say_what_the_log_says_is_contradicted(project, change):
    receipt = project.receipt()
    forge(receipt, change)
    said = project.ll("verify", str(receipt))
    assert said.returncode == 1
    assert "✗ the receipt does not say what the log of `fix` says" in said.stdout.splitlines()


# ── signatures ─────────────────────────────────────────────────────────────────────────────────

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


def key_of(project: KeptProject, name: str) -> Path:
    path = project.root.parent / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(words, check=True)
    return path


@needs_ssh
def test_a_signature_is_checked(project):
    key = key_of(project, "key")
    path = project.receipt("receipt.json", "--sign", str(key))
    done = project.ll("verify", str(path))
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith('✓ signature: Good "ll-loop-receipt" signature')
    other = project.receipt("other.json", "--sign", str(key_of(project, "other")))
    shutil.copy(f"{other}.sig", f"{path}.sig")
    (path.with_name("receipt.json.sig")).write_text("no signature")
    done = project.ll("verify", str(path))
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].startswith("✗ signature: ")


@needs_ssh
def test_only_signers_that_are_allowed_count(project):
    key, other = key_of(project, "key"), key_of(project, "other")
    signers = project.root.parent / "signers"
    signers.write_text(f"me@example.invalid {key.with_suffix('.pub').read_text()}")
    mine = project.receipt("mine.json", "--sign", str(key))
    theirs = project.receipt("theirs.json", "--sign", str(other))
    nobodys = project.receipt("nobodys.json")
    for path, code, word in (
        (mine, 0, '✓ signature: Good "ll-loop-receipt" signature for me@example.invalid'),
        (theirs, 1, f"✗ signature: signed by a key that is not in `{signers}`"),
        (nobodys, 1, "✗ unsigned, but signers were given"),
    ):
        done = project.ll("verify", str(path), "--signers", str(signers))
        assert (done.returncode, done.stdout.splitlines()[1].startswith(word)) == (code, True)


@needs_ssh
def test_a_key_that_cannot_sign_is_named(project):
    path = project.root.parent / "receipt.json"
    done = project.ll("receipt", "fix", "-o", str(path), "--sign", "gone")
    assert done.returncode == 1
    assert done.stderr.startswith("error: `gone` did not sign: ")


# ── no byte can be changed ─────────────────────────────────────────────────────────────────────


def changed_bytes(project: KeptProject, receipt: Path, times: int, environ: dict[str, str]) -> None:
    """Change one byte of the receipt, the log or a file, put it back, and so on."""
    log = project.past("fix")
    targets = [receipt, log, project.root / "code.py", project.root / "tests" / "t.sh"]
    chance = random.Random(20)
    for _ in range(times):
        path = chance.choice(targets)
        data = path.read_bytes()
        at = chance.randrange(len(data))
        other = bytes([(data[at] + chance.randrange(1, 256)) % 256])
        path.write_bytes(data[:at] + other + data[at + 1 :])
        try:
            _, findings = verify(str(receipt), str(project.root), environ)
            assert exit_code_of(findings) != 0, (path, at, other)
        except Malformed:
            pass
        finally:
            path.write_bytes(data)
    assert exit_code_of(verify(str(receipt), str(project.root), environ)[1]) == 0


def test_no_byte_of_receipt_log_or_files_can_be_changed(project):
    changed_bytes(project, project.receipt(), 60, project.environ())


@pytest.mark.soak
def test_ten_thousand_changed_bytes_are_found(project):
    """Without git on the PATH, new files are not looked for, which takes most of the time."""
    changed_bytes(project, project.receipt(), 10_000, {"PATH": ""})


# ── what was changed, and getting it back ──────────────────────────────────────────────────────

CODE = """\
diff --git a/code.py b/code.py
index 3aea0c5..7d4290a 100644
--- a/code.py
+++ b/code.py
@@ -1 +1 @@
-x = 0
+x = 1
"""


def test_a_diff_shows_what_each_turn_changed(project):
    text = project.ll("diff").stdout
    assert text.startswith(f"step 2: fix (command)\n{CODE}diff --git a/tests/t.sh")
    assert "+exit 0\n" in text
    assert project.ll("diff", "fix", "2").stdout == text.partition("\n")[2]
    assert project.ll("diff", "2").stdout == text.partition("\n")[2]


def test_a_diff_over_steps_leaves_out_what_was_put_back(project):
    assert project.ll("diff", "fix", "1..3").stdout == CODE


def test_a_diff_can_be_applied(project):
    patch = project.ll("diff", "fix", "1..3").stdout
    (project.root / "code.py").write_text("x = 0\n")
    subprocess.run(["git", "apply"], input=patch, text=True, cwd=project.root, check=True)
    assert project.file("code.py") == "x = 1\n"


def test_a_diff_is_coloured_and_escaped_for_people(project):
    shown = project.ll("diff", "fix", "1..3", "--color", "always").stdout.splitlines()
    assert shown[-2:] == ["\x1b[31m-x = 0\x1b[0m", "\x1b[32m+x = 1\x1b[0m"]


def test_a_diff_as_json(project):
    told = json.loads(project.ll("diff", "fix", "--json").stdout)
    [step] = told["steps"]
    assert (told["name"], step["first"], step["state"], step["host"]) == (
        "fix",
        2,
        "fix",
        "command",
    )
    assert step["diff"].startswith(CODE)


def test_a_run_that_changed_nothing(project):
    project.fixed()
    done = project.ll("diff", "fix")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "fix changed nothing\n")


def test_a_file_comes_back_as_it_was(project):
    done = project.ll("restore", "fix", "code.py")
    assert (done.returncode, done.stdout) == (
        0,
        "restored code.py as it was when the run started\n",
    )
    assert project.file("code.py") == "x = 0\n"


def test_also_what_the_agent_had_made_of_a_protected_file(project):
    done = project.ll("restore", "fix", "t.sh", "--step", "2", cwd=project.root / "tests")
    assert (done.returncode, done.stdout) == (0, "restored tests/t.sh as it was after step 2\n")
    assert project.file("tests/t.sh") == "exit 0\n"


def test_a_file_comes_back_from_any_snapshot(project):
    """By the id of the files, or by that of the protected ones."""
    log = project.ll("logs", "fix", "--json").stdout.splitlines()
    trees = [one for one in map(json.loads, log) if one["event"] == "tree"]
    weak = next(one for one in trees if one["when"] == "after" and one["state"] == "fix")
    for id in (weak["id"][:6], weak["guard"]):
        done = project.ll("restore", "fix", "tests/t.sh", "--tree", id)
        assert done.stdout == f"restored tests/t.sh as it was in tree {id}\n", done.stderr
        assert project.file("tests/t.sh") == "exit 0\n"
        assert project.ll("restore", "fix", "tests/t.sh").returncode == 0
    done = project.ll("restore", "fix", "gone", "--tree", weak["id"])
    assert done.stderr == dedent(f"""\
        error: `gone` did not exist in tree {weak["id"]}
           = help: no snapshot contains it
        """)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("tests/t.sh", "--tree", "zz"),
            "error: the run has no snapshot `zz`\n   = help: snapshots were recorded for steps ",
            id="no such snapshot",
        ),
        pytest.param(
            ("tests/t.sh", "--tree", ""), "error: the run has no snapshot ``\n", id="too short"
        ),
        pytest.param(
            ("tests/t.sh", "--tree", "1", "--step", "1"),
            "error: `--step` and `--tree` cannot be used together\n   = help: use one of them\n",
            id="both",
        ),
    ],
)
def test_what_is_in_no_snapshot_is_not_restored(words, said, project):
    done = project.ll("restore", "fix", *words)
    assert (done.returncode, done.stderr[: len(said)]) == (2, said)


def test_links_and_modes_come_back(project):
    (project.root / "code.py").unlink()
    os.symlink("tests/t.sh", project.root / "code.py")
    project.ll("restore", "fix", "code.py")
    assert not (project.root / "code.py").is_symlink()
    assert project.file("code.py") == "x = 0\n"
    assert "x = 1" in project.file("tests/t.sh")


def test_what_would_be_lost_is_not_replaced(project):
    (project.root / ".git" / "info" / "exclude").write_text("")
    (project.root / "code.py").unlink()
    (project.root / "code.py").mkdir()
    done = project.ll("restore", "fix", "code.py")
    assert done.returncode != 0
    assert (project.root / "code.py").is_dir()
