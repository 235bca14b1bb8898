"""The plugin in the hands of the real CLI: its form, its names, and what each command may do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from little_loops.hosts.base import Outcome, Request
from little_loops.hosts.claude import HOST
from little_loops.hosts.plugin import is_enabled, plugin_directory
from tests.live.agents import ROOT, Stage, events_of, texts_of
from tests.live.fake_model import OK, Call, FakeModel, Rule, Say
from tests.live.scenes import bash


class Use(NamedTuple):
    """A command with arguments, and what its text tells the agent to run without asking anybody."""

    arguments: str
    allowed: tuple[str, ...] = ()


COMMANDS = {
    "create-loop": Use(
        "no type errors in src",
        ("ll-loop schema", "ll-loop list", "ll-loop validate loop", "ll-loop explain LL104"),
    ),
    "run-loop": Use(
        "loop --max-iterations 5",
        ("ll-loop wait loop --timeout 90s", "ll-loop status loop", "ll-loop logs loop"),
    ),
    "loop-status": Use("loop", ("ll-loop status loop", "ll-loop status", "ll-loop list")),
    "stop-loop": Use("loop", ("ll-loop status", "ll-loop stop loop")),
    "handoff": Use("the parser is half done", ("printenv LL_RUN_DIR",)),
    "implement": Use("specs/886"),
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

    assert text.replace("$ARGUMENTS", use.arguments) in texts_of(model.asked[0].body)
    assert (outcome.kind, outcome.denials) == ("success", ())
    assert len(model.asked) == len(use.allowed) + 1


DRAFT = """\
paradigm: goal
name: greet
goal: a greeting is there
tools: [test -s hello.txt, echo hello > hello.txt]
max_iteration: 3
"""
MENDED = DRAFT.replace("max_iteration:", "max_iterations:")


def test_a_wish_becomes_a_loop_that_is_valid_seen_and_agreed_to(stage: Stage):
    """Two turns of one conversation: a draft that has to be mended, then the user's yes."""
    draft = f"{stage.root.parent}/scratch/greet.yaml"
    check = bash(f"ll-loop validate {draft}")
    model = stage.play(
        Rule("Yes, save it", put(".loops/greet.yaml", MENDED), bash("ll-loop validate greet"), OK),
        Rule(
            "The goal: a greeting is there",
            *(bash("ll-loop schema"), put(draft, DRAFT), check, put(draft, MENDED), check),
            Say(f"{MENDED}\nShould I save it?"),
        ),
    )
    session = str(uuid4())

    shown = converse(stage, "/ll:create-loop a greeting is there", ("Write",), session)

    assert (shown.kind, shown.text) == ("success", f"{MENDED}\nShould I save it?")
    seen = [results_in(asked.body) for asked in model.asked]
    assert "did you mean `max_iterations`?" in seen[3]
    assert "checked 1 loop: no problems" in seen[5]
    assert stage.ll("list").stdout == "this project has no loops\n"

    # What the command allows holds for its own turn; here the user allows it.
    allowed = ("Write", "Bash(ll-loop validate greet)")
    saved = converse(stage, "Yes, save it", allowed, session, resumes=True)

    assert (saved.kind, saved.text) == ("success", "ok")
    assert "checked 1 loop: no problems" in results_in(model.asked[-1].body)
    assert stage.ll("run", "greet").returncode == 0
    assert stage.file("hello.txt") == "hello\n"


def put(path: str, content: str) -> Call:
    return Call("Write", {"file_path": path, "content": content})


def results_in(asked: Mapping[str, Any]) -> str:
    """What the newest tool answered, as the model is told it."""
    # Newer versions add messages of their own after it.
    for message in reversed(asked["messages"]):
        content = message["content"] if isinstance(message["content"], list) else []
        results = [str(each["content"]) for each in content if each["type"] == "tool_result"]
        if results:
            return "\n".join(results)
    return ""


def test_a_run_that_a_session_started_outlives_it(stage: Stage):
    stage.loop("loop", LOOP.replace("echo", "sleep 1; echo"))
    stage.play(
        Rule("Run the loop: loop", bash("ll-loop run loop --background"), Say("It runs.")),
    )

    outcome = converse(stage, "/ll:run-loop loop", allow=("Bash(ll-loop run loop --background)",))

    assert (outcome.kind, outcome.text) == ("success", "It runs.")
    ended = stage.ll("wait", "loop")
    assert (ended.returncode, stage.file("result.txt")) == (0, "it worked\n")


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
