"""Warn about actions that do not do what they look like, such as bash features in a script for `sh`,
or must not run twice.

Not here: checks of hosts' options and commands, which need more than a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.checks.references import covered
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import LocatedText
from little_loops.errors import Problem
from little_loops.fsm.actions import BUILTINS, Agent, Builtin, Loop, Shell, is_shells
from little_loops.fsm.schema import CURRENT, ExitCode, StateConfig, worktree_of
from little_loops.light_typing import assert_never
from little_loops.templates.shell.positions import HOLE

# As strings: `re` compiles them when they are first needed.
# A whole word at the start of a command; a longer path is a program, not a slash command.
_SLASH_IN_SCRIPT = (
    r"(?m)(?:(?<!\\\n)^|[;&|({]|\b(?:then|else|do)\s)[ \t]*(/[\w-]+(?::[\w-]+)*)(?=[\s;&|)]|$)"
)
# The start of a sentence, and hardly of a command: a capitalised word, then plain words.
_PROSE = r"[A-Z][a-z]+,? [a-z]+,? [\w$`\"']"
# Options (`--release`), directories (`target/release/`) and longer words do not deploy anything.
_LOOKS_LIKE_A_DEPLOY = (
    r"(?<![\w-])(?:(?:deploy|publish|push|migrate)(?![\w/]|[:-](?:check|status|test|dry|plan)\b)"
    r"|release(?![\w/-]))"
)
_DEPLOY_WORDS = frozenset({"deploy", "publish", "push", "release", "migrate"})
_COMMENT = r"(?m)(?:^|(?<=\s))#.*"
_ONLY_LOOK = (
    r"(?:echo|printf|grep|rg|cat|ls|find|test|\[|pytest|git (?:stash|commit|log|diff|grep))\s"
)
_HARMLESS = r"--dry-run\b|--check\b|--help\b"
# Scripts that may negate a command, or use features of bash.
_NEGATION = r"!\s"
_BASH_SIGNS = ("[[", "((", "<<<", "<(", ">(", "&>", "=(")
_BASH_WORDS = (
    *("pipefail", "function", "select", "declare", "let", "mapfile", "readarray"),
    *("shopt", "source", "typeset"),
)
# When these are negated, an error cannot be mistaken for an answer.
_ONLY_ANSWERS = r"!\s+(?:test\b|\[|\(|\{|command\s+-v|type\b|which\b|true\b|false\b)"
# A program of an agent, and the words with which it works on a prompt and exits.
_AGENTS = {"claude": ("-p", "--print"), "codex": ("exec", "e")}
MOST_READ = 20_000
"""The longest script that is parsed to tell a slash command from a path."""
MOST_IN_ALL = 50_000


def check_scripts(of: Inspection) -> Iterator[Problem]:
    """Warn about slash commands inside a script, which a shell cannot run."""
    for name, what in of.actions.items():
        action = of.loop.states[name].action or ""
        unsure = of.gaps.in_state(name, "action_type")
        if is_shells(what) and "/" in action and not unsure:
            shell = of.loop.states[name].shell or of.loop.shell
            seen = {found[1]: found for found in reversed(_slash_commands(action, shell))}
            for command, found in reversed(seen.items()):
                yield of.inside(
                    "LL305",
                    f"`{shown(command)}` looks like a slash command, but is part of a shell action",
                    LocatedText(action, ("states", name, "action")),
                    found.span(1),
                    "give it its own state, with nothing else in the action",
                    "warning",
                )


def _slash_commands(script: str, shell: str) -> list[re.Match[str]]:
    """Return the words that look like slash commands where a shell expects a command."""
    found = list(re.finditer(_SLASH_IN_SCRIPT, script))
    if not found or len(script) > MOST_READ:
        return []
    from little_loops.templates.shell.reader import read_script  # few scripts have such a word

    marked = script.replace(HOLE, " ")
    for each in reversed(found):
        marked = marked[: each.start(1)] + HOLE + marked[each.end(1) :]
    where = read_script(marked, shell).places
    return [each for each, at in zip(found, where, strict=True) if at.refused == "command"]


def check_shell_features(of: Inspection) -> Iterator[Problem]:
    """Warn about bash features in a script for `sh`, and about `!` hiding errors of a command."""
    read = 0
    for name, action, shell in _scripts_worth_reading(of):
        state = of.loop.states[name]
        read += len(action)
        if read > MOST_IN_ALL:
            of.stop_at(MOST_IN_ALL, "characters of shell scripts with `!` or bash features")
            return
        from little_loops.templates.shell.reader import read_script  # few scripts have these

        found = read_script(covered(action, _references(of, action)), shell)
        text = LocatedText(action, ("states", name, "action"))
        for start, stop, feature in found.bash_only[:1]:
            message = f"`{feature}` is a bash feature, but `sh` runs this action"
            help = "add `shell: bash`"
            yield of.inside("LL315", message, text, (start, stop), help, "warning")
        if _is_judged_by_exit_code(state):
            yield from (
                _negated(of, text, at) for at in found.negated if _can_fail_with_error(action, at)
            )


def _scripts_worth_reading(of: Inspection) -> Iterator[tuple[str, str, str]]:
    """Yield name, script and shell of the states that may negate a command or need bash."""
    for name, action in of.actions.items():
        state = of.loop.states[name]
        script, shell = state.action or "", state.shell or of.loop.shell
        unsure = of.gaps.in_state(name, "action_type", "shell") or of.gaps.in_loop("shell")
        if is_shells(action) and not unsure and _is_worth_reading(script, shell):
            yield name, script, shell


def _is_worth_reading(script: str, shell: str) -> bool:
    """Return whether a script may contain a negation or, unless bash runs it, a bash feature."""
    if shell != "bash" and any(sign in script for sign in _BASH_SIGNS):
        return True
    if "!" in script and re.search(_NEGATION, script):
        return True
    # Most scripts contain none of these, and compiling one pattern for all of them is slow.
    words = () if shell == "bash" else [word for word in _BASH_WORDS if word in script]
    return any(re.search(rf"\b{word}\b", script) for word in words)


def _references(of: Inspection, action: str) -> list[tuple[int, int]]:
    """Return the spans of all references and template errors in an action."""
    found = of.read(action)
    spans = [(each.start, each.end) for each in found.references]
    return spans + [(each.start, each.end) for each in found.errors]


def _is_judged_by_exit_code(state: StateConfig) -> bool:
    """Return whether the state branches on its action's exit code."""
    branches = state.on_pass is not None or state.on_fail is not None
    return branches and isinstance(state.condition, ExitCode | None)


