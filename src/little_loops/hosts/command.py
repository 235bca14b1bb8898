"""The host `command`: any program, with the prompt in its arguments.

`{prompt}` in the command is replaced by the text, which stays one argument however long it is; a
command without the placeholder gets the text by stdin. The output is read as plain text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.fsm.schema import HostOptions
from little_loops.hosts import verdicts
from little_loops.hosts.base import Launch, Probe, Request, Run, Which, int_term_kill
from little_loops.hosts.plain import PlainReader
from little_loops.templates.shell.positions import HOLE
from little_loops.templates.shell.rules import findings
from little_loops.templates.shell.words import Word

PLACE = "{prompt}"

# Options that an unknown program cannot be given.
UNKNOWN = ("model", "permission_mode", "allow", "deny", "max_turns", "max_cost_usd", "args")


class CommandHost:
    name = "command"
    has_slash = False
    counts = ()

    def probe(self, which: Which, run: Run, command: Sequence[str] = ()) -> Probe:
        """Look for the command's program on PATH; it is not run, so its version stays unknown."""
        if not command:
            return Probe(None, None, False, "`host: command` needs a `command`")
        path = which(command[0])
        if path is None:
            return Probe(None, None, False, f"`{command[0]}` is not on PATH")
        return Probe(path, None, True)

    def recognises(self, action: str) -> bool:
        return False

    def needs_consent(self, permission_mode: str | None) -> bool:
        return False  # the author wrote the whole command, as in a shell action

    def check_options(self, options: HostOptions) -> list[str]:
        """Return the problems with these options, as messages."""
        problems = [
            f"`host: command` does not support `{name}`; pass the option in `command` instead"
            for name in UNKNOWN
            if getattr(options, name) is not None
        ]
        if not options.command:
            problems.append(f"`host: command` needs a `command` that contains `{PLACE}`")
        elif not any(PLACE in word for word in options.command[1:]):
            problems.append(f"`command` does not contain `{PLACE}`, the place for the prompt")
        elif (runs := _runs_the_prompt(options.command)) is not None:
            problems.append(
                f"`{runs}` would run `{PLACE}` as code; "
                f"""pass it as an argument: `[sh, -c, 'my-agent "$1"', sh, "{PLACE}"]`"""
            )
        return problems

    def read_only(self, options: HostOptions) -> HostOptions | None:
        return None  # nothing is known about the program

    def build(self, request: Request) -> Launch:
        """Return the user's command with the prompt in it, or as its input.

        If a verdict is wanted, the prompt ends with a request for it.
        """
        prompt = request.action
        if request.words:
            prompt = f"{prompt}\n\n{verdicts.request_line(request.words)}"
        placed = any(PLACE in word for word in request.command)
        argv = tuple(word.replace(PLACE, prompt) for word in request.command)
        stdin = b"" if placed else prompt.encode("utf-8", "replace")
        return Launch(argv, dict(request.env), stdin, session_id=None)

    def reader(self, request: Request) -> PlainReader:
        program = os.path.basename(request.command[0]) if request.command else self.name
        return PlainReader(request, program)

    def stop_plan(self, kill_grace_s: float) -> tuple[tuple[int, float], ...]:
        return int_term_kill(kill_grace_s)


def _runs_the_prompt(command: Sequence[str]) -> str | None:
    """Return the program that would run the prompt, which is data, as code; None if there is none."""
    words = [Word(word.replace(PLACE, HOLE), bare=False) for word in command]
    found = [one for at, one in findings(words).items() if HOLE in words[at].text]
    return next((one.of for one in found if one.role in ("command", "program")), None)


HOST = CommandHost()
