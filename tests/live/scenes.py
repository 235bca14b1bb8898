"""The scenes that are recorded: one for each way an agent's turn can end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.fake_model import Answer, Call, Cut, Fail, FakeModel, Hang, Rule, Say, Sick
from tests.live.fake_replies import Reply

SESSION = "11111111-1111-4111-8111-111111111111"
WORDS = ("pass", "fail")


def asked(model: FakeModel, project: Path) -> None:
    """Wait until the agent waits for the model."""
    assert model.wait_for(lambda so_far: len(so_far) > 0)


def in_a_tool(model: FakeModel, project: Path) -> None:
    """Wait until the agent's tool runs."""
    deadline = time.monotonic() + 30
    while not (project / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Scene(NamedTuple):
    name: str
    script: Callable[[], list[Rule]]
    request: Mapping[str, Any]
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    cut: str = ""
    cut_when: Callable[[FakeModel, Path], None] = asked


def scene(
    name: str, *replies: Reply, rules: Mapping[str, tuple[Reply, ...]] = {}, **rest: Any
) -> Scene:
    """A scene for the prompt `go`; what is no field of a scene is an option of the request."""

    def script() -> list[Rule]:
        others = [Rule(words, *then) for words, then in rules.items()]
        return [*others, Rule("go", *replies)] if replies else others

    own = {key: rest.pop(key) for key in Scene._fields if key in rest}
    options = {"action": "go", "kind": "prompt", "permission_mode": "acceptEdits", **rest}
    return Scene(name, script, options, **own)


def bash(command: str, **given: Any) -> Call:
    return Call("Bash", {"command": command, "description": "a command", **given})


def write(path: str) -> Call:
    return Call("Write", {"file_path": path, "content": "x = 1\n"}, text="I will write it.")


def settings(**hooks: str) -> tuple[str, ...]:
    """Arguments that add one shell hook for each event."""
    table = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in hooks.items()
    }
    return ("--settings", json.dumps({"hooks": table}))


def big(call: Call, tokens: int) -> Call:
    return call._replace(tokens=(tokens, 20))


LIMITED = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "1790000000",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
}
TOO_LONG = Fail(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
POOR = Fail(400, "invalid_request_error", "Your credit balance is too low to access the API.")
STOP_JSON = """echo '{"continue":false,"stopReason":"enough"}'"""
COMMAND = "---\ndescription: a command\nallowed-tools: Bash\n---\n"
PLUGIN = {
    "plugin/.claude-plugin/plugin.json": json.dumps({"name": "ll", "version": "1.0.0"}),
    "plugin/commands/tidy.md": COMMAND + "tidy up: $ARGUMENTS\n",
}
NO_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "0"}
ALL: dict[str, Any] = {"permission_mode": None, "skip_permissions": True}