def _can_fail_with_error(action: str, at: int) -> bool:
    """Return whether the command negated at `at` can fail with an error, unlike `test` or `true`."""
    return re.match(_ONLY_ANSWERS, action[at:]) is None


def _negated(of: Inspection, text: LocatedText, at: int) -> Problem:
    """Return the warning that the command negated at `at` also passes if it fails with an error."""
    command = text.text[at:].removeprefix("!").split()[0]
    return of.inside(
        "LL316",
        f"`! {shown(command)} …` also passes if the command fails with an error",
        text,
        (at, at + 1),
        f"test for the exit code you mean: `{shown(command)} …; test $? -eq 1`",
        "warning",
    )


def check_builtins(of: Inspection) -> Iterator[Problem]:
    """Report built-in actions outside a relay, and unknown ones."""
    for name, action in of.actions.items():
        match action:
            case Builtin() if of.loop.paradigm != "relay":
                yield of.error(
                    "LL216",
                    "`action_type: builtin` is reserved for loops that `ll-loop compile` writes",
                    *("states", name, "action_type"),
                    help="use `paradigm: relay`, which compiles to these actions",
                )
            case Builtin() if action.name not in BUILTINS:
                message = f"unknown built-in action `{shown(action.name)}`"
                path = ("states", name, "action")
                yield of.error("LL216", message, *path, help=of.suggest_name(action.name, BUILTINS))
            case Shell() | Agent() | Builtin() | Loop():
                pass
            case _:
                assert_never(action)


