"""Steps as the page shows them: the verdict that counted, why, and what the run did meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.web.endpoints import MORE_TRIES, looked_for
from little_loops.web.errors import LoopNotRecorded, not_found
from tests.project import Project, until
from tests.receipts.kept_run import KeptProject
from tests.web.served import Served, serving

FAILING = """\
    name: deploy
    initial: smoke
    states:
      smoke:
        action: "echo GET /health; echo 'HTTP 503' >&2; exit 22"
        condition: {type: exit_code, fail: [1]}
        on_pass: done
        on_fail: broken
      done: {terminal: true}
      broken: {terminal: true, outcome: failure}
    """
REVIEW = """\
    name: review
    initial: each
    states:
      each:
        for_each: [good, bad, worse]
        as: word
        action: "test ${branch.word} = good"
        on_pass: done
        on_fail: broken
      done: {terminal: true}
      broken: {terminal: true, outcome: failure}
    """
LIMITED = """\
    name: limited
    initial: check
    max_iterations: 2
    states:
      check: {action: "echo 'expected 1.20'; exit 1", on_pass: done, on_fail: fix}
      fix: {action: "true", next: check}
      done: {terminal: true}
    """
GATE = """\
    name: gate
    initial: ask
    scope: [gate]
    states:
      ask: {action: echo ready?, terminal: true, outcome: review, next: done, on_rejected: bad}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
    """
HOLDS = """\
    name: holds
    initial: work
    scope: [gate]
    states:
      work: {action: "while [ ! -e go ]; do sleep 0.01; done", next: done}
      done: {terminal: true}
    """
HANDOFF = """\
    name: port
    initial: port
    evidence: false
    host: {name: command, command: [sh, -c, 'if [ -e half ]; then echo ported; else touch half; echo "CONTEXT_HANDOFF: api.py is ported"; fi', sh, "{prompt}"]}
    states:
      port: {action: Port it., action_type: prompt, next: done}
      done: {terminal: true}
    """


def row_of(server: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/api/runs/{name}").json["run"]
    return found


def shown(server: Served, name: str, step: int) -> tuple[Any, ...]:
    """Verdict, tone and reason of a step, and all its verdicts."""
    detail = server.get(f"/api/runs/{name}/steps/{step}").json
    row = detail["step"]
    verdicts = [(each["verdict"], each["type"]) for each in detail["verdicts"]]
    return row["verdict"], row["tone"], row["reason"], verdicts


def test_a_step_in_which_a_protected_file_was_changed_did_not_pass(tmp_path):
    project = KeptProject(tmp_path)
    text = (project.root / ".loops/fix.yaml").read_text()
    (project.root / ".loops/fix.yaml").write_text(
        text.replace("protect: [tests/]", "protect: [tests/], tampering: fail")
    )
    project.commit("tampering: fail")
    assert project.ll("run", "fix").returncode != 0
    with serving(project) as server:
        why = "the agent changed tests/t.sh"
        assert shown(server, "fix", 2) == (
            "tampered",
            "bad",
            why,
            [("tampered", "protected files")],
        )
        [bar] = server.get("/api/runs/fix/timeline").json["rows"][1]["bars"]
        assert (bar["verdict"], bar["tone"]) == ("tampered", "bad")
    assert "tampered" in project.ll("steps", "fix").stdout


def test_what_a_whole_run_changed(tmp_path):
    with serving(KeptProject(tmp_path).fixed()) as server:
        assert server.get("/api/runs/fix").json["has_diff"]
        text = server.get("/api/runs/fix/diff").json["text"]
        assert "-x = 0\n+x = 1\n" in text
        assert "tests/t.sh" not in text  # it was put back


@pytest.mark.parametrize(
    "error",
    [not_found("unknown_run", "there is no such run"), LoopNotRecorded("fix")],
    ids=["run", "loop"],
)
def test_what_is_not_there_while_a_run_moves_to_the_history_is_looked_for_again(error):
    missing = [error for _ in range(MORE_TRIES)]

    def ask() -> str:
        if missing:
            raise missing.pop()
        return "found"

    assert looked_for(ask) == "found"
    missing += [error for _ in range(MORE_TRIES + 1)]
    with pytest.raises(type(error), match=str(error)):
        looked_for(ask)


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    yield made
    made.end_actions()


def test_an_error_without_a_transition_is_not_a_fail(project):
    project.loop("deploy", FAILING)
    project.ll("run", "deploy")
    with serving(project) as server:
        verdict, tone, _, verdicts = shown(server, "deploy", 1)
        assert (verdict, tone, verdicts[-1][0]) == ("error", "bad", "error")


def test_a_row_names_the_branches_that_failed(project):
    project.loop("review", REVIEW)
    project.ll("run", "review")
    with serving(project) as server:
        why = "it ended in the failure state `broken` after 1 of 3 passed in `each`, not bad, worse"
        assert sorted(row_of(server, "review")["error"].replace(",", "").split()) == sorted(
            why.replace(",", "").split()
        )
        detail = server.get("/api/runs/review/steps/1").json
        assert len(detail["children"]) == 3
        assert server.get("/api/runs/review/machine").json["machine"]["states"][0]["action"] == (
            "for each word of 3 items"
        )
        rows = server.get("/api/runs/review/timeline").json["rows"]
        assert [(row["name"], row["kind"], row["state"]) for row in rows] == [
            ("each", "state", "each"),
            *((f"each/{name}", "branch", "each") for name in ("good", "bad", "worse")),
            ("broken", "state", "broken"),
        ]


def test_a_row_names_the_limit_and_what_failed_last(project):
    project.loop("limited", LIMITED)
    project.ll("run", "limited")
    with serving(project) as server:
        row = row_of(server, "limited")
        assert row["word"] == "iteration limit"
        assert row["error"].startswith("it reached its iteration limit in `")
        assert row["error"].endswith("; `check` exited with 1: expected 1.20")


def test_a_row_says_where_a_run_was_interrupted(project):
    project.loop("holds", HOLDS)
    assert project.ll("run", "holds", "--background").returncode == 0
    until(lambda: project.has_event("holds", "action_start"), "action under way")
    project.ll("stop", "holds")
    with serving(project) as server:
        assert row_of(server, "holds")["error"] == "it was stopped in `work`"


def test_an_answer_that_could_not_continue_the_run_is_stored_and_the_run_can_be_resumed(project):
    project.loop("gate", GATE)
    project.loop("holds", HOLDS)
    project.ll("run", "gate")
    with serving(project) as server:
        assert shown(server, "gate", 1)[:2] == ("review", "waiting")
        assert project.ll("run", "holds", "--background").returncode == 0
        until(lambda: project.has_event("holds", "action_start"), "action under way")
        refused = server.post("/api/runs/gate/approve")
        assert refused.status == 409
        assert "--queue" in refused.json["error"]["help"]
        row = row_of(server, "gate")
        assert (row["word"], row["gate"]) == ("approved, not resumed", None)
        can = {each["verb"]: each for each in row["can"]}
        assert (can["resume"]["allowed"], can["approve"]["allowed"]) == (True, False)
        again = server.post("/api/runs/gate/approve").json["error"]["message"]
        assert can["approve"]["reason"] == again == "`gate` has already been approved"
        (project.root / "go").touch()
        until(lambda: project.has_event("holds", "loop_complete"), "end of the other run")
        assert server.post("/api/runs/gate/resume", {"queue": True}).status == 200
        until(lambda: project.has_event("gate", "loop_complete"), "end")
        assert shown(server, "gate", 1)[:2] == ("approved", "good")


def test_a_pause_within_a_step_is_not_part_of_its_bar(project):
    project.loop("port", HANDOFF)
    project.ll("run", "port", "--allow-skip-permissions")
    with serving(project) as server:
        assert shown(server, "port", 1)[:3] == ("handoff", "waiting", "api.py is ported")
        project.ll("resume", "port", "--allow-skip-permissions")
        assert shown(server, "port", 1)[:2] == ("pass", "good")
        bars = server.get("/api/runs/port/timeline").json["rows"][0]["bars"]
        assert [(bar["step"], bar["verdict"]) for bar in bars] == [(1, "handoff"), (1, "pass")]
        assert bars[0]["to_ms"] <= bars[1]["from_ms"]


GREET = """\
    name: greet
    initial: say
    context: {who: world, times: 2, secret: ""}
    states:
      say: {action: "echo ${context.who}", next: done}
      done: {terminal: true}
    """


def test_a_run_shows_the_context_that_it_was_started_with(project):
    project.loop("greet", GREET)
    project.ll("run", "greet", "--context", "who=you", "--context", "secret=hunter2-hunter2")
    with serving(project, MY_TOKEN="hunter2-hunter2") as server:
        context = server.get("/api/runs/greet").json["context"]
        found = {each["name"]: each["text"] for each in context}
        assert (found["who"], found["times"]) == ("you", "2")
        assert "hunter2" not in found["secret"]


def test_the_list_of_loops_has_the_first_of_many_current_runs(project):
    project.loop("gate", GATE)
    project.ll("run", "gate")
    for number in range(4):
        for suffix in (".state.json", ".events.jsonl"):
            data = project.running("gate", suffix).read_bytes()
            project.running(f"gate@{number}", suffix).write_bytes(data)
    with serving(project) as server:
        [loop] = server.get("/api/loops").json["loops"]
        assert (len(loop["current"]), loop["current_count"]) == (3, 5)
