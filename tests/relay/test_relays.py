"""Whole relays: the real command, a real repository, and scripts that stand in for agents.

Turn N of a relay runs `turns/N.sh`.  Each leaves a line in `trace.log`, which git ignores, so that
a story can tell which phases were worked on, and how often.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.project import Project, until

GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
LOOP = """\
paradigm: relay
name: implement-886
agent: sh turns/$LL_ITERATION.sh
metadata: specs/886/.return-meta.json
plan: specs/886/plan.md
session: sess_123_abc
"""
BEGIN = """\
echo "turn $LL_ITERATION phase $LL_RESUME_PHASE of ${LL_PHASES_TOTAL:-?}" >> trace.log
report() { printf '%s' "$1" > "$LL_METADATA_PATH.new" && mv "$LL_METADATA_PATH.new" "$LL_METADATA_PATH"; }
work() { mkdir -p src && echo "$1" > "src/$1.txt"; }
"""
REVIEW = {"status": "partial", "requires_user_review": True, "reason": "lemma 4 is false as stated"}


def phases(status: str, completed: int, total: int, **more: Any) -> dict[str, Any]:
    progress = {"phases_completed": completed, "phases_total": total}
    return {"status": status, "partial_progress": progress, **more}


def reports(metadata: Mapping[str, Any] | None, work: str = "") -> str:
    """A turn that does a piece of work and leaves this metadata."""
    lines = [f"work {work}"] if work else []
    lines += [f"report '{json.dumps(metadata)}'"] if metadata is not None else []
    return "\n".join([*lines, ""])


class Relays(Project):
    def environ(self, **more: str) -> dict[str, str]:
        return super().environ(**{**GIT, "GIT_CEILING_DIRECTORIES": str(self.root.parent), **more})

    def set_up(self, *turns: str, loop: str = LOOP, repository: bool = True) -> None:
        self.loop("implement-886", loop)
        (self.root / "turns").mkdir()
        for number, turn in enumerate(turns, 1):
            (self.root / "turns" / f"{number}.sh").write_text(BEGIN + turn)
        (self.root / ".gitignore").write_text("*.log\n")
        (self.root / "specs/886").mkdir(parents=True, exist_ok=True)
        (self.root / "specs/886/plan.md").write_text("1. parser\n2. printer\n")
        if repository:
            self.git("init", "--quiet", "--initial-branch=main")
            self.git("add", ".")
            self.git("commit", "--quiet", "--message=Begin")

    def subjects(self) -> list[str]:
        return self.git("log", "--reverse", "--format=%s").splitlines()[1:]

    def trace(self) -> list[str]:
        return self.file("trace.log").splitlines()

    def told(self) -> list[str]:
        """What the last action of the run printed, or the report that the run ended with."""
        events = self.events("implement-886")
        texts = {"action_complete": "output", "report": "text"}
        told: str = [each[texts[each["event"]]] for each in events if each["event"] in texts][-1]
        return told.splitlines()

    def pending(self) -> list[str]:
        return sorted(each.name for each in (self.root / "specs/886").glob(".postflight-*"))


@pytest.fixture
def relays(tmp_path: Path) -> Iterator[Relays]:
    made = Relays(tmp_path)
    yield made
    made.end_actions()


PENDING = [".postflight-loop-guard", ".postflight-pending"]


def test_two_phases_and_a_log_to_show_to_a_reviewer(relays: Relays):
    relays.set_up(
        reports(phases("partial", 1, 2, artifacts=["src/parser.txt"]), "parser"),
        reports(phases("implemented", 2, 2, summary_path="specs/886/summary.md"), "printer"),
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 2 phase 2 of 2"]
    log = relays.git("log", "--reverse", "--stat", "--format=%B", "HEAD~2..HEAD")
    assert log == dedent("""\
        implement-886: phase 1 of 2 (turn 1)

        Session: sess_123_abc_iter1


         src/parser.txt | 1 +
         1 file changed, 1 insertion(+)
        implement-886: phase 2 of 2 (turn 2)

        Session: sess_123_abc_iter2


         src/printer.txt | 1 +
         1 file changed, 1 insertion(+)""")
    first, second = relays.git("log", "--reverse", "--format=%h", "HEAD~2..HEAD").splitlines()
    assert relays.told() == [
        "relay implement-886: 2 turns, session sess_123_abc",
        f"- turn 1: partial, 1 of 2 phases complete, committed {first}",
        f"- turn 2: implemented, 2 of 2 phases complete, committed {second}",
        "artifacts:",
        "- src/parser.txt",
        "summary: specs/886/summary.md",
        "implemented in 2 turns, according to the agent (not checked)",
    ]
    assert relays.pending() == []
    untracked = relays.git("status", "--porcelain", "--untracked-files=all").splitlines()
    assert [line for line in untracked if "src/" in line] == []


SAME = "the same error 3 times in a row: the agent wrote no metadata file"
PARTIAL = phases("partial", 1, 4)


@pytest.mark.parametrize(
    ("turns", "words", "exit_code", "status", "reason", "last"),
    [
        pytest.param([{"status": "implemented"}], [], 0, "completed", "terminal", "implemented in 1 turn, according to the agent (not checked)", id="implemented"),
        pytest.param([{"status": "implemented"}], ["--no-loop"], 0, "completed", "terminal", "implemented in 1 turn, according to the agent (not checked)", id="implemented at the limit"),
        pytest.param([REVIEW], [], 4, "needs_review", "review", "needs review: lemma 4 is false as stated", id="review"),
        pytest.param([REVIEW], ["--no-loop"], 4, "needs_review", "review", "needs review: lemma 4 is false as stated", id="review at the limit"),
        pytest.param([PARTIAL], ["--no-loop"], 3, "failed", "max_iterations", "not implemented after 1 turn, 1 of 4 phases complete", id="partial at the limit"),
        pytest.param([PARTIAL] * 2, ["--max-iterations", "2"], 3, "failed", "max_iterations", "not implemented after 2 turns, 1 of 4 phases complete", id="partial twice at the limit"),
        pytest.param([PARTIAL] * 6, [], 3, "failed", "max_iterations", "not implemented after 5 turns, 1 of 4 phases complete", id="five turns by default"),
        pytest.param([{"status": "blocked", "reason": "no licence"}], [], 1, "failed", "terminal", "blocked: no licence", id="blocked"),
        pytest.param([{"status": "failed", "errors": ["wrong plan"]}], [], 1, "failed", "terminal", "failed: wrong plan", id="failed"),
        pytest.param([{"status": "failed"}], ["--no-loop"], 1, "failed", "terminal", "failed: no reason given", id="failed at the limit"),
        pytest.param([None], ["--no-loop"], 3, "failed", "max_iterations", "not implemented after 1 turn", id="no metadata at the limit"),
        pytest.param([None] * 4, [], 1, "failed", "terminal", f"failed: {SAME}", id="metadata never written"),
        pytest.param([None] * 3, ["--max-iterations", "3"], 1, "failed", "terminal", f"failed: {SAME}", id="the third time at the limit"),
        pytest.param([{"status": "done"}] * 4, [], 1, "failed", "terminal", None, id="unknown status again and again"),
        pytest.param([{"status": "partial", "errors": ["e"]}] * 4, [], 1, "failed", "terminal", "failed: the same error 3 times in a row: e", id="partial with the same error"),
    ],
)  # fmt: skip
def test_every_end(relays: Relays, turns, words, exit_code, status, reason, last):
    relays.set_up(*(reports(turn) for turn in turns))
    ran = relays.ll("run", "implement-886", *words)
    assert ran.returncode == exit_code, ran.stdout + ran.stderr
    state = relays.state("implement-886")
    assert (state["status"], state["reason"]) == (status, reason)
    told = [line for line in relays.told() if not line.startswith("VERDICT: ")]
    assert last is None or told[-1] == last
    assert relays.pending() == (PENDING if status == "needs_review" else [])


def test_a_handoff_file_reaches_the_successor(relays: Relays):
    handoff = {"phases_completed": 1, "phases_total": 2, "handoff_path": "specs/886/handoff.md"}
    relays.set_up(
        "echo 'mind the parser' > specs/886/handoff.md\n"
        + reports({"status": "partial", "partial_progress": handoff}),
        'cat "$LL_HANDOFF_PATH" >> trace.log\n' + reports({"status": "implemented"}),
    )
    assert relays.ll("run", "implement-886").returncode == 0
    assert relays.trace()[1:] == ["turn 2 phase 2 of 2", "mind the parser"]
    assert relays.git("show", "--name-only", "--format=") == "specs/886/handoff.md"


HANDS_OFF = """\
[ "$LL_ATTEMPT" = 1 ] && work parser && echo "CONTEXT_HANDOFF: the printer is left" && exit
[ "$LL_CONTINUATION" = "the printer is left" ] && work printer
"""


def test_a_turn_that_hands_off_can_pause_and_a_resume_goes_on_with_it(relays: Relays):
    """The same turn in a fresh session, with its notes; then it is settled, once."""
    report = reports(phases("implemented", 2, 2))
    relays.set_up(HANDS_OFF + report, loop=LOOP + "on_handoff: pause\n")
    assert relays.ll("run", "implement-886").returncode == 4
    assert (relays.subjects(), relays.pending()) == ([], PENDING)
    resumed = relays.ll("resume", "implement-886")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Continuation context: the printer is left\n" in resumed.stdout
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 1 phase 1 of ?"]
    assert relays.subjects() == ["implement-886: phase 2 of 2 (turn 1)"]
    assert relays.git("show", "--format=", "--name-only").split() == [
        "src/parser.txt",
        "src/printer.txt",
    ]


def test_a_turn_that_hands_off_goes_on_by_itself(relays: Relays):
    relays.set_up(HANDS_OFF + reports(phases("implemented", 2, 2)))
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.subjects() == ["implement-886: phase 2 of 2 (turn 1)"]
    assert relays.pending() == []


def test_an_agent_is_told_in_its_text(relays: Relays):
    loop = LOOP.replace(
        "agent: sh turns/$LL_ITERATION.sh",
        dedent("""\
            agent: {action: Go on with the plan, action_type: prompt}
            host: {name: command, command: [sh, agent.sh, "{prompt}"]}"""),
    )
    relays.set_up(loop=loop)
    (relays.root / "agent.sh").write_text(
        'printf "%s\\n---\\n" "$1" >> trace.log\n'
        'if [ "$LL_ITERATION" = 1 ]; then status=partial; else status=implemented; fi\n'
        'printf \'{"status": "%s", "partial_progress": {"phases_completed": %d, "phases_total": 3, '
        '"handoff_path": "h.md"}}\' $status $((LL_ITERATION + 1)) > specs/886/.return-meta.json\n'
        "echo done\n"
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = "\n".join(relays.trace()).split("\n---")[1].strip().splitlines()
    assert text[:2] == ["Go on with the plan", ""]
    assert text[2:9] == [
        "resume_phase: 3",
        "phases_total: 3",
        "handoff_path: h.md",
        "iteration: 2",
        "session_id: sess_123_abc_iter2",
        "plan_path: specs/886/plan.md",
        "metadata_path: specs/886/.return-meta.json",
    ]
    assert text[9].startswith("return_metadata: before you end, write one JSON object")


def test_a_review_and_then_on(relays: Relays):
    review = phases("partial", 1, 2, requires_user_review=True, reason="which parser?")
    relays.set_up(reports(review, "one"), reports(phases("implemented", 2, 2), "two"))
    paused = relays.ll("run", "implement-886")
    assert paused.returncode == 4
    assert "needs review: which parser?" in paused.stdout
    assert relays.file("specs/886/.postflight-loop-guard") == "1\n"
    went_on = relays.ll("resume", "implement-886")
    assert went_on.returncode == 0, went_on.stdout + went_on.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 2 phase 2 of 2"]
    assert relays.subjects() == [
        "implement-886: phase 1 of 2 (turn 1)",
        "implement-886: phase 2 of 2 (turn 2)",
    ]


def test_at_the_limit_and_then_on(relays: Relays):
    relays.set_up(
        reports(phases("partial", 1, 3), "one"),
        reports(phases("partial", 2, 3), "two"),
        reports(phases("implemented", 3, 3), "three"),
    )
    assert relays.ll("run", "implement-886", "--max-iterations", "2").returncode == 3
    assert relays.ll("resume", "implement-886", "--max-iterations", "5").returncode == 0
    assert relays.trace()[-1] == "turn 3 phase 3 of 3"
    assert len(relays.subjects()) == 3


def test_the_limit_by_variable(relays: Relays):
    relays.set_up(*[reports(PARTIAL)] * 4, loop=f"{LOOP}max_iterations: 4\n")
    planned = relays.ll("run", "implement-886", "--dry-run", env={"MAX_ITERATIONS": "2"})
    assert "limits   2 iterations" in planned.stdout
    ran = relays.ll("run", "implement-886", env={"MAX_ITERATIONS": "2"})
    assert ran.returncode == 3
    assert len(relays.trace()) == 2
    ran = relays.ll("run", "implement-886", "--fresh", env={"MAX_ITERATIONS": "many"})
    assert ran.returncode == 2
    assert "`MAX_ITERATIONS` is 'many', which is not a number of turns" in ran.stderr
    ran = relays.ll("run", "implement-886", "--no-loop", "--fresh", env={"MAX_ITERATIONS": "3"})
    assert ran.returncode == 3
    assert len(relays.trace()) == 3


def test_errors_that_alternate_end_the_run_and_are_all_shown(relays: Relays):
    errors = ["lean timed out", "no disk"]
    turns = [reports({"status": "partial", "errors": [errors[n % 2]]}) for n in range(9)]
    relays.set_up(*turns)
    assert relays.ll("run", "implement-886", "--max-iterations", "9").returncode == 1
    told = relays.told()
    at = told.index("errors:")
    assert told[at + 1 :] == [
        "- turn 1: lean timed out",
        "- turn 2: no disk",
        "- turn 3: lean timed out",
        "- turn 4: no disk",
        "- turn 5: lean timed out",
        "failed: the same error 3 times in 6 turns: lean timed out",
    ]


def test_implemented_with_phases_missing_goes_on_with_a_warning(relays: Relays):
    relays.set_up(
        reports(phases("implemented", 1, 4), "one"), reports(phases("implemented", 4, 4), "two")
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    warning = "warning: reported implemented with 1 of 4 phases complete: treated as partial\n"
    assert ran.stderr == warning
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 2 phase 2 of 4"]


def test_a_plan_that_does_not_exist_is_refused_before_an_agent_is_paid(relays: Relays):
    relays.set_up(reports({"status": "implemented"}))
    (relays.root / "specs/886/plan.md").unlink()
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 1
    why = "the plan `specs/886/plan.md` does not exist; create it, or correct `plan` in the loop"
    assert f"       ✗ {why}\n" in ran.stdout
    assert "Loop failed in state 'prepare': the plan `specs/886/plan.md` does" in ran.stdout
    assert (relays.root / "trace.log").exists() is False
    assert relays.pending() == []
    (relays.root / "specs/886/plan.md").write_text("1. parser\n")
    assert relays.ll("resume", "implement-886").returncode == 0


def kept(relays: Relays) -> list[str]:
    """The metadata files that the runs have kept."""
    found = (relays.root / ".loops/.history").glob("**/metadata-turn-*.json")
    return sorted(f"{path.name}: {path.read_text()}" for path in found)


def test_nothing_is_left_beside_the_plan_and_the_metadata_is_kept(relays: Relays):
    loop = LOOP.replace("metadata: specs/886/.return-meta.json\n", "")
    relays.set_up(
        reports({"status": "partial"}, "one"), reports({"status": "implemented"}), loop=loop
    )
    assert relays.ll("run", "implement-886").returncode == 0
    assert sorted(os.listdir(relays.root / "specs/886")) == ["plan.md"]
    assert kept(relays) == [
        'metadata-turn-1.json: {"status": "partial"}',
        'metadata-turn-2.json: {"status": "implemented"}',
    ]
    assert relays.git("log", "--name-only", "--format=", "HEAD~1..HEAD") == "src/one.txt"
    assert relays.git("status", "--porcelain", "--", "specs", ".gitignore") == ""


@pytest.mark.parametrize(
    ("loop", "turn", "exit_code", "reason"),
    [
        pytest.param(LOOP + "timeout: 3s\n", "sleep 600\n", 3, "loop_timeout", id="out of time"),
        pytest.param(
            LOOP, "echo 'LOOP_STOP: enough'\n", 6, "stop_signal", id="stopped by the agent"
        ),
        pytest.param(
            LOOP + "on_handoff: terminate\n",
            "echo 'CONTEXT_HANDOFF: x'\n",
            1,
            "handoff",
            id="handoff",
        ),
    ],
)
def test_a_run_that_ends_in_the_middle_of_a_turn_leaves_nothing_behind(
    relays: Relays, loop: str, turn: str, exit_code: int, reason: str
):
    relays.set_up(reports(PARTIAL), reports({"status": "partial"}) + turn, loop=loop)
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == exit_code, ran.stdout + ran.stderr
    assert relays.state("implement-886")["reason"] == reason
    assert sorted(os.listdir(relays.root / "specs/886")) == ["plan.md"]
    assert relays.told()[-1] == "not implemented after 1 turn, 1 of 4 phases complete"
    assert "       | not implemented after 1 turn, 1 of 4 phases complete\n" in ran.stdout
    assert len(kept(relays)) == 2


def test_a_turn_that_had_reported_when_the_time_was_up_is_not_run_again(relays: Relays):
    relays.set_up(
        reports(phases("implemented", 2, 2), "one") + "sleep 600\n", loop=LOOP + "timeout: 3s\n"
    )
    assert relays.ll("run", "implement-886").returncode == 3
    ran = relays.ll("resume", "implement-886", "--from", "settle", "--timeout", "1h")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?"]
    assert relays.subjects() == ["implement-886: phase 2 of 2 (turn 1)"]


def test_an_agent_that_fails_but_reports_is_believed_by_its_report(relays: Relays):
    relays.set_up(reports({"status": "implemented"}) + "exit 3\n")
    assert relays.ll("run", "implement-886").returncode == 0


def test_without_a_repository(relays: Relays):
    relays.set_up(reports(PARTIAL), reports({"status": "implemented"}), repository=False)
    assert relays.ll("run", "implement-886").returncode == 0
    said = "this is not a git repository, so nothing is committed"
    assert [line for line in relays.told() if said in line] == [f"- turn 1: {said}"]


def test_a_hook_that_refuses_and_then_on(relays: Relays):
    relays.set_up(reports({"status": "implemented"}, "one"))
    hook = relays.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'no tests for src/one.txt' >&2\nexit 1\n")
    hook.chmod(0o755)
    held = relays.ll("run", "implement-886")
    assert held.returncode == 1
    assert "not committed: git refused the commit: no tests for src/one.txt" in held.stdout
    assert relays.file("src/one.txt") == "one\n"
    assert relays.pending() == []
    hook.unlink()
    assert relays.ll("resume", "implement-886").returncode == 0
    assert relays.subjects() == ["implement-886: phase 1 (turn 1)"]
    assert relays.trace() == ["turn 1 phase 1 of ?"]


LINES = """\
       · turn 1 starts at phase 1