def check_prose(of: Inspection) -> Iterator[Problem]:
    """Warn about a prompt for an agent that a shell would run."""
    for name, what in of.actions.items():
        state = of.loop.states[name]
        declared = state.action_type is not None or of.gaps.in_state(name, "action_type")
        action = state.action or ""
        may_be = is_shells(what) and not declared and action[:1].isupper()
        if may_be and re.match(_PROSE, action):
            a_mapping = "write it as `{action: …, action_type: prompt}`"
            yield of.warning(
                "LL313",
                f"the action of state `{name}` looks like a prompt, but a shell would run it",
                *("states", name, "action"),
                help=a_mapping if of.compiled else "add `action_type: prompt`",
                part="value",
            )


def check_agents(of: Inspection) -> Iterator[Problem]:
    """Warn about an agent that a script starts: nothing limits it or restores what it changes."""
    for name, what in of.actions.items():
        state = of.loop.states[name]
        declared = state.action_type is not None or of.gaps.in_state(name, "action_type")
        agent = None if declared or not is_shells(what) else _agent_in(of, name)
        if agent is not None:
            prompt = "`{action: PROMPT, action_type: prompt}`"
            yield of.warning(
                "LL325",
                f"the script of state `{name}` starts `{agent}`, but is not treated as an agent",
                *("states", name, "action"),
                help=f"give its prompt as the action, {prompt}, and its options in `host`; or,"
                " if it should stay a script, add `action_type: shell`",
                part="value",
            )


def _agent_in(of: Inspection, name: str) -> str | None:
    """Return the agent's program that the script of a state starts for one prompt, if any."""
    state = of.loop.states[name]
    script, shell = state.action or "", state.shell or of.loop.shell
    if len(script) > MOST_READ or not any(agent in script for agent in _AGENTS):
        return None
    from little_loops.templates.shell.commands import commands_in  # few scripts start agents
    from little_loops.templates.shell.rules import findings

    for words in commands_in(covered(script, _references(of, script)), shell):
        for at, finding in findings(words).items():
            agent = words[at].text.rpartition("/")[2] if finding.role == "command" else ""
            if any(word.text in _AGENTS.get(agent, ()) for word in words[at + 1 :]):
                return agent
    return None


def check_deploys(of: Inspection) -> Iterator[Problem]:
    """Warn about actions that must not run twice, if nothing says what to do after an interruption."""
    loop = of.loop
    if loop.on_interrupt != CURRENT or loop.on_error is not None:
        return
    if of.gaps.in_loop("on_interrupt", "on_error"):
        return
    for name in of.actions:
        state = loop.states[name]
        handled = state.on_interrupt is not None or state.on_error is not None
        handled |= worktree_of(state) is not None  # it changes nothing outside
        if not handled and not of.gaps.unsure(name) and looks_like_a_deploy(name, state):
            yield of.warning(
                "LL306",
                f"state `{name}` probably must not run twice, but a resume after a crash would run it again",
                *("states", name),
                help="add `on_interrupt: <state>` (or `$error`), or `on_error: <state>`; "
                "use `on_interrupt: $current` if running it again is safe",
            )


def looks_like_a_deploy(name: str, state: StateConfig) -> bool:
    """Return whether a state deploys something, by its name or by a command in its action."""
    if not _DEPLOY_WORDS.isdisjoint(name.lower().replace("_", "-").split("-")):
        return True
    action = (state.action or "").lower()
    if not any(word in action for word in _DEPLOY_WORDS):
        return False
    commands = re.split(r"[;&|\n]+", re.sub(_COMMENT, "", action))
    return any(_deploys(each.strip()) for each in commands)


def _deploys(command: str) -> bool:
    """Return whether a single command deploys something."""
    if re.match(_ONLY_LOOK, command) or re.search(_HARMLESS, command):
        return False
    return re.search(_LOOKS_LIKE_A_DEPLOY, command) is not None
