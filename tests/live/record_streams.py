"""Record what the real agent CLIs print, as test data for the readers of their streams.

    python -m tests.live.record_streams --claude PATH --codex PATH [SCENE ...]

Each scene of `scenes` is played once: the real program, started with the command line the host
builds, in a project and a home of its own, against the fake model.  Its stdout goes to
`tests/hosts/streams/<host>/<scene>.jsonl`, how it ended to `endings.json` beside it.  What differs
from one run to the next (ids, times, paths, ports) is made the same.  Needs a CLI and a second or
two a scene; the tests that read the files need neither.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from little_loops.hosts.base import Host, Request, argv_with_files, environment, host_named
from tests.live.fake_model import FakeModel
from tests.live.scenes import CLAUDE_SCENES, CODEX_SCENES, SESSION, Scene

STREAMS = Path(__file__).parent.parent / "hosts" / "streams"

DROPPED = {
    *("uuid", "timestamp", "duration_ms", "duration_api_ms", "ttft_ms", "ttft_stream_ms"),
    *("time_to_request_ms", "memory_paths", "end_time", "server_tool_use", "cache_creation"),
    *("inference_geo", "iterations", "speed", "service_tier", "totalDurationMs", "agents"),
    *("skills", "analytics_disabled", "product_feedback_disabled", "fast_mode_state"),
    *("context_management", "container", "stop_details", "refused_user_message_uuid"),
}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claude", help="path of the claude program")
    parser.add_argument("--codex", help="path of the codex program")
    parser.add_argument("scenes", nargs="*", help="only these")
    args = parser.parse_args()
    for name, scenes in (("claude", CLAUDE_SCENES), ("codex", CODEX_SCENES)):
        program = getattr(args, name)
        for scene in scenes if program else ():
            if not args.scenes or scene.name in args.scenes:
                record(host_named(name), program, scene)
    return 0


def record(host: Host, program: str, scene: Scene) -> None:
    box = Path(tempfile.mkdtemp(prefix="record-"))
    try:
        ending = play(host, program, scene, box)
        out = [steady(line, box) for line in (box / "out").read_text("utf-8").splitlines()]
        ending["stderr"] = steady((box / "err").read_text("utf-8"), box).strip()
        if host.name == "codex":
            # Its own remark on a home below a temporary directory.
            ending["stderr"] = re.sub(r"(?m)^WARNING: proceeding.*\n?", "", ending["stderr"])
    finally:
        shutil.rmtree(box, ignore_errors=True)
    directory = STREAMS / host.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{scene.name}.jsonl").write_text("".join(f"{line}\n" for line in out), "utf-8")
    write_ending(directory / "endings.json", scene.name, ending)
    print(
        f"{host.name:7} {scene.name:28} {ending['exit_code']} {ending['signal'] or ''}", flush=True
    )


def play(host: Host, program: str, scene: Scene, box: Path) -> dict[str, Any]:
    project, home, files = box / "project", box / "home", box / "files"
    for directory in (project, home, files):
        directory.mkdir()
    for path, text in scene.files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, "utf-8")
    request = Request(cwd=str(project), session_id=SESSION, **scene.request)
    launch = host.build(request)
    for name, text in launch.files.items():
        (files / name).write_text(text, "utf-8")
    argv = [program, *argv_with_files(launch, str(files))[1:]]
    with FakeModel(*scene.script()) as model:
        env = environment(launch, world(host.name, home, model.url) | dict(scene.env))
        with (box / "out").open("wb") as out, (box / "err").open("wb") as err:
            child = subprocess.Popen(
                argv,
                cwd=project,
                env={name: value for name, value in env.items() if value},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            assert child.stdin is not None
            child.stdin.write(launch.stdin)
            child.stdin.close()
            if scene.cut:
                scene.cut_when(model, project)
                os.kill(child.pid, getattr(signal, scene.cut))
            try:
                child.wait(120)
            finally:
                child.kill()
    code = child.returncode
    asked = {"action": request.action, "kind": request.kind, "words": request.words}
    ended = {"exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None}
    return {**ended, "sent": scene.cut, **asked}


def world(name: str, home: Path, url: str) -> dict[str, str]:
    """An environment with nothing of ours in it; an empty value takes a variable out."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    if name == "claude":
        env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "not-a-key", "IS_SANDBOX": "1"}
        env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        return env
    provider = {"name": '"fake"', "base_url": f'"{url}/v1"', "wire_api": '"responses"'}
    provider |= {"env_key": '"FAKE_KEY"', "request_max_retries": "0", "stream_max_retries": "1"}
    lines = ['model = "fake"', 'model_provider = "fake"', "[model_providers.fake]"]
    lines += [f"{key} = {value}" for key, value in provider.items()]
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("\n".join(lines) + "\n", "utf-8")
    return env | {"FAKE_KEY": "not-a-key"}


def steady(line: str, box: Path) -> str:
    """The line with what changes from run to run made the same."""
    line = line.replace(str(box / "project"), "/project").replace(str(box / "home"), "/home/user")
    line = line.replace(re.sub(r"[^A-Za-z0-9]", "-", str(box)), "-box").replace(str(box), "/box")
    line = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", line)
    line = re.sub(r"/tmp/claude-\d+/", "/tmp/claude/", line)
    line = UUID.sub(lambda found: found[0] if found[0] == SESSION else "an-id", line)
    try:
        event = json.loads(line)
    except ValueError:
        return line
    return json.dumps(trimmed(event), ensure_ascii=False)


def trimmed(value: Any) -> Any:
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: trimmed(item) for key, item in value.items() if key not in DROPPED}
    if "retry_delay_ms" in kept:
        kept["retry_delay_ms"] = kept["retry_delay_ms"] // 500 * 500
    if "slash_commands" in kept:
        # The CLI's own change with every version; the first few and the scene's are enough.
        kept["tools"], own = kept["tools"][:3], kept["slash_commands"]
        builtin = ("compact", "context", "review", "usage")
        kept["slash_commands"] = [name for name in own if name in builtin or name in OWN]
    return kept


OWN = ("broken", "tidy", "ll:tidy")


def write_ending(path: Path, scene: str, ending: Mapping[str, Any]) -> None:
    endings = json.loads(path.read_text("utf-8")) if path.exists() else {}
    endings[scene] = ending
    rows = [f"  {json.dumps(name)}: {json.dumps(endings[name])}" for name in sorted(endings)]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
