from __future__ import annotations

import json

import pytest

from little_loops.fsm.schema import HostOptions
from little_loops.hosts.base import Request
from little_loops.hosts.claude import HIDDEN_TOOLS, HOST
from little_loops.hosts.verdicts import schema_for

ID = "11111111-1111-4111-8111-111111111111"
ALWAYS = ("claude", "-p", "--output-format=stream-json", "--verbose", f"--session-id={ID}")
PLAIN = Request("go", "prompt", "/project", ID)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        pytest.param({}, ["--permission-mode=default"], id="nothing said, no consent"),
        pytest.param(
            {"skip_permissions": True}, ["--dangerously-skip-permissions"], id="with consent"
        ),
        pytest.param(
            {"permission_mode": "bypassPermissions"},
            ["--permission-mode=default"],
            id="bypass without consent",
        ),
        pytest.param(
            {"permission_mode": "bypassPermissions", "skip_permissions": True},
            ["--dangerously-skip-permissions"],
            id="bypass with consent",
        ),
        pytest.param(
            {"permission_mode": "plan", "skip_permissions": True},
            ["--permission-mode=plan"],
            id="a milder mode stays mild",
        ),
        pytest.param(
            {"permission_mode": "dontAsk", "allow": ("Bash(git *)", "Edit"), "deny": ("Write",)},
            [
                "--permission-mode=dontAsk",
                "--allowedTools=Bash(git *)",
                "--allowedTools=Edit",
                "--disallowedTools=Write",
            ],
            id="rules",
        ),
        pytest.param(
            {"model": "opus", "max_turns": 5, "max_cost_usd": 0.5},
            [
                "--permission-mode=default",
                "--model=opus",
                "--max-turns=5",
                "--max-budget-usd=0.500000",
            ],
            id="limits",
        ),
        pytest.param(
            {"plugin_dirs": ("/a", "/b"), "args": ("--effort", "low")},
            [
                "--permission-mode=default",
                "--plugin-dir=/a",
                "--plugin-dir=/b",
                "--effort",
                "low",
            ],
            id="plugins and arguments",
        ),
    ],
)
def test_the_command_line(options, flags):
    argv = HOST.build(PLAIN._replace(**options)).argv
    assert tuple(word for word in argv if word not in HIDDEN) == (*ALWAYS, *flags)


HIDDEN = [f"--disallowedTools={name}" for name in HIDDEN_TOOLS]


def test_tools_that_work_out_of_sight_are_denied_unless_the_loop_allows_them():
    argv = HOST.build(PLAIN).argv
    assert [word for word in argv if word in HIDDEN] == HIDDEN
    allowing = HOST.build(PLAIN._replace(allow=("Monitor",))).argv
    assert "--disallowedTools=Monitor" not in allowing
    assert "--disallowedTools=Workflow" in allowing


def test_a_verdict_is_asked_for_by_schema():
    argv = HOST.build(PLAIN._replace(words=("done", "blocked"))).argv
    assert json.loads(argv[-1].removeprefix("--json-schema=")) == schema_for(("done", "blocked"))


@pytest.mark.parametrize(
    ("kind", "action", "stdin"),
    [
        pytest.param("prompt", "fix it", b"fix it", id="prompt"),
        pytest.param("prompt", "-p is a flag", b"-p is a flag", id="begins like a flag"),
        pytest.param("prompt", "/fix it", b"\n/fix it", id="prompt that looks like a command"),
        pytest.param("prompt", "/usr/bin/env", b"/usr/bin/env", id="a path is no command"),
        pytest.param("slash", "  /ll:fix src", b"/ll:fix src", id="slash command"),
        pytest.param("prompt", "größer \ud800", b"gr\xc3\xb6\xc3\x9fer ?", id="half a character"),
    ],
)
def test_the_prompt_goes_in_by_stdin(kind, action, stdin):
    assert HOST.build(PLAIN._replace(kind=kind, action=action)).stdin == stdin


def test_the_environment():
    launch = HOST.build(PLAIN._replace(env={"A": "1"}))
    assert launch.env == {"CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1", "A": "1"}
    assert launch.env_unless_set == {"CLAUDE_CODE_MAX_RETRIES": "2"}
    assert (launch.session_id, launch.files) == (ID, {})


@pytest.mark.parametrize(
    ("action", "taken"),
    [
        ("/fix", True),
        ("/ll:check_code types", True),
        ("/a-b:c\nmore", True),
        ("/usr/bin/make all", False),
        ("\n/fix", False),
        ("fix /this", False),
        ("/", False),
        ("/fix.sh", False),
    ],
)
def test_what_is_a_slash_command(action, taken):
    assert HOST.recognises(action) is taken


@pytest.mark.parametrize(
    ("mode", "asks"), [(None, True), ("bypassPermissions", True), ("acceptEdits", False)]
)
def test_what_needs_consent(mode, asks):
    assert HOST.needs_consent(mode) is asks


PERMISSIONS = "permissions are set by `permission_mode`, `allow` and `deny`"
ENGINE = "the engine sets it, or there is a separate option for it"


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        pytest.param(HostOptions(permission_mode="plan", args=("--effort", "low")), [], id="fine"),
        pytest.param(
            HostOptions(permission_mode="yolo"),
            [
                (
                    "`claude` has no permission mode `yolo`; known: `acceptEdits`, `auto`, "
                    "`bypassPermissions`, `default`, `dontAsk`, `plan`"
                )
            ],
            id="mode",
        ),
        pytest.param(
            HostOptions(command=("x",)), ["`command` is for `host: command`"], id="command"
        ),
        pytest.param(
            HostOptions(args=("--dangerously-skip-permissions", "--permission-mode=plan")),
            [
                f"`--dangerously-skip-permissions` in `args`: {PERMISSIONS}",
                f"`--permission-mode` in `args`: {PERMISSIONS}",
            ],
            id="permissions",
        ),
        pytest.param(
            HostOptions(args=("--allowed-tools", "Bash", "--allow-dangerously-something")),
            [
                f"`--allowed-tools` in `args`: {PERMISSIONS}",
                f"`--allow-dangerously-something` in `args`: {PERMISSIONS}",
            ],
            id="tools, and what a later version may have",
        ),
        pytest.param(
            HostOptions(args=("-c", "-rabc", "--output-format=text", "--")),
            [
                f"`-c` is not allowed in `args`: {ENGINE}",
                f"`-r` is not allowed in `args`: {ENGINE}",
                f"`--output-format` is not allowed in `args`: {ENGINE}",
                f"`--` is not allowed in `args`: {ENGINE}",
            ],
            id="what is ours",
        ),
    ],
)
def test_options(options, problems):
    assert HOST.check_options(options) == problems


def test_probe():
    probe = HOST.probe(lambda name: f"/bin/{name}", lambda argv: (0, "2.1.197 (Claude Code)"))
    assert tuple(probe) == ("/bin/claude", "2.1.197", True, "")
