"""The plugin in the hands of the real CLI: its form, its names, and what each command may do."""

from __future__ import annotations

import json
import re
import shutil
from typing import NamedTuple
from uuid import uuid4

import pytest

from little_loops.hosts.base import Outcome, Request
from little_loops.hosts.claude import HOST
from little_loops.hosts.plugin import is_enabled, plugin_directory
from tests.live.agents import ROOT, Stage, events_of, results_in, texts_of
from tests.live.fake_model import OK, Call, FakeModel, Rule, Say
from tests.live.scenes import bash


class Use(NamedTuple):
    """A command with arguments, and what its text tells the agent to run without asking anybody."""

    arguments: str
    allowed: tuple[str, ...] = ()


VALID = "check: test -s hello.txt\nfix: echo hello > hello.txt\n"
COMMANDS = {
    "create-loop": Use(
        "no type errors in src",
        (
            *("ll-loop help loops", "ll-loop list", "ll-loop explain LL104"),
            *(f"ll-loop validate - <<'END'\n{VALID}END", "ll-loop schema --tests"),
        ),
    ),
    "run-loop": Use(
        "loop --max-iterations 5",
        ("ll-loop wait loop --timeout 90s", "ll-loop status loop", "ll-loop logs loop"),
    ),
    "loop-status": Use("loop", ("ll-loop status loop", "ll-loop status", "ll-loop list")),
    "stop-loop": Use("loop", ("ll-loop status", "ll-loop stop loop")),
    "handoff": Use("the parser is half done", ("printenv LL_RUN_DIR",)),
    "implement": Use(
        "specs/886 --no-loop",
        (
            *("ll-loop validate loop", "ll-loop trust --list", "ll-loop status loop"),
            *("ll-loop wait loop --timeout 90s", "ll-loop logs loop"),
        ),
    ),
    "implement-turn": Use("specs/886"),
    "check_code": Use("types fix"),
    "manage_issue": Use("bug fix"),
}
NAMES = {f"ll:{name}" for name in COMMANDS}
LOOP = """
    name: loop
    initial: work
    states:
      work: {action: echo it worked > result.txt, next: done}
      done: {terminal: true}
    """
AGENT = """
    name: agent
    initial: work
    host: {permission_mode: acceptEdits}
    states:
      work: {action: /ll:offer-loop, next: done}
      done: {terminal: true}
    """


@pytest.mark.parametrize("what", ["", "plugin"], ids=["the marketplace", "the plugin"])
def test_it_is_valid_in_the_strictest_sense(stage: Stage, what: str):
    checked = stage.program("claude", "plugin", "validate", str(ROOT / what), "--strict")
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_it_can_be_installed_from_the_repository(stage: Stage):
    clone = stage.home / "clone"
    for part in (".claude-plugin", "plugin"):
        shutil.copytree(ROOT / part, clone / part)
    stage.loop("agent", AGENT)
    model = stage.play()
    for words in (["marketplace", "add", str(clone)], ["install", "ll@little-loops"]):
        done = stage.program("claude", "plugin", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert is_enabled(stage.program("claude", "plugin", "list", "--json").stdout)
    assert names_seen(stage) >= NAMES
    assert plugin_of_run(stage, model).startswith(f"{stage.home}/")

    stage.program("claude", "plugin", "disable", "ll@little-loops")
    assert not is_enabled(stage.program("claude", "plugin", "list", "--json").stdout)
    assert plugin_of_run(stage, model) == plugin_directory()


def names_seen(stage: Stage) -> set[str]:
    launch = HOST.build(Request("go", "prompt", str(stage.root), str(uuid4())))
    said = stage.program(*launch.argv, stdin=launch.stdin)
    init = next(event for event in events_of(said.stdout) if event.get("subtype") == "init")
    return set(init["slash_commands"])


def plugin_of_run(stage: Stage, model: FakeModel) -> str:
    """Where the plugin of an agent in a loop came from."""
    ran = stage.ll("run", "agent")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.search(r"follow `(.+)/commands/create-loop.md`", texts_of(model.asked[-1].body))
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("name", "use"), COMMANDS.items(), ids=COMMANDS)
def test_a_command_reaches_the_model_and_may_do_what_it_says(stage: Stage, name: str, use: Use):
    text = (ROOT / "plugin" / "commands" / f"{name}.md").read_text().split("---\n", 2)[2].strip()
    stage.loop("loop", LOOP)
    first = text.splitlines()[0].replace("$ARGUMENTS", use.arguments)
    model = stage.play(Rule(first, *(bash(command) for command in use.allowed), Say("ok")))

    outcome = converse(stage, f"/ll:{name} {use.arguments}")

    filled = text.replace("$ARGUMENTS", use.arguments)
    filled = filled.replace("${CLAUDE_PLUGIN_ROOT}", plugin_directory())
    assert filled in texts_of(model.asked[0].body)
    assert (outcome.kind, outcome.denials) == ("success", ())
    assert len(model.asked) == len(use.allowed) + 1


