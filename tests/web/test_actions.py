"""Buttons do what commands do: the same effect, and the same words where it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from little_loops.cli.options import args_of
from little_loops.errors import UsageError
from little_loops.web.actions import APPROVE, FORK, REJECT, RESUME, RUN, TEXT, OptionField, options
from little_loops.web.errors import ApiError
from tests.project import Project, until
from tests.web.served import Served, serving

SLOW = """\
    name: slow
    initial: work
    context: {word: hello}
    states:
      work:
        action: "echo started ${context.word}; while [ ! -e go ]; do sleep 0.01; done"
        next: gate
      gate:
        terminal: true
        outcome: review
        next: done
        on_rejected: bad
        choices: [done, bad]
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
    """
OVER = """\
    name: over
    initial: work
    states:
      work: {action: "true", on_pass: done, on_fail: done}
      done: {terminal: true}
    """
AGENT = """\
    name: agent
    initial: check
    evidence: false
    host: {name: command, command: [sh, -c, 'printf "%s" "$1" > prompt; echo done', sh, "{prompt}"]}
    states:
      check: {action: "while [ ! -e go ]; do sleep 0.01; done", next: fix}
      fix: {action: Fix it., action_type: prompt, next: done}
      done: {terminal: true}
    """


@pytest.fixture
def served(tmp_path):
    project = Project(tmp_path)
    project.loop("slow", SLOW)
    project.loop("over", OVER)
    with serving(project) as server:
        yield project, server
    project.end_actions()


def can(reply, verb: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in reply.json["run"]["can"] if each["verb"] == verb)
    return found


def refusal(project: Project, *words: str) -> Any:
    """What a command prints with `--json` if it refuses."""
    done = project.ll(*words, "--json")
    assert done.returncode != 0
    return json.loads(done.stdout)["error"]


def started(project: Project, server: Served, **body) -> None:
    assert server.post("/api/loops/slow.yaml/run", body).status == 200
    until(lambda: project.has_event("slow", "action_start"), "action under way")


def test_a_run_is_started_stopped_resumed_and_approved(served):
    project, server = served
    plan = server.post("/api/loops/slow.yaml/run", {"dry_run": True}).json["lines"]
    assert plan == project.ll("run", "slow", "--dry-run").stdout.splitlines()
    assert not (project.root / ".loops/.running").exists()

    started(project, server, context={"word": "--quiet x"}, max_iterations=7)
    until(lambda: "--quiet x" in server.get("/api/runs/slow/steps/1/output").json["text"], "text")
    detail = server.get("/api/runs/slow").json
    assert (detail["run"]["status"], detail["run"]["max_iterations"]) == ("running", 7)
    assert detail["action"]["state"] == "work"

    stopped = server.post("/api/runs/slow/stop").json
    assert stopped["result"] == {
        "schema": 1,
        "name": "slow",
        "stopped": True,
        "status": "interrupted",
    }
    (project.root / "go").touch()
    resumed = server.post("/api/runs/slow/resume", {"max_iterations": 9}).json
    assert (resumed["verb"], resumed["key"]) == ("resume", "slow")
    until(lambda: server.get("/api/runs/slow").json["run"]["gate"], "gate")
    waiting = server.get("/api/runs/slow").json
    assert (waiting["run"]["group"], waiting["gate_choices"]) == ("waiting", ["done", "bad"])
    assert can(server.get("/api/runs/slow"), "approve")["allowed"]
    assert server.post("/api/runs/slow/approve", {"message": "-x: ship it"}).status == 200
    until(lambda: project.has_event("slow", "loop_complete"), "end")
    assert [
        each["text"] for each in project.events("slow") if each["event"] == "gate_answered"
    ] == ["-x: ship it"]


def test_a_gate_that_was_answered_is_not_asked_again_but_resumed(served):
    """As after an approval while another run was in the way."""
    project, server = served
    (project.root / "go").touch()
    started(project, server)
    until(lambda: server.get("/api/runs/slow").json["run"]["gate"], "gate")
    assert project.ll("approve", "slow", "-m", "ship it", "--no-resume").returncode == 0
    answered = server.get("/api/runs/slow")
    assert (answered.json["run"]["gate"], answered.json["gate_message"]) == (
        None,
        "it was approved, with the message 'ship it', but has not continued yet; resume it",
    )
    for verb in ("approve", "reject"):
        found = can(answered, verb)
        error = refusal(project, verb, "slow", "-m", "x")
        assert (found["allowed"], found["reason"]) == (False, error["message"])
    assert can(answered, "resume")["allowed"]
    assert server.post("/api/runs/slow/resume").status == 200
    until(lambda: project.has_event("slow", "loop_complete"), "end")


@pytest.mark.parametrize(
    ("verb", "body", "words"),
    [
        pytest.param("resume", {}, ["resume", "over"], id="resume"),
        pytest.param("approve", {}, ["approve", "over"], id="approve"),
        pytest.param("reject", {"message": "no"}, ["reject", "over", "-m", "no"], id="reject"),
        pytest.param("reject", {}, ["reject", "over"], id="reject without a reason"),
        pytest.param("reject", {"message": ""}, ["reject", "over"], id="reject with no words"),
        pytest.param("tell", {"text": "hi"}, ["tell", "over", "hi"], id="tell"),
        pytest.param("tell", {"text": "--"}, ["tell", "over", "hi"], id="tell two dashes"),
        pytest.param("tell", {"text": ""}, ["tell", "over", ""], id="tell nothing"),
        pytest.param("fork", {"at": 1}, ["fork", "over", "--at", "1"], id="fork"),
        pytest.param("undo", {}, ["undo", "over"], id="undo"),
        pytest.param("undo", {"to": 9}, ["undo", "over", "--to", "9"], id="undo to a step"),
    ],
)
def test_a_refusal_has_the_words_of_the_command(served, verb, body, words):
    project, server = served
    project.ll("run", "over")
    reply = server.post(f"/api/runs/over/{verb}", body)
    assert (reply.status, reply.code) == (409, "refused")
    expected = refusal(project, *words)
    assert {name: reply.json["error"][name] for name in ("message", "help")} == expected


@pytest.mark.parametrize("verb", ["resume", "approve", "reject", "tell"])
def test_what_a_button_says_is_what_the_command_says(served, verb):
    project, server = served
    project.ll("run", "over")
    more = {"reject": ["-m", "no"], "tell": ["hi"]}.get(verb, [])
    found = can(server.get("/api/runs/over"), verb)
    assert not found["allowed"]
    assert {"message": found["reason"], "help": found["help"]} == refusal(
        project, verb, "over", *more
    )


def test_a_run_that_is_alive_can_be_stopped_and_not_resumed(served):
    project, server = served
    started(project, server)
    reply = server.get("/api/runs/slow")
    assert can(reply, "stop")["allowed"]
    found = can(reply, "resume")
    assert {"message": found["reason"], "help": found["help"]} == refusal(project, "resume", "slow")
    assert not can(reply, "undo")["allowed"]


def test_only_the_last_run_of_a_name_continues(served):
    project, server = served
    for _ in range(2):
        project.ll("run", "over")
    past = server.get("/api/runs").json["past"]
    reply = server.post(f"/api/runs/{past[1]['key']}/resume")
    assert (reply.status, reply.json["error"]["message"]) == (409, "`over` has run again since")


def test_a_loop_with_errors_cannot_be_run(served):
    project, server = served
    project.loop("broken", "name: broken\ninitial: nowhere\nstates: {a: {terminal: true}}\n")
    [row] = [each for each in server.get("/api/loops").json["loops"] if each["name"] == "broken"]
    assert (row["problem"], row["can"][0]["allowed"]) == ("invalid (1 error)", False)
    detail = server.get("/api/loops/broken.yaml").json
    assert (detail["machine"], detail["problems"][0]["code"]) == (None, "LL201")
    assert server.post("/api/loops/broken.yaml/run").status == 409


def test_a_loop_is_created_from_a_template(tmp_path):
    project = Project(tmp_path)
    with serving(project, "--edit") as server:
        made = server.post("/api/loops", {"template": "empty"})
        assert made.status == 200, made.body
        assert server.get(f"/api/loops/{made.json['key']}").json["loop"]["name"] == "my-loop"
        assert server.post("/api/loops", {"template": "empty"}).status == 409


# ── values that look like options ──────────────────────────────────────────────────────────────

HOSTILE = (
    *("-x", "-m", "-qq", "-", "--", "--json", "--fresh", "--help", "--context=word=x", "=x", ""),
    *("--to=bad --force", "a\n--force", "'; touch owned; '", "$(touch owned)"),
)
FIELDS: dict[str, Mapping[str, OptionField]] = {
    "run": RUN,
    "resume": RESUME,
    "approve": APPROVE,
    "reject": REJECT,
    "fork": FORK,
}


def parsed(verb: str, *words: str) -> dict[str, Any]:
    """The arguments of a command for the run `slow`; empty if they are refused."""
    try:
        return vars(args_of(verb).read(["slow", *words]))
    except UsageError:
        return {}


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (verb, name)
        for verb, fields in FIELDS.items()
        for name, field in fields.items()
        if field.kind in (TEXT, dict)
    ],
)
def test_no_value_becomes_an_option(verb, name):
    fields = FIELDS[verb]
    needed = ["--at=1"] if verb == "fork" else []
    plain = parsed(verb, *needed)
    argument = {"from": "from_state"}.get(name, name)
    for text in HOSTILE:
        given = {"--fresh": text} if fields[name].kind is dict else text
        found = parsed(verb, *needed, *options({name: given}, fields))
        expected = [f"--fresh={text}"] if fields[name].kind is dict else text
        assert found in ({}, plain | {argument: expected})


def test_a_template_is_not_an_option_either(tmp_path):
    project = Project(tmp_path)
    with serving(project, "--edit") as server:
        for text in ("--help", "--yes", "-q", "=empty", "--"):
            reply = server.post("/api/loops", {"template": text})
            assert (reply.status, reply.code) == (409, "refused"), reply.body
    assert list((project.root / ".loops").glob("*.yaml")) == []


@pytest.mark.parametrize("name", ["--json", "-q", "--", "slow@--json", "slow~--json"])
def test_the_name_of_a_run_or_loop_is_not_an_option(served, name):
    _, server = served
    assert server.post(f"/api/runs/{name}/stop").status == 404
    assert server.post(f"/api/loops/{name}/run").status == 404


def test_a_note_is_not_an_option(served):
    project, server = served
    project.loop("agent", AGENT)
    begun = project.ll("run", "agent", "--background", "--allow-skip-permissions")
    assert begun.returncode == 0, begun.stderr
    until(lambda: project.has_event("agent", "action_start"), "action under way")
    notes = ["-x", "--", "--json", "--help", "-qq"]
    assert [server.post("/api/runs/agent/tell", {"text": text}).status for text in notes] == [
        200
    ] * len(notes)
    (project.root / "go").touch()
    assert project.ll("wait", "agent").returncode == 0
    assert project.file("prompt") == "\n\n".join(["Fix it.", *notes])


def test_no_request_can_give_consent():
    for fields in FIELDS.values():
        assert "--allow-skip-permissions" not in {each.option for each in fields.values()}
        with pytest.raises(ApiError, match="unknown field `allow_skip_permissions`"):
            options({"allow_skip_permissions": True}, fields)


# ── run again ──────────────────────────────────────────────────────────────────────────────────

GREET = """\
    name: greet
    initial: say
    context: {word: hello, tone: kind}
    states:
      say: {action: "echo ${context.word} ${context.tone}; test ${context.word} != fail", on_pass: done, on_fail: bad}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
    """
GIVEN = ("--context", "word=fail", "--id", "nightly", "--max-iterations", "7", "--timeout", "90s")


def run_again(server: Served, key: str, **body):
    return server.post(f"/api/runs/{key}/run", body)


def test_a_run_is_run_again_with_what_it_had(served):
    project, server = served
    project.loop("greet", GREET)
    (project.root / "part").mkdir()
    project.ll("run", "greet", *GIVEN, "--scope", "part")
    [before] = server.get("/api/runs").json["past"]
    assert before["context"] == [{"name": "word", "text": "fail"}]
    assert [each["verb"] for each in before["can"]] == ["run"]
    plan = project.ll("run", "greet", "--dry-run", *GIVEN, "--scope", "part").stdout.splitlines()
    assert run_again(server, before["key"], dry_run=True).json["lines"] == plan

    done = run_again(server, before["key"], context={"tone": "--fresh"}, max_iterations=3).json
    assert (done["verb"], done["key"]) == ("run", "greet@nightly")
    assert project.ll("wait", "greet@nightly").returncode == 1
    after = server.get("/api/runs/greet@nightly").json
    context = {each["name"]: each["text"] for each in after["context"]}
    assert context == {"word": "fail", "tone": "--fresh"}
    assert (after["limits"]["max_iterations"], after["limits"]["timeout_s"]) == (3, 90)
    assert after["scope"] == ["part"]
    assert after["run"]["run"] != before["run"]


def test_a_run_in_a_worktree_is_run_again_in_one(served):
    project, server = served
    project.git("init", "-q")
    project.git("add", ".")
    project.git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "Start")
    project.ll("run", "over", "--worktree", "--merge")
    plan = project.ll("run", "over", "--dry-run", "--worktree", "--merge").stdout.splitlines()
    assert run_again(server, "over", dry_run=True).json["lines"] == plan


def test_a_value_that_the_loop_has_no_more_is_left_out(served):
    project, server = served
    project.loop("greet", GREET)
    project.ll("run", "greet", "--context", "tone=rude")
    project.loop(
        "greet",
        GREET.replace("word: hello, tone: kind", "word: hi").replace(" ${context.tone}", ""),
    )
    assert run_again(server, "greet").status == 200
    assert project.ll("wait", "greet").returncode == 0
    context = server.get("/api/runs/greet").json["context"]
    assert context == [{"name": "word", "text": "hello"}]  # as it was, not as it is now


@pytest.mark.parametrize("prepare", ["alive", "interrupted"])
def test_a_run_is_not_run_again_while_it_is_unfinished(served, prepare):
    project, server = served
    started(project, server)
    if prepare == "interrupted":
        assert server.post("/api/runs/slow/stop").status == 200
    expected = refusal(project, "run", "slow")
    found = can(server.get("/api/runs/slow"), "run")
    assert {"message": found["reason"], "help": found["help"]} == expected
    reply = run_again(server, "slow")
    assert (reply.status, reply.code) == (409, "refused")
    assert reply.json["error"] == {"code": "refused", **expected}


def test_a_run_again_that_the_command_refuses_has_its_words(served):
    """Another run of the name has started since."""
    project, server = served
    (project.root / "go").touch()
    project.ll("run", "slow")
    assert project.ll("approve", "slow").returncode == 0
    (project.root / "go").unlink()
    started(project, server)
    past = server.get("/api/runs").json["past"][0]["key"]
    reply = run_again(server, past)
    assert (reply.status, reply.json["error"]["message"]) == (
        409,
        refusal(project, "run", "slow")["message"],
    )


def test_a_loop_whose_file_is_gone_or_wrong_is_not_run_again(served):
    project, server = served
    path = project.loop("greet", GREET)
    project.ll("run", "greet")
    path.write_text("name: greet\ninitial: nowhere\nstates: {a: {terminal: true}}\n")
    assert not can(server.get("/api/runs/greet"), "run")["allowed"]
    assert run_again(server, "greet").status == 409
    path.unlink()
    assert run_again(server, "greet").json["error"]["message"] == (
        "there is no longer a loop file for `greet`"
    )


# ── nothing to undo ────────────────────────────────────────────────────────────────────────────

CHECKED = """\
    name: checked
    initial: check
    evidence: true
    host: {name: command, command: [sh, -c, 'echo done; [ ! -e ../work ] || echo new > new.txt', sh, "{prompt}"]}
    states:
      check: {action: "true", on_pass: fix, on_fail: fix}
      fix: {action: Fix it., action_type: prompt, next: done}
      done: {terminal: true}
    """


def undo_of(server: Served, name: str) -> Any:
    return can(server.get(f"/api/runs/{name}"), "undo")


def test_undo_is_offered_only_for_a_run_that_changed_files(served):
    project, server = served
    project.git("init", "-q")
    project.git("add", ".")
    project.git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "Start")
    project.ll("run", "over")
    found = undo_of(server, "over")
    assert {"message": found["reason"], "help": found["help"]} == refusal(project, "undo", "over")
    project.loop("checked", CHECKED)
    run = ("run", "checked", "--allow-skip-permissions")
    assert project.ll(*run).returncode == 0
    assert undo_of(server, "checked")["reason"] == (
        "`checked` changed no files, so there is nothing to undo"
    )
    assert project.ll("undo", "checked", "--dry-run").stdout.startswith("nothing to do")
    (project.root.parent / "work").touch()
    assert project.ll(*run).returncode == 0
    assert undo_of(server, "checked")["allowed"]