CLAUDE_SCENES = (
    scene("success", Say("It is done.")),
    scene("edits_a_file", write("src/models.py"), Say("Written.")),
    scene("slash_command", rules={"tidy up": (Say("Tidied."),)}, action="/tidy src", kind="slash",
          files={".claude/commands/tidy.md": COMMAND + "tidy up: $ARGUMENTS\n"}),
    scene("plugin_command", rules={"tidy up": (Say("Tidied."),)}, action="/ll:tidy src",
          kind="slash", files=PLUGIN, plugin_dirs=("plugin",)),
    scene("unknown_command", action="/tidi src", kind="slash",
          files={".claude/commands/tidy.md": COMMAND + "tidy up\n"}),
    scene("unavailable_command", action="/help", kind="slash"),
    scene("builtin_command", action="/usage", kind="slash"),
    scene("prompt_like_a_command", rules={"/tidi": (Say("A path, I think."),)}, action="/tidi src"),
    scene("command_failed", action="/broken now", kind="slash", **ALL,
          files={".claude/commands/broken.md": COMMAND + "run !`exit 3`\n"}),
    scene("permission_denied", write("src/models.py"), Say("I could not."), permission_mode="plan"),
    scene("permission_allowed", bash("touch a, b"), write("d.txt"), Say("Done."),
          permission_mode="dontAsk", allow=("Bash(touch a, b)", "Write"), deny=("Edit",)),
    scene("settings_cannot_skip", bash("touch a"), Say("I could not."), permission_mode="default",
          args=("--settings", json.dumps({"permissions": {"defaultMode": "bypassPermissions"}}))),
    scene("hook_denies", write("a.txt"), Say("I could not."),
          args=settings(PreToolUse="echo not now >&2; exit 2")),
    scene("tool_absent", write("a.txt"), Say("I could not."), deny=("Write",)),
    scene("hook_stops", write("a.txt"), Say("never said"), args=settings(PostToolUse=STOP_JSON)),
    scene("stop_hook_prevents", Say("It is done."), args=settings(Stop=STOP_JSON)),
    scene("stop_hook_refuses", Say("It is done."), args=settings(Stop="echo not yet >&2; exit 2"),
          env={"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "2"}),
    scene("int_while_waiting", Hang(), cut="SIGINT"),
    scene("int_in_a_tool", bash("touch started; sleep 30"), Say("never said"), **ALL,
          cut="SIGINT", cut_when=in_a_tool),
    scene("term", Hang(), cut="SIGTERM"),
    scene("hup", Hang(), cut="SIGHUP"),
    scene("kill", Hang(), cut="SIGKILL"),
    scene("max_turns", bash("pwd"), max_turns=2),
    scene("max_budget", bash("pwd"), max_cost_usd=0.0005),
    scene("schema_never_met", Answer({"verdict": "maybe"}), words=WORDS),
    scene("verdict", Answer({"verdict": "fail", "reason": "two errors left"}, "I looked."), words=WORDS),
    scene("verdict_after_a_nudge", Say("CONTEXT_HANDOFF: later"),
          Answer({"verdict": "pass", "reason": "as asked"}), words=WORDS),
    scene("verdict_line", Say("All tests pass.\n\n**VERDICT: pass**"), words=WORDS),
    scene("verdict_word_unknown", Say("VERDICT: maybe"), words=WORDS),
    scene("no_verdict", Say("Looks good to me."), words=WORDS),
    scene("401", Fail(401, "authentication_error", "invalid x-api-key")),
    scene("401_many_retries", Fail(401, "authentication_error", "invalid x-api-key"),
          env={"CLAUDE_CODE_MAX_RETRIES": "3"}),
    scene("not_logged_in", env={"ANTHROPIC_API_KEY": ""}),
    scene("403", Fail(403, "permission_error", "not for you")),
    scene("404_model", Fail(404, "not_found_error", "model: none"), model="none"),
    scene("429", Fail(429, "rate_limit_error", "slow down")),
    scene("429_recovers", Fail(429, "rate_limit_error", "slow down", times=1), Say("It is done.")),
    scene("429_subscription", Fail(429, "rate_limit_error", "slow down", LIMITED),
          env={"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "not-a-token"}),
    scene("500", Fail(500, "api_error", "oops")),
    scene("529", Fail(529, "overloaded_error", "Overloaded")),
    scene("connection_refused", env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}),
    scene("api_timeout", Hang(), env={"API_TIMEOUT_MS": "1000", **NO_RETRY}),
    scene("prompt_too_long", TOO_LONG),
    scene("prompt_too_long_midway", bash("pwd"), bash("pwd"), TOO_LONG,
          rules={"TEXT ONLY": (Say(""),)}),
    scene("context_full", big(bash("pwd"), 199_000), Say("never said"),
          env={"DISABLE_AUTO_COMPACT": "1", "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}),
    scene("compacts_and_goes_on", bash("pwd"), big(bash("pwd"), 150_000), Say("never said"),
          rules={"TEXT ONLY": (Say("<summary>halfway</summary>"),),
                 "being continued": (Say("It is done."),)},
          env={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}),
    scene("credit_too_low", POOR),
    scene("refusal", Say("I would rather not.", stop="refusal")),
    scene("max_tokens", Say("The first half", stop="max_tokens"), Say("and the rest.")),
    scene("overloaded_in_the_stream", Sick()),
    scene("stream_cut", Cut("The first", times=1), Say("It is done.")),
    scene("bad_flag", args=("--no-such-flag",)),
    scene("bad_session_id", args=("--session-id=none",)),
    scene("mcp_server_fails", Say("It is done."),
          args=("--mcp-config", json.dumps({"mcpServers": {"db": {"command": "/no/such"}}}))),
    scene("plugin_missing", Say("It is done."), plugin_dirs=("no-such-plugin",)),
    scene("background_ends", bash("sleep 1; echo hi", run_in_background=True), Say("Started."),
          rules={"task-notification": (Say("It has ended."),)}, **ALL),
    scene("background_left", bash("sleep 60", run_in_background=True), Say("Started."), **ALL),
    scene("subagent", Call("Task", {"description": "look", "prompt": "look around",
                                    "subagent_type": "general-purpose"}), Say("All is well."),
          rules={"look around": (bash("pwd"), Say("CONTEXT_HANDOFF: from a subagent"))}, **ALL),
    scene("tool_quotes_a_marker", bash("echo CONTEXT_HANDOFF: from a tool"), Say("Nothing new."), **ALL),
)  # fmt: skip


def run(command: str, text: str = "") -> Call:
    return Call("exec_command", {"cmd": command}, text)


CODEX_SCENES = (
    scene("success", Say("It is done.")),
    scene("runs_a_command", run("echo hi > a.txt", "I will write it."), Say("Written.")),
    scene("runs_unconfined", run("echo hi > a.txt"), Say("Written."), **ALL),
    scene("read_only", run("echo hi > a.txt"), Say("I could not."), permission_mode="plan"),
    scene("slash_is_text", rules={"/review": (Say("A path, I think."),)}, action="/review it"),
    scene("verdict", run("pwd", "I look."), Answer({"verdict": "fail", "reason": "two errors"}),
          words=WORDS),
    scene("verdict_only", Answer({"verdict": "pass", "reason": "as asked"}), words=WORDS),
    scene("no_verdict", Say("Looks good to me."), words=WORDS),
    scene("401", Fail(401, "invalid_api_key", "Incorrect API key provided")),
    scene("no_key", env={"FAKE_KEY": ""}),
    scene("403", Fail(403, "forbidden", "not for you")),
    scene("404_model", Fail(404, "model_not_found", "The model `none` does not exist")),
    scene("429", Fail(429, "rate_limit_exceeded", "slow down")),
    scene("429_in_the_stream", Sick("rate_limit_exceeded", "Rate limit reached.")),
    scene("usage_limit", Fail(429, "usage_limit_reached", "limit")),
    scene("quota", Fail(429, "insufficient_quota", "You exceeded your current quota")),
    scene("500", Fail(500, "server_error", "oops")),
    scene("overloaded_in_the_stream", Sick("server_is_overloaded", "busy")),
    scene("context_full", Sick("context_length_exceeded", "too long")),
    scene("context_full_400", Fail(400, "context_length_exceeded", "Your input exceeds the limit")),
    scene("stream_cut", Cut("The first")),
    scene("stream_cut_once", Cut("The first", times=1), Say("It is done.")),
    scene("int", Hang(), cut="SIGINT"),
    scene("term", Hang(), cut="SIGTERM"),
    scene("bad_flag", args=("--no-such-flag",)),
    scene("empty_prompt", action=""),
)  # fmt: skip