DRAFT = """\
name: greet
check: test -s hello.txt
fix: echo hello > hello.txt
max_iteration: 3
"""
CORRECTED = DRAFT.replace("max_iteration:", "max_iterations:")


def test_a_wish_becomes_a_loop_that_is_valid_seen_and_agreed_to(stage: Stage):
    """Two turns of one conversation: a draft with a mistake, shown when that is corrected, without
    one approval; then the user's yes."""
    model = stage.play(
        Rule(
            "Yes, save it", put(".loops/greet.yaml", CORRECTED), bash("ll-loop validate greet"), OK
        ),
        Rule(
            "The goal: a greeting is there",
            *(bash("ll-loop help loops"), validate(DRAFT), validate(CORRECTED)),
            Say(f"{CORRECTED}\nShould I save it?"),
        ),
    )
    session = str(uuid4())

    shown = converse(stage, "/ll:create-loop a greeting is there", session_id=session)

    assert (shown.kind, shown.denials) == ("success", ())
    assert shown.text == f"{CORRECTED}\nShould I save it?"
    seen = [results_in(asked.body) for asked in model.asked]
    assert "### check and fix" in seen[1]
    assert "did you mean `max_iterations`?" in seen[2]
    assert "checked 1 loop: no problems" in seen[3]
    assert stage.ll("list").stdout == "this project has no loops\n"

    # What the command allows holds for its own turn; here the user allows it.
    allowed = ("Write", "Bash(ll-loop validate greet)")
    saved = converse(stage, "Yes, save it", allowed, session, resumes=True)

    assert (saved.kind, saved.text) == ("success", "ok")
    assert "checked 1 loop: no problems" in results_in(model.asked[-1].body)
    assert stage.ll("run", "greet").returncode == 0
    assert stage.file("hello.txt") == "hello\n"


@pytest.mark.parametrize("approved", [True, False])
def test_one_approval_at_most_is_needed_before_a_loop_is_shown(stage: Stage, approved: bool):
    """That of running the check once, to see what it prints; nothing else is asked."""
    stage.write("Makefile", "test:\n\tfalse\n")
    steps = (
        bash("ls"),
        Call("Read", {"file_path": str(stage.root / "Makefile")}),
        *(bash("make test"), bash("ll-loop help loops"), bash("ll-loop list")),
        *(validate(DRAFT), bash("ll-loop explain LL102"), validate(CORRECTED)),
    )
    model = stage.play(Rule("The goal: make test passes", *steps, Say(CORRECTED)))
    allow = ("Bash(make test)",) if approved else ()

    shown = converse(stage, "/ll:create-loop make test passes", allow)

    assert len(model.asked) == len(steps) + 1
    assert "checked 1 loop: no problems" in results_in(model.asked[-1].body)
    assert len(shown.denials) == (0 if approved else 1)


def validate(draft: str) -> Call:
    return bash(f"ll-loop validate - <<'END'\n{draft}END")


def put(path: str, content: str) -> Call:
    return Call("Write", {"file_path": path, "content": content})


def test_a_run_that_a_session_started_outlives_it(stage: Stage):
    stage.loop("loop", LOOP.replace("echo", "sleep 1; echo"))
    stage.play(
        Rule("Run the loop: loop", bash("ll-loop run loop --background"), Say("It runs.")),
    )

    outcome = converse(stage, "/ll:run-loop loop", allow=("Bash(ll-loop run loop --background)",))

    assert (outcome.kind, outcome.text) == ("success", "It runs.")
    ended = stage.ll("wait", "loop")
    assert (ended.returncode, stage.file("result.txt")) == (0, "it worked\n")


PLAN = "# Plan\n1. parser\n2. lexer\n3. printer\n"
RELAY = """\
name: implement-886
paradigm: relay
agent: /ll:implement-turn specs/886/plan.md
plan: specs/886/plan.md
host: {permission_mode: acceptEdits}
max_cost_usd: 20
"""


def planned(stage: Stage) -> None:
    """A repository with a plan of three phases."""
    stage.write("specs/886/plan.md", PLAN)
    stage.write("../home/.gitconfig", "[user]\nname = Ada\nemail = ada@example.org\n")
    stage.git("init", "--quiet", "--initial-branch=main")
    stage.git("add", ".")
    stage.git("commit", "--quiet", "--message=Begin")


def turn(stage: Stage, phase: int) -> tuple[Call | Say, ...]:
    """What an agent does in the turn for a phase: it writes a file, and its report."""
    status = "implemented" if phase == 3 else "partial"
    progress = {"phases_completed": phase, "phases_total": 3}
    report = json.dumps({"status": status, "partial_progress": progress})
    return (
        put(str(stage.root / f"phase{phase}.py"), f"y = {phase}\n"),
        put(str(stage.root / "specs/886/.return-meta.json"), report),
        Say(f"Phase {phase} is done."),
    )