[1/5] turn → running sh turns/$LL_ITERATION.sh...
       ✓ the parser is done (exit 0)
       · turn 1 of 5: partial, 1 of 2 phases complete, committed COMMIT
       · turn 2 starts at phase 2 of 2
[2/5] turn → running sh turns/$LL_ITERATION.sh...
       ✓ the printer is done (exit 0)
       · turn 2 of 5: implemented, 2 of 2 phases complete, committed COMMIT
[2/5] check → running test -e src/printer.txt...
       ✓ (exit 0)
       | relay implement-886: 2 turns, session sess_123_abc
       | - turn 1: partial, 1 of 2 phases complete, committed COMMIT
       | - turn 2: implemented, 2 of 2 phases complete, committed COMMIT
       | implemented in 2 turns, confirmed by the check
"""


def test_a_turn_takes_four_lines(relays: Relays):
    """What it takes up, the agent, its last words, what it left; the rest is for `-v`."""
    relays.set_up(
        reports(phases("partial", 1, 2), "parser") + "echo the parser is done\n",
        reports(phases("implemented", 2, 2), "printer") + "echo the printer is done\n",
        loop=LOOP + "check: test -e src/printer.txt\n",
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines, _, last = re.sub("committed [0-9a-f]+", "committed COMMIT", ran.stdout).partition("\n\n")
    assert f"{lines}\n" == LINES
    assert last.startswith("Loop completed: done (2 iterations")
    whole = relays.log("implement-886")
    assert "[1/5] prepare → running the preparation of a turn...\n" in whole
    assert "       → settle\n" in whole


def test_a_step_around_a_turn_that_fails_is_shown_with_its_state(relays: Relays):
    relays.set_up(reports({"status": "implemented"}, "one"))
    hook = relays.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    held = relays.ll("run", "implement-886")
    lines = held.stdout.splitlines()
    step = lines.index("[1/5] settle → running the evaluation of the turn...")
    assert lines[step + 1].startswith("       ✗ ")
    assert lines[step + 1].endswith("not committed: git refused the commit: no")


# ── with a check ───────────────────────────────────────────────────────────────────────────────

CHECKED = (
    LOOP + "check: 'echo looking; test -e src/two.txt || { echo two.txt is missing; exit 1; }'\n"
)


def test_the_check_decides_and_the_next_turn_is_told_what_it_printed(relays: Relays):
    relays.set_up(
        reports(phases("implemented", 2, 2), "one"),
        'printf "%s\\n" "$LL_CHECK_OUTPUT" >> trace.log; cat "$LL_CHECK_LOG" >> trace.log\n'
        + reports(phases("implemented", 2, 2), "two"),
        loop=CHECKED,
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == [
        "turn 1 phase 1 of ?",
        "turn 2 phase 2 of 2",
        *("", "  looking", "  two.txt is missing"),
        *("looking", "two.txt is missing"),
    ]
    first, second = relays.git("log", "--reverse", "--format=%h", "HEAD~2..HEAD").splitlines()
    assert relays.told() == [
        "relay implement-886: 2 turns, session sess_123_abc",
        f"- turn 1: implemented, but the check failed, 2 of 2 phases complete, committed {first}",
        f"- turn 2: implemented, 2 of 2 phases complete, committed {second}",
        "implemented in 2 turns, confirmed by the check",
    ]


def test_an_agent_is_told_of_the_check_in_its_text(relays: Relays):
    agent = dedent("""\
        agent: {action: Go on with the plan, action_type: prompt}
        host: {name: command, command: [sh, agent.sh, "{prompt}"]}""")
    relays.set_up(loop=CHECKED.replace("agent: sh turns/$LL_ITERATION.sh", agent))
    (relays.root / "agent.sh").write_text(
        'printf "%s\\n---\\n" "$1" >> trace.log; mkdir -p src\n'
        '[ "$LL_ITERATION" = 1 ] || touch src/two.txt\n'
        'echo \'{"status": "implemented"}\' > specs/886/.return-meta.json\n'
        "echo done\n"
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, second, _ = "\n".join(relays.trace()).split("\n---")
    assert "\ncheck_output: \ncheck_log: \nreturn_metadata: " in first
    assert "\ncheck_output: \n  looking\n  two.txt is missing\ncheck_log: /" in second
    assert "If check_output is not empty" in second


def test_a_check_that_fails_at_the_limit(relays: Relays):
    turn = reports(phases("implemented", 2, 2))
    relays.set_up(turn, turn, reports({"status": "implemented"}, "two"), loop=CHECKED)
    ran = relays.ll("run", "implement-886", "--max-iterations", "2")
    assert ran.returncode == 3
    assert relays.told() == [
        "relay implement-886: 2 turns, session sess_123_abc",
        "- turn 1: implemented, but the check failed, 2 of 2 phases complete",
        "- turn 2: implemented, but the check failed, 2 of 2 phases complete",
        "not implemented after 2 turns, 2 of 2 phases complete",
    ]
    assert relays.pending() == []
    ran = relays.ll("resume", "implement-886", "--max-iterations", "4")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.told()[-1] == "implemented in 3 turns, confirmed by the check"


def test_a_check_that_cannot_be_run_proves_nothing(relays: Relays):
    relays.set_up(reports({"status": "implemented"}, "one"), loop=LOOP + "check: ./check.sh\n")
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 1
    assert relays.state("implement-886")["current_state"] == "check"
    assert relays.told()[-1] == "implemented in 1 turn, not checked yet"
    (relays.root / "check.sh").write_text("#!/bin/sh\n")
    (relays.root / "check.sh").chmod(0o755)
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.told()[-1] == "implemented in 1 turn, confirmed by the check"
    assert relays.trace() == ["turn 1 phase 1 of ?"]


@pytest.mark.parametrize("scope_writes", ["report", "enforce"])
def test_what_an_agent_writes_for_the_relay_is_not_outside_the_scope(
    relays: Relays, scope_writes: str
):
    agent = dedent(f"""\
        agent: {{action: Go on with the plan, action_type: prompt}}
        host: {{name: command, command: [sh, agent.sh, '{{prompt}}']}}
        scope: [src]
        scope_writes: {scope_writes}""")
    relays.set_up(loop=LOOP.replace("agent: sh turns/$LL_ITERATION.sh", agent))
    (relays.root / "agent.sh").write_text(
        "mkdir -p specs/886/handoffs src; echo x > specs/886/handoffs/phase-1.md; echo y > src/a\n"
        'echo \'{"status": "implemented"}\' > specs/886/.return-meta.json; echo done\n'
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not relays.has_event("implement-886", "out_of_scope")
    trees = [each for each in relays.events("implement-886") if each["event"] == "tree"]
    assert {path for each in trees for path in each.get("changed", {}).get("paths", ())} == {
        *("specs/886/handoffs/phase-1.md", "src/a")
    }
    assert relays.git("show", "--name-only", "--format=").split() == [
        *("specs/886/handoffs/phase-1.md", "src/a")
    ]


# ── with a task ────────────────────────────────────────────────────────────────────────────────

TASK = "task: {id: 886, state: specs/state.json, todo: TODO.md}\n"
STATE = '{"active": [\r\n  {"project_number": 886, "status": "planned", "note": 1.0}\r\n]}\r\n'


def with_task(relays: Relays, *turns: str, loop: str = LOOP + TASK) -> None:
    (relays.root / "specs").mkdir()
    (relays.root / "specs/state.json").write_bytes(STATE.encode())
    (relays.root / "TODO.md").write_text("# Tasks\n\n## 886. Relay [PLANNED]\n\n- 886 too\n")
    relays.set_up(*turns, loop=loop)


def todo(relays: Relays, at: str) -> str:
    return relays.git("show", f"{at}:TODO.md").splitlines()[2].rpartition(" ")[2]


def test_the_task_is_kept_up_to_date_in_the_commits_of_the_turns(relays: Relays):
    with_task(
        relays,
        "cp TODO.md trace.todo.log\n" + reports(phases("partial", 1, 2, artifacts=["src/a.txt"])),
        reports(phases("implemented", 2, 2, artifacts=["src/a.txt", "src/b.txt"]), "b"),
        loop=LOOP + TASK + "scope: [src]\n",
    )
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "## 886. Relay [IMPLEMENTING]\n" in relays.file("trace.todo.log")
    assert [todo(relays, at) for at in ("HEAD~2", "HEAD~1", "HEAD")] == [
        *("[PLANNED]", "[PARTIAL]", "[COMPLETED]")
    ]
    assert (relays.root / "specs/state.json").read_bytes().decode() == STATE.replace(
        '"planned", "note": 1.0',
        '"completed", "note": 1.0, "artifacts": ["src/a.txt", "src/b.txt"]',
    )
    assert relays.git("show", "--name-only", "--format=").split() == [
        *("TODO.md", "specs/state.json", "src/b.txt")
    ]
    assert relays.git("status", "--porcelain", "--", "specs", "TODO.md") == ""


@pytest.mark.parametrize("name", ["specs/state.json", "TODO.md"])
def test_a_task_that_is_not_there_is_refused_before_an_agent_is_paid(relays: Relays, name: str):
    with_task(relays, reports({"status": "implemented"}))
    (relays.root / name).write_text("[]\n")
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 1
    assert f"Loop failed in state 'prepare': the task's file `{name}` has no " in ran.stdout
    assert not (relays.root / "trace.log").exists()
    assert relays.pending() == []


def test_a_task_is_completed_after_its_check(relays: Relays):
    turn = reports({"status": "implemented"})
    with_task(relays, turn, reports({"status": "implemented"}, "two"), loop=CHECKED + TASK)
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.subjects() == [
        "implement-886: phase 1 (turn 1)",
        "implement-886: phase 1 (turn 2)",
        "implement-886: task 886 completed (turn 2)",
    ]
    assert [todo(relays, at) for at in ("HEAD~1", "HEAD")] == ["[PARTIAL]", "[COMPLETED]"]


# ── killed ─────────────────────────────────────────────────────────────────────────────────────

HANG = "touch trace.hung.log; sleep 600 >/dev/null 2>&1\n"


def kill_in_the_turn(relays: Relays, kill: int) -> None:
    with relays.started("run", "implement-886") as child:
        until((relays.root / "trace.hung.log").exists, "hanging turn")
        if kill == signal.SIGKILL:
            os.killpg(child.pid, kill)
        else:
            child.send_signal(kill)
        child.wait(timeout=60)
    (relays.root / "trace.hung.log").unlink()


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_cut_in_mid_turn_and_resumed(relays: Relays, kill: int):
    relays.set_up(
        reports(phases("partial", 1, 2), "one"),
        "work half\n" + HANG,
        reports(phases("implemented", 2, 2), "two"),
    )
    kill_in_the_turn(relays, kill)
    assert relays.subjects() == ["implement-886: phase 1 of 2 (turn 1)"]
    assert relays.pending() == PENDING
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == [
        "turn 1 phase 1 of ?",
        "turn 2 phase 2 of 2",
        "turn 3 phase 2 of 2",
    ]
    assert relays.subjects() == [
        "implement-886: phase 1 of 2 (turn 1)",
        "implement-886: phase 2 of 2 (turn 2)",
        "implement-886: phase 2 of 2 (turn 3)",
    ]
    assert relays.pending() == []


def test_a_task_whose_run_was_killed(relays: Relays):
    """It is being implemented as long as the run can be resumed."""
    with_task(relays, "work half\n" + HANG, reports({"status": "implemented"}, "two"))
    kill_in_the_turn(relays, signal.SIGKILL)
    assert "## 886. Relay [IMPLEMENTING]\n" in relays.file("TODO.md")
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [todo(relays, at) for at in ("HEAD~1", "HEAD")] == ["[PARTIAL]", "[COMPLETED]"]
    assert relays.git("status", "--porcelain", "--", "specs", "TODO.md") == ""


def test_killed_in_the_check_runs_the_check_again_and_no_turn(relays: Relays):
    check = (
        "check: '[ -e trace.again.log ] || { touch trace.again.log trace.hung.log; sleep 600; }'\n"
    )
    relays.set_up(reports({"status": "implemented"}, "one"), loop=LOOP + check)
    kill_in_the_turn(relays, signal.SIGKILL)
    assert relays.pending() == PENDING
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?"]
    assert relays.told()[-1] == "implemented in 1 turn, confirmed by the check"
    assert relays.pending() == []


def test_killed_after_it_reported_is_not_run_again(relays: Relays):
    relays.set_up(
        reports(phases("partial", 1, 2), "one") + HANG,
        reports(phases("implemented", 2, 2), "two"),
    )
    kill_in_the_turn(relays, signal.SIGKILL)
    assert relays.subjects() == []
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 2 phase 2 of 2"]
    assert relays.subjects() == [
        "implement-886: phase 1 of 2 (turn 1)",
        "implement-886: phase 2 of 2 (turn 2)",
    ]


def test_killed_while_it_settles_commits_once(relays: Relays):
    relays.set_up(
        reports(phases("partial", 1, 2), "one"), reports({"status": "implemented"}, "two")
    )
    hook = relays.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ntouch trace.hung.log; sleep 600 >/dev/null 2>&1\n")
    hook.chmod(0o755)
    kill_in_the_turn(relays, signal.SIGKILL)
    hook.unlink()
    lock = relays.root / ".git/index.lock"
    if lock.exists():  # git's own, which nobody but its owner may take away
        held = relays.ll("resume", "implement-886")
        assert held.returncode == 1
        assert f"if no git process is running, remove `{lock}`" in str(
            relays.events("implement-886")
        )
        lock.unlink()
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?", "turn 2 phase 2 of 2"]
    assert relays.subjects() == [
        "implement-886: phase 1 of 2 (turn 1)",
        "implement-886: phase 2 of 2 (turn 2)",
    ]


def test_stopped_while_it_commits(relays: Relays):
    """A stop reaches git and its hooks; the next attempt settles the same turn."""
    relays.set_up(reports({"status": "implemented"}, "one"))
    hook = relays.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ntouch trace.hung.log; sleep 600 >/dev/null 2>&1\n")
    hook.chmod(0o755)
    kill_in_the_turn(relays, signal.SIGTERM)
    assert relays.state("implement-886")["status"] == "interrupted"
    assert relays.has_event("implement-886", "action_interrupted", state="settle", cause="stop")
    hook.unlink()
    ran = relays.ll("resume", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == ["turn 1 phase 1 of ?"]
    assert relays.subjects() == ["implement-886: phase 1 (turn 1)"]


def test_out_of_time_while_it_commits(relays: Relays):
    relays.set_up(reports({"status": "implemented"}, "one"), loop=LOOP + "timeout: 3s\n")
    hook = relays.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nsleep 600 >/dev/null 2>&1\n")
    hook.chmod(0o755)
    assert relays.ll("run", "implement-886").returncode == 3
    assert relays.state("implement-886")["reason"] == "loop_timeout"
    hook.unlink()
    ran = relays.ll("resume", "implement-886", "--timeout", "1h")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.subjects() == ["implement-886: phase 1 (turn 1)"]


def test_a_wait_for_an_error_to_pass_is_the_machines(relays: Relays):
    relays.set_up(reports(None), reports(None), reports({"status": "implemented"}))
    ran = relays.ll("run", "implement-886")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "       waiting 1.0s before the next iteration\n" in ran.stdout
    waits = [each for each in relays.events("implement-886") if each["event"] == "iteration"]
    assert [each.get("wait_ms") for each in waits] == [None, 1000]


def test_stopped_while_it_waits_for_an_error_to_pass(relays: Relays):
    relays.set_up(reports(None), reports(None), reports({"status": "implemented"}))
    with relays.started("run", "implement-886") as child:
        until(lambda: relays.has_event("implement-886", "iteration", iteration=3), "the third turn")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 128 + signal.SIGTERM
    assert relays.ll("resume", "implement-886").returncode == 0
    assert len(relays.trace()) == 3
