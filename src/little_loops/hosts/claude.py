"""The host `claude`: Claude Code in print mode, with one JSON event per line.

The prompt is passed by stdin: that has no practical length limit, is not visible in `ps`, and no
option can swallow it. Options with a value are written `--name=value`, because some of them would
also take the words that follow.

Not here: what the events mean (`claude_reader`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from little_loops.fsm.schema import HostOptions
from little_loops.hosts import verdicts
from little_loops.hosts.base import (
    Launch,
    Probe,
    Request,
    Run,
    Which,
    ask_version,
    int_term_kill,
)
from little_loops.hosts.claude_reader import ClaudeReader
from little_loops.templates.parse import SLASH_COMMAND

MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
BYPASS = "bypassPermissions"

ABOUT_PERMISSIONS = (
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
    "--permission-mode",
    "--permission-prompt-tool",
    "--allowedTools",
    "--allowed-tools",
    "--disallowedTools",
    "--disallowed-tools",
)
# Flags that the output stream, the session or the ending depend on.
OURS = (
    *("-p", "--print", "--output-format", "--input-format", "--verbose", "--json-schema"),
    *("--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr"),
    *("--bg", "--background", "--no-session-persistence", "--tmux", "--max-turns"),
    *("--max-budget-usd", "--model", "--"),
)

# The default is ten retries, which means three minutes of silence on a bad key. Two survive a
# short outage and keep the model fallback (after three overloads); the engine does longer waits.
MAX_RETRIES = "2"


# Tools whose work the loop cannot see: it continues after the turn, or in another tree.
HIDDEN_TOOLS = ("CronCreate", "EnterWorktree", "Monitor", "ScheduleWakeup", "Workflow")


WRITING_TOOLS = ("Bash", "Edit", "MultiEdit", "NotebookEdit", "Write")


class ClaudeHost:
    name = "claude"
    has_slash = True
    counts = ("max_cost_usd", "max_tokens")

    def probe(self, which: Which, run: Run, command: Sequence[str] = ()) -> Probe:
        hint = "install it with `npm install -g @anthropic-ai/claude-code`"
        return ask_version("claude", hint, which, run)

    def recognises(self, action: str) -> bool:
        return re.match(SLASH_COMMAND, action) is not None

    def needs_consent(self, permission_mode: str | None) -> bool:
        return permission_mode in (None, BYPASS)

    def check_options(self, options: HostOptions) -> list[str]:
        """Return the problems with these options, as messages."""
        problems = []
        mode = options.permission_mode
        if mode is not None and mode not in MODES:
            listed = ", ".join(f"`{known}`" for known in MODES)
            problems.append(f"`claude` has no permission mode `{mode}`; known: {listed}")
        if options.command is not None:
            problems.append("`command` is for `host: command`")
        return problems + [found for word in options.args or () if (found := objection(word))]

    def read_only(self, options: HostOptions) -> HostOptions | None:
        """Return the options for a turn in the mode `plan`, without tools that write or run."""
        # Its own arguments could bring hooks, plugins or servers that do more than read.
        deny = (*(options.deny or ()), *WRITING_TOOLS)
        return options._replace(permission_mode="plan", allow=None, deny=deny, args=None)

    def build(self, request: Request) -> Launch:
        """Return the command line, environment and input for a request."""
        argv = ["claude", "-p", "--output-format=stream-json", "--verbose"]
        argv.append(f"--session-id={request.session_id}")
        argv += self._permissions(request)
        if request.model is not None:
            argv.append(f"--model={request.model}")
        if request.words:
            argv.append(f"--json-schema={verdicts.schema_text(request.words)}")
        if request.max_turns is not None:
            argv.append(f"--max-turns={request.max_turns}")
        if request.max_cost_usd is not None:
            argv.append(f"--max-budget-usd={request.max_cost_usd:f}")
        argv += [f"--plugin-dir={directory}" for directory in request.plugin_dirs]
        argv += request.args
        return Launch(
            argv=tuple(argv),
            env={"CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1", **request.env},
            stdin=self._prompt(request).encode("utf-8", "replace"),
            session_id=request.session_id,
            env_unless_set={"CLAUDE_CODE_MAX_RETRIES": MAX_RETRIES},
        )

    def _permissions(self, request: Request) -> list[str]:
        """Return the options for the permission mode and for allowed and denied tools.

        `HIDDEN_TOOLS` are denied unless the request allows them.
        """
        # One option per rule, because a rule may contain commas and spaces.
        rules = [f"--allowedTools={rule}" for rule in request.allow]
        hidden = [name for name in HIDDEN_TOOLS if name not in request.allow]
        rules += [f"--disallowedTools={rule}" for rule in (*request.deny, *hidden)]
        if not self.needs_consent(request.permission_mode):
            return [f"--permission-mode={request.permission_mode}", *rules]
        if request.skip_permissions:
            return ["--dangerously-skip-permissions", *rules]
        return ["--permission-mode=default", *rules]

    def _prompt(self, request: Request) -> str:
        """Return the text for stdin, so that the CLI sees a slash command only if it is meant as
        one."""
        if request.kind == "slash":
            return request.action.lstrip()  # only recognised at the very start
        # A prompt that only looks like a slash command: a newline before it hides that.
        return f"\n{request.action}" if self.recognises(request.action) else request.action

    def reader(self, request: Request) -> ClaudeReader:
        return ClaudeReader(request)

    def stop_plan(self, kill_grace_s: float) -> tuple[tuple[int, float], ...]:
        return int_term_kill(kill_grace_s)


def objection(word: str) -> str | None:
    """Return why this word is not allowed in `args`; None if it is."""
    flag = word.split("=", 1)[0]
    if flag[:1] == "-" and flag[1:2] in ("p", "c", "r"):
        flag = flag[:2]  # short options can be combined
    if flag in ABOUT_PERMISSIONS or "dangerously" in flag:
        return f"`{flag}` in `args`: permissions are set by `permission_mode`, `allow` and `deny`"
    if flag in OURS:
        return f"`{flag}` is not allowed in `args`: the engine sets it, or there is a separate option for it"
    return None


HOST = ClaudeHost()