def test_one_typed_command_carries_a_plan_out_with_three_agents(stage: Stage):
    planned(stage)
    model = stage.play(
        *(Rule(f"resume_phase: {phase}\n", *turn(stage, phase)) for phase in (3, 2, 1)),
        Rule(
            "Implement this plan with a relay: specs/886",
            *(bash("printenv LL_RUN_ID"), put(".loops/implement-886.yaml", RELAY)),
            bash("ll-loop validate implement-886"),
            bash("ll-loop run implement-886 --background"),
            bash("ll-loop wait implement-886 --timeout 90s"),
            Say("It is implemented."),
        ),
    )
    run = "Bash(ll-loop run implement-886 --background)"

    outcome = converse(stage, "/ll:implement specs/886", ("Write", run))

    assert (outcome.kind, outcome.denials, outcome.text) == ("success", (), "It is implemented.")
    assert stage.ll("wait", "implement-886").returncode == 0
    starts = [e for e in stage.events("implement-886") if e.get("state") == "turn"]
    sessions = {e["session_id"] for e in starts if e["event"] == "action_start"}
    assert len(sessions) == 3
    assert stage.git("log", "--reverse", "--format=%s", "HEAD~3..HEAD").splitlines() == [
        f"implement-886: phase {phase} of 3 (turn {phase})" for phase in (1, 2, 3)
    ]
    assert any("resume_phase: 3" in asked.said for asked in model.asked)


def test_inside_a_relay_it_does_one_turn_and_starts_nothing(stage: Stage):
    """A loop from before there was a command for one turn."""
    planned(stage)
    stage.loop("old", RELAY.replace("implement-886", "old").replace("implement-turn", "implement"))
    there = f"{plugin_directory()}/commands/implement-turn.md"
    read = Call("Read", {"file_path": there})
    model = stage.play(
        *(Rule(f"resume_phase: {phase}\n", read, *turn(stage, phase)) for phase in (3, 2, 1))
    )

    ran = stage.ll("run", "old")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    first = texts_of(model.asked[0].body)
    assert f"read `{there}`, follow it" in first
    assert "metadata_path: specs/886/.return-meta.json" in first
    assert "write the return metadata to `metadata_path`" in results_in(model.asked[1].body)
    runs = (stage.root / ".loops" / ".history").glob("*/*.events.jsonl")
    assert [path.parent.name for path in runs] == ["old"]


def test_in_any_other_loop_it_can_tell_that_a_run_has_started_it(stage: Stage):
    """There is no `metadata_path:` here, so it asks for the run, and may."""
    planned(stage)
    plain = AGENT.replace("name: agent", "name: plain")
    stage.loop("plain", plain.replace("/ll:offer-loop", "/ll:implement specs/886"))
    model = stage.play(
        Rule("with a relay: specs/886", bash("printenv LL_RUN_ID"), Say("One turn is done."))
    )

    ran = stage.ll("run", "plain")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "metadata_path: " not in texts_of(model.asked[0].body)
    assert results_in(model.asked[1].body) == stage.events("plain")[0]["run"]


def test_a_session_does_not_end_while_the_check_fails(stage: Stage):
    stage.loop("fix", "{name: fix, paradigm: goal, goal: x, tools: [test -s hello.txt, make]}")
    model = stage.play(
        Rule("`ll-loop check fix` fails", put("hello.txt", "hello\n"), Say("now it is there")),
        Rule("go", Say("done")),
    )
    launch = HOST.build(
        Request(
            *("go", "prompt", str(stage.root), str(uuid4())),
            plugin_dirs=(plugin_directory(),),
            permission_mode="acceptEdits",
        )
    )

    said = stage.program(*launch.argv, stdin=launch.stdin, env={"LL_CHECK_ON_STOP": "fix"})

    assert events_of(said.stdout)[-1]["result"] == "now it is there"
    assert "`ll-loop check fix` fails:\n✗ evaluate: test -s hello.txt" in texts_of(
        model.asked[-1].body
    )
    assert stage.file("hello.txt") == "hello\n"


def test_the_skill_knows_where_the_commands_are(stage: Stage):
    model = stage.play()
    converse(stage, "/ll:offer-loop")
    there = f"{plugin_directory()}/commands/create-loop.md"
    assert f"follow `{there}`" in texts_of(model.asked[0].body)


def converse(
    stage: Stage,
    action: str,
    allow: tuple[str, ...] = (),
    session_id: str = "",
    *,
    resumes: bool = False,
) -> Outcome:
    """One turn of the real CLI with the plugin, in which nothing is allowed that is not listed."""
    request = Request(
        action,
        "prompt" if resumes else "slash",
        str(stage.root),
        session_id or str(uuid4()),
        plugin_dirs=(plugin_directory(),),
        permission_mode="dontAsk",
        allow=allow,
    )
    launch = HOST.build(request)
    started, resumed = f"--session-id={session_id}", f"--resume={session_id}"
    argv = [resumed if resumes and word == started else word for word in launch.argv]
    said = stage.program(*argv, stdin=launch.stdin)
    reader = HOST.reader(request)
    for line in said.stdout.splitlines():
        reader.feed(line)
    return reader.finish(said.returncode)
