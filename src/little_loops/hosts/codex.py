"""The host `codex`: `codex exec`, with one JSON event per line.

It has no slash commands, no limits on turns or cost, and no rules for single tools; its sandbox
restricts it. It chooses its own session id.

Not here: what the events mean (`codex_reader`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.fsm.schema import HostOptions
from little_loops.hosts import verdicts
from little_loops.hosts.base import (
    NOTHING,
    Launch,
    Probe,
    Request,
    Run,
    Which,
    ask_version,
    file_place,
    int_term_kill,
)
from little_loops.hosts.codex_reader import CodexReader

BYPASS = ("bypassPermissions", "danger-full-access")
# The nearest sandbox for each of Claude's modes, and codex's own names.
SANDBOX = {
    "acceptEdits": "workspace-write",
    "auto": "workspace-write",
    "workspace-write": "workspace-write",
    "default": "read-only",
    "dontAsk": "read-only",
    "plan": "read-only",
    "read-only": "read-only",
}
SCHEMA_FILE = "verdict.schema.json"

UNKNOWN = ("allow", "deny", "max_turns", "max_cost_usd")
ABOUT_PERMISSIONS = ("-s", "--sandbox", "-a", "--ask-for-approval", "--approve-for-me")
PERMISSION_FLAGS = (*ABOUT_PERMISSIONS, "--full-auto", "--yolo", "--ignore-rules")
PERMISSION_SETTINGS = ("sandbox", "approval", "permission", "default_permissions")
OURS = ("--json", "--output-schema", "-m", "--model", "-C", "--cd", "--worktree", "--", "-")


class CodexHost:
    name = "codex"
    has_slash = False
    counts = ("max_tokens",)

    def probe(self, which: Which, run: Run, command: Sequence[str] = ()) -> Probe:
        hint = "install it with `npm install -g @openai/codex`"
        return ask_version("codex", hint, which, run)

    def recognises(self, action: str) -> bool:
        return False

    def needs_consent(self, permission_mode: str | None) -> bool:
        return permission_mode is None or permission_mode in BYPASS

    def check_options(self, options: HostOptions) -> list[str]:
        """Return the problems with these options, as messages."""
        problems = [
            f"`codex` has no `{name}`" for name in UNKNOWN if getattr(options, name) is not None
        ]
        mode = options.permission_mode
        if mode is not None and mode not in SANDBOX and mode not in BYPASS:
            listed = ", ".join(f"`{known}`" for known in (*SANDBOX, *BYPASS))
            problems.append(f"`codex` has no permission mode `{mode}`; known: {listed}")
        if options.command is not None:
            problems.append("`command` is for `host: command`")
        return problems + objections(options.args or ())

    def read_only(self, options: HostOptions) -> HostOptions | None:
        # Its own arguments could configure servers that do more than read.
        return options._replace(permission_mode="read-only", args=None)

    def build(self, request: Request) -> Launch:
        """Return the command line, environment, input and files for a request."""
        argv = ["codex", "exec", "--json", "--skip-git-repo-check", *self._sandbox(request)]
        if request.model is not None:
            argv.append(f"--model={request.model}")
        files = NOTHING
        if request.words:
            files = {SCHEMA_FILE: verdicts.schema_text(request.words)}
            argv += ["--output-schema", file_place(SCHEMA_FILE)]
        argv += [*request.args, "-"]
        stdin = request.action.encode("utf-8", "replace")
        return Launch(tuple(argv), dict(request.env), stdin, session_id=None, files=files)

    def _sandbox(self, request: Request) -> list[str]:
        """Return the options for the sandbox, or for running without one."""
        if self.needs_consent(request.permission_mode) and request.skip_permissions:
            return ["--dangerously-bypass-approvals-and-sandbox"]
        return ["-s", SANDBOX.get(request.permission_mode or "", "read-only")]

    def reader(self, request: Request) -> CodexReader:
        return CodexReader(request)

    def stop_plan(self, kill_grace_s: float) -> tuple[tuple[int, float], ...]:
        return int_term_kill(kill_grace_s)


def objections(args: Sequence[str]) -> list[str]:
    """Return the problems with `args`; `-c key=value` can set permissions, too."""
    problems = []
    for before, word in zip(("", *args), args, strict=False):
        flag, setting = word.split("=", 1)[0], ""
        if before in ("-c", "--config"):
            setting = word
        elif flag == "--config":
            setting = word[len("--config=") :]
        elif word.startswith("-c") and not word.startswith("--"):
            setting = word[2:].lstrip("=")
        if flag in PERMISSION_FLAGS or "dangerously" in flag or sets_permissions(setting):
            problems.append(f"`{word}` in `args`: permissions are set by `permission_mode`")
        elif flag in OURS:
            problems.append(
                f"`{flag}` is not allowed in `args`: the engine sets it, or there is a separate option for it"
            )
    return problems


def sets_permissions(setting: str) -> bool:
    return setting.strip().startswith(PERMISSION_SETTINGS)


HOST = CodexHost()
