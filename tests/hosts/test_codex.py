from __future__ import annotations

import json

import pytest

from little_loops.fsm.schema import HostOptions
from little_loops.hosts.base import Request, argv_with_files
from little_loops.hosts.codex import HOST
from little_loops.hosts.verdicts import schema_for

ALWAYS = ("codex", "exec", "--json", "--skip-git-repo-check")
PLAIN = Request("go", "prompt", "/project", "ours")


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        pytest.param({}, ["-s", "read-only"], id="nothing said, no consent"),
        pytest.param(
            {"skip_permissions": True},
            ["--dangerously-bypass-approvals-and-sandbox"],
            id="with consent",
        ),
        pytest.param({"permission_mode": "acceptEdits"}, ["-s", "workspace-write"], id="edits"),
        pytest.param({"permission_mode": "plan"}, ["-s", "read-only"], id="plan"),
        pytest.param(
            {"permission_mode": "danger-full-access"}, ["-s", "read-only"], id="without consent"
        ),
        pytest.param(
            {"permission_mode": "workspace-write", "skip_permissions": True},
            ["-s", "workspace-write"],
            id="a milder mode stays mild",
        ),
        pytest.param(
            {"model": "gpt-5", "args": ("-c", "model_reasoning_effort=low")},
            ["-s", "read-only", "--model=gpt-5", "-c", "model_reasoning_effort=low"],
            id="model and arguments",
        ),
    ],
)
def test_the_command_line(options, flags):
    launch = HOST.build(PLAIN._replace(**options))
    assert launch.argv == (*ALWAYS, *flags, "-")
    assert (launch.stdin, launch.session_id, launch.files) == (b"go", None, {})


def test_a_verdict_is_asked_for_by_a_file():
    launch = HOST.build(PLAIN._replace(words=("pass", "fail"), env={"A": "1"}))
    argv = (*ALWAYS, "-s", "read-only", "--output-schema", "/run/verdict.schema.json", "-")
    assert argv_with_files(launch, "/run") == argv
    assert json.loads(launch.files["verdict.schema.json"]) == schema_for(("pass", "fail"))
    assert launch.env == {"A": "1"}


PERMISSIONS = "permissions are set by `permission_mode`"


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        pytest.param(
            HostOptions(permission_mode="read-only", args=("-c", "x=1", "-cy=2", "--config=z=3")),
            [],
            id="fine",
        ),
        pytest.param(
            HostOptions(permission_mode="yolo"),
            [
                (
                    "`codex` has no permission mode `yolo`; known: `acceptEdits`, `auto`, "
                    "`workspace-write`, `default`, `dontAsk`, `plan`, `read-only`, "
                    "`bypassPermissions`, `danger-full-access`"
                )
            ],
            id="mode",
        ),
        pytest.param(
            HostOptions(allow=("Bash",), max_turns=3, command=("x",)),
            [
                "`codex` has no `allow`",
                "`codex` has no `max_turns`",
                "`command` is for `host: command`",
            ],
            id="what it does not have",
        ),
        pytest.param(
            HostOptions(args=("-s", "read-only", "--yolo", "--dangerously-bypass-hook-trust")),
            [
                f"`-s` in `args`: {PERMISSIONS}",
                f"`--yolo` in `args`: {PERMISSIONS}",
                f"`--dangerously-bypass-hook-trust` in `args`: {PERMISSIONS}",
            ],
            id="permissions",
        ),
        pytest.param(
            HostOptions(
                args=(
                    *("-c", 'sandbox_mode="danger-full-access"'),
                    "--config=approval_policy=never",
                    "-csandbox_permissions=[]",
                )
            ),
            [
                f'`sandbox_mode="danger-full-access"` in `args`: {PERMISSIONS}',
                f"`--config=approval_policy=never` in `args`: {PERMISSIONS}",
                f"`-csandbox_permissions=[]` in `args`: {PERMISSIONS}",
            ],
            id="permissions by a setting",
        ),
        pytest.param(
            HostOptions(args=("--cd=/", "--json")),
            [
                "`--cd` is not allowed in `args`: the engine sets it, or there is a separate option for it",
                "`--json` is not allowed in `args`: the engine sets it, or there is a separate option for it",
            ],
            id="what is ours",
        ),
    ],
)
def test_options(options, problems):
    assert HOST.check_options(options) == problems


def test_the_rest():
    assert HOST.recognises("/review") is False
    assert [HOST.needs_consent(mode) for mode in (None, "bypassPermissions", "auto")] == [
        True,
        True,
        False,
    ]
    probe = HOST.probe(lambda name: f"/bin/{name}", lambda argv: (0, "codex-cli 0.166.0"))
    assert tuple(probe) == ("/bin/codex", "0.166.0", True, "")
