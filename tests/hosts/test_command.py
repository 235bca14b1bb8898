from __future__ import annotations

import pytest

from little_loops.fsm.schema import HostOptions
from little_loops.hosts.base import Request
from little_loops.hosts.command import HOST

PLAIN = Request("fix it; rm -rf /", "prompt", "/project", "ours", env={"A": "1"})
ASKS = (
    "\n\nEnd your answer with a line `VERDICT: word`, where word is one of `pass`, `fail` "
    "(`pass` if what was asked for is true or done, `fail` if it is not)."
)


@pytest.mark.parametrize(
    ("command", "words", "argv", "stdin"),
    [
        pytest.param(
            ("aider", "--message", "{prompt}"),
            None,
            ("aider", "--message", "fix it; rm -rf /"),
            b"",
            id="one argument",
        ),
        pytest.param(
            ("x", "--m={prompt}", "-q"), None, ("x", "--m=fix it; rm -rf /", "-q"), b"", id="part"
        ),
        pytest.param(("llm",), None, ("llm",), b"fix it; rm -rf /", id="no place: stdin"),
        pytest.param(
            ("x", "{prompt}"),
            ("pass", "fail"),
            ("x", f"fix it; rm -rf /{ASKS}"),
            b"",
            id="with a verdict",
        ),
    ],
)
def test_the_command_line(command, words, argv, stdin):
    launch = HOST.build(PLAIN._replace(command=command, words=words))
    assert (launch.argv, launch.stdin, launch.env) == (argv, stdin, {"A": "1"})
    assert launch.session_id is None


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        pytest.param(HostOptions(command=("x", "{prompt}")), [], id="fine"),
        pytest.param(
            HostOptions(), ["`host: command` needs a `command` that contains `{prompt}`"], id="none"
        ),
        pytest.param(
            HostOptions(command=("x", "-q")),
            ["`command` does not contain `{prompt}`, the place for the prompt"],
            id="no place",
        ),
        pytest.param(
            HostOptions(command=("{prompt}",)),
            ["`command` does not contain `{prompt}`, the place for the prompt"],
            id="the prompt is no program",
        ),
        pytest.param(
            HostOptions(command=("x", "{prompt}"), model="opus"),
            ["`host: command` does not support `model`; pass the option in `command` instead"],
            id="options it cannot keep",
        ),
        pytest.param(
            HostOptions(command=("sh", "-c", 'my-agent "$1"', "sh", "{prompt}")),
            [],
            id="an argument of a script",
        ),
        pytest.param(
            HostOptions(command=("env", "A=1", "bash", "-c", "my-agent '{prompt}'")),
            [
                (
                    "`bash` would run `{prompt}` as code; pass it as an argument: "
                    """`[sh, -c, 'my-agent "$1"', sh, "{prompt}"]`"""
                )
            ],
            id="the prompt as code",
        ),
    ],
)
def test_options(options, problems):
    assert HOST.check_options(options) == problems


@pytest.mark.parametrize(
    ("command", "probe"),
    [
        ((), (None, None, False, "`host: command` needs a `command`")),
        (("nope", "{prompt}"), (None, None, False, "`nope` is not on PATH")),
        (("aider", "{prompt}"), ("/bin/aider", None, True, "")),
    ],
)
def test_probe(command, probe):
    def run(argv):
        raise AssertionError("nothing is known about its options")

    assert tuple(HOST.probe({"aider": "/bin/aider"}.get, run, command)) == probe


def test_it_has_no_slash_commands_and_asks_for_no_consent():
    assert HOST.recognises("/fix") is False
    assert HOST.needs_consent(None) is False


def test_the_program_is_named_in_the_outcome():
    reader = HOST.reader(PLAIN._replace(command=("/opt/bin/aider", "{prompt}")))
    assert reader.finish(0).reason == "`aider` printed nothing"
    assert HOST.reader(PLAIN).finish(0).reason == "`command` printed nothing"
