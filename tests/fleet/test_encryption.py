"""The codec of the manual: what the server stores is encrypted, and the commands work as always."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from temporalio.client import Client

from little_loops.errors import UsageError
from little_loops.fleet.encryption import data_converter
from little_loops.fleet.names import workflow_prefix
from tests.fleet.fleet import Fleet
from tests.project import DEADLINE_S, Project, until

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "many-machines.md"
SPOKEN = """\
name: spoken
context: {word: unspeakable}
initial: say
states:
  say: {action: "echo ${context.word} | tee said", next: done}
  done: {terminal: true}
"""


def new_key() -> bytes:
    return base64.urlsafe_b64encode(os.urandom(32))


@pytest.fixture
def environ(fleet: Fleet, tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of the manual, for the namespace of this test."""
    page = PAGE.read_text()
    code = re.search(r"```python\n# team_codec.py\n(.*?)```", page, re.DOTALL)
    named = re.search(r"export LL_FLEET_CODEC=(\S+)\n", page)
    assert code is not None
    assert named is not None
    (tmp_path / "team_codec.py").write_text(code[1])
    (tmp_path / "key").write_bytes(new_key())
    return {
        "LL_FLEET": f"temporal://{fleet.server.address.target}/careful",
        "LL_FLEET_CODEC": named[1],
        "TEAM_KEY_FILE": str(tmp_path / "key"),
        "PYTHONPATH": f"{fleet.environ()['PYTHONPATH']}:{tmp_path}",
    }


@pytest.fixture
def bare(project: Project) -> str:
    project.loop("spoken", SPOKEN)
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    bare = str(project.root.parent / "bare.git")
    project.git("clone", "-q", "--bare", str(project.root), bare)
    project.git("remote", "add", "origin", bare)
    project.git("fetch", "-q")
    return bare


@pytest.fixture
def worker(
    fleet: Fleet, project: Project, environ: Mapping[str, str], bare: str, tmp_path: Path
) -> Iterator[None]:
    log = tmp_path / "worker.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            project.argv("worker", "--repos", bare, "--heartbeat", "2s"),
            env={**fleet.environ(), **environ},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        until(lambda: b"is ready" in log.read_bytes() or child.poll() is not None, "worker")
        yield
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_S) == 0, log.read_text()


# They say only which version of our code has decided something, and the SDK does not encrypt them.
VERSIONS = {"markerRecordedEventAttributes", "upsertWorkflowSearchAttributesEventAttributes"}


def test_the_codec_of_the_manual_encrypts_all_that_the_server_stores(
    fleet: Fleet, project: Project, environ: Mapping[str, str], bare: str, worker: None
):
    assert project.ll("run", "spoken", env=environ).returncode == 0
    assert "unspeakable" in project.ll("logs", "spoken", env=environ).stdout
    assert "completed" in project.ll("status", "spoken", env=environ).stdout
    stored = asyncio.run(history(fleet, bare))
    assert "unspeakable" not in stored
    events = json.loads(stored)["events"]
    payloads = json.dumps([one for one in events if not VERSIONS & one.keys()])
    assert '"encoding": "YmluYXJ5L2Zlcm5ldA=="' in payloads
    assert payloads.count('"encoding"') == payloads.count('"encoding": "YmluYXJ5L2Zlcm5ldA=="')


def test_without_the_codec_or_the_key_a_run_cannot_be_read(
    project: Project, environ: Mapping[str, str], worker: None
):
    assert project.ll("run", "spoken", env=environ).returncode == 0
    without = {**environ, "LL_FLEET_CODEC": ""}
    assert project.ll("status", "spoken", env=without).stderr == (
        "error: the runs of this fleet are encrypted: `binary/fernet`\n"
        "   = help: set LL_FLEET_CODEC as on its workers\n"
    )
    Path(environ["TEAM_KEY_FILE"]).write_bytes(new_key())
    assert project.ll("status", "spoken", env=environ).stderr == (
        "error: the runs of this fleet cannot be decrypted: InvalidToken\n"
        "   = help: LL_FLEET_CODEC and the key must be those of its workers\n"
    )


async def history(fleet: Fleet, bare: str) -> str:
    """Return all that the server has stored of the runs of a repository, as JSON."""
    client = await Client.connect(fleet.server.address.target, namespace="careful")
    query = f"WorkflowId STARTS_WITH '{workflow_prefix(bare)}'"
    found = [
        await client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()
        async for each in client.list_workflows(query)
    ]
    return "\n".join(each.to_json() for each in found)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        pytest.param("missing:It", "`missing:It` cannot be loaded: No module named 'missing'"),
        pytest.param("json:It", "`json:It` cannot be loaded: module 'json' has no attribute 'It'"),
        pytest.param("json", "`json` cannot be loaded: module 'json' has no attribute ''"),
        pytest.param("collections:Counter", "`collections:Counter` is not a `PayloadCodec`"),
    ],
)
def test_what_is_no_codec_is_refused(named: str, why: str):
    with pytest.raises(UsageError) as error:
        data_converter({"LL_FLEET_CODEC": named})
    assert error.value.message == f"`LL_FLEET_CODEC`: {why}"
