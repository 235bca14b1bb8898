"""The pages on exit codes, error codes, the environment and interpolation, from the program's own tables."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.codes import ErrorCode, catalogue
from little_loops.cli.topics import CODES, FORMS, GIVEN, MODIFIER_HELP, READ, endings
from little_loops.definitions.settings import SETTINGS
from little_loops.hosts.base import SESSION_VARIABLES
from little_loops.reporting.masking import ENDINGS, PARTS, SHORTEST
from little_loops.templates.parse import FIELDS, NAMESPACES, RESULT_FIELDS, Reference, classify
from tools.markdown import code, fenced, sentence, table

# ── exit codes ─────────────────────────────────────────────────────────────────────────────────


def exit_codes_page() -> Iterator[str]:
    yield from ("# Exit codes", "")
    yield from table(("code", "meaning"), [(str(k), sentence(v)) for k, v in CODES.items()])
    yield from ("Any other signal that stops a run gives 128 plus its number.", "")
    yield from ("## How a run can end", "")
    rows = [(ending, code(status), number, after) for ending, status, number, after in endings()]
    yield from table(("ending", "status", "exit code", "`ll-loop resume`"), rows)
    yield (
        'Only a run that reached a success state is reported as "completed". `ll-loop wait NAME` exits with the run\'s exit code, and so does '
        "`ll-loop status NAME --exit-code`, which exits with 5 while the run is running. `ll-loop status NAME` exits with 0 whenever it could print the status."
    )
    yield (
        "A run whose process was killed has no exit code. It is shown as interrupted (crashed), `wait` exits with 1, and it can be resumed."
    )


# ── error codes ────────────────────────────────────────────────────────────────────────────────

GROUPS = {
    "LL0": "The file as YAML",
    "LL1": "Keys, values and names",
    "LL2": "The machine",
    "LL3": "Warnings",
    "LL4": "Templates and the shell",
    "LL5": "Tests of loops",
}


def error_codes_page() -> Iterator[str]:
    codes = catalogue()
    yield from ("# Error codes", "")
    yield "These are the problems that `ll-loop validate` reports. Codes keep their meaning in later versions. `ll-loop explain LL201` prints an entry."
    yield "A loop with warnings can run; `validate --strict` turns warnings into errors."
    yield ""
    for group, title in GROUPS.items():
        yield from (f"## {title}", "")
        for each in codes.values():
            if each.code.startswith(group):
                yield from _code_part(each)


def _code_part(entry: ErrorCode) -> Iterator[str]:
    yield from (f"### {entry.code}: {entry.title}", "", " ".join(entry.text.split()), "")
    for title, example, language in (
        ("Wrong", entry.wrong, "yaml wrong"),
        ("Right", entry.right, "yaml"),
    ):
        if entry.wrong and example:
            yield from (f"{title}:", "")
            yield from fenced(example, language)


# ── environment ────────────────────────────────────────────────────────────────────────────────

PRECEDENCE = """\
A setting is taken from the first of these that sets it: the flag, the `LL_*` variable, the loop file, `.loops/.config.yaml` (for the project), `little-loops/config.yaml` in
`$XDG_CONFIG_HOME` or `~/.config` (for you), the default. Both config files list settings by name:
"""
CONFIG = "# .loops/.config.yaml\nhost: {name: claude, model: sonnet}\nmax_cost_usd: 10\n"


SLOTS = """\
Your own config file can also limit how many agents run at the same time on this machine, across all projects: `agents: {slots: 3}`. While an agent has
to wait, `status` shows which ones it is waiting for. Agents start in order of arrival, and waiting does not count for `timeout`. A loop that an agent starts works within that
agent's slot, one turn at a time.

Both files can set a [budget](../howto/run-overnight.md#set-a-budget): `budget: {day: 20, week: 80, launches_hour: 30, turn: 1, when_reached: pause}`. All budgets that
apply are enforced.

Both files can also limit the disk space that the [snapshots](../explanation/proof.md) of a project use: `trees: 2GB` (default: `500MB`; the project's own file
comes first). If they use more than that when a run ends, the snapshots of the oldest runs are deleted. A run that can still be continued keeps its snapshots."""


def environment_page() -> Iterator[str]:
    yield from ("# Environment", "", "## What `ll-loop` reads", "")
    yield from table(("variable", "meaning"), [(_coded(k), sentence(v)) for k, v in READ.items()])
    yield from ("## Settings", "", *PRECEDENCE.splitlines(), "")
    yield from fenced(CONFIG, "yaml")
    rows = [(code(name), code(f"LL_{name.upper()}")) for name in SETTINGS]
    yield from table(("setting", "variable"), rows)
    yield "Config files can also set defaults for each key of [`evidence`](fields.md#evidence)."
    yield from ("", *SLOTS.splitlines())
    yield from ("", "## What an action gets", "")
    yield from ("In addition to the caller's environment and `env`:", "")
    yield from table(("variable", "meaning"), [(_coded(k), sentence(v)) for k, v in GIVEN.items()])
    yield (
        "A turn of a relay also gets the variables on the [return-metadata page](return-metadata.md#what-a-turn-receives)."
    )
    yield "stdin is empty. The working directory is the project, or `cwd`."
    yield ""
    yield f"These variables are removed, so that an agent does not believe that it runs inside another agent: {', '.join(map(code, SESSION_VARIABLES))}."
    yield from ("", "## Secrets", "")
    names = [f"`*{end}`" for end in ENDINGS] + [f"`*{part}*`" for part in PARTS]
    yield (
        f"The values of variables whose names look secret ({', '.join(names)}), if they have {SHORTEST} or more characters, are shown as `***` in events, logs and on the "
        "screen. They are not masked in the run's own files (state, `run.json`, outputs), which only you can read."
    )


def _coded(names: str) -> str:
    return ", ".join(code(name) for name in names.split(", "))


# ── interpolation ──────────────────────────────────────────────────────────────────────────────

INTERPOLATION = """\
`${namespace.name}` is replaced just before it is used: in `action`, in the values of `context` and `env`, and in a condition's `source`, `target`, `pattern`, `path` and
`tolerance`. Anywhere else it is an error. A name that does not exist is an error too: `ll-loop validate` reports it if it can be known in advance, otherwise the run gives the verdict `error`.
"""
KINDS_INTRO = """\
In a shell action it matters where a value comes from. **code** is your own text, and becomes part of the script as you wrote it. **inert** values come
from the engine and are harmless. **data** is everything else: it is passed to the script in an environment variable, and is never run as code;
[values and the shell](../explanation/values-and-the-shell.md) explains how. In a prompt or a slash command, every value is plain text.
"""
MEANINGS = {
    "context": "your variables; a state's override the loop's",
    "env": "an environment variable, or empty if it is not set",
    "state.name": "the name of the state",
    "state.iteration": "the number of the iteration, from 1",
    "state.attempt": "the number of the attempt at this step, from 1",
    "loop.name": "the loop's name",
    "loop.started_at": "when the run started, in UTC",
    "loop.elapsed_ms": "running time in milliseconds",
    "loop.elapsed": "running time as text, such as `2m 34s`",
    "loop.cycle": "the number of the cycle of a `maintain` loop",
    "loop.run_id": "the id of the run",
    "loop.run_dir": "a directory for this run only",
    "loop.continuation": "the notes of an earlier session that handed off",
    "loop.answer": "the text of the last `ll-loop approve` or `ll-loop reject`; empty before",
    "output": "the action's stdout without one trailing newline; for an agent, its last text",
    "stderr": "the action's stderr",
    "exit_code": "its exit code; for an agent 0 (pass), 1 (fail) or 2 (error)",
    "duration_ms": "its duration in milliseconds",
    "file": "the path of a file with the whole output",
    "stderr_file": "the path of a file with all of its stderr",
    "log_file": "the path of a file with both streams in order of arrival, without colour codes",
    "stream_file": "for an agent, the path of a file with the raw events of its program",
    "structured": "an agent's structured answer; `structured.key` is a value in it",
    "structured_file": "for an agent, the path of a file with its structured answer as JSON",
    "session_id": "the id of the agent's session",
    "cost_usd": "the cost of the agent in US dollars",
    "turns": "the number of the agent's turns",
    "status": "for a state that starts a loop: the status of that run, such as `completed`",
    "reason": "for a state that starts a loop: why that run ended, such as `max_iterations`",
    "final_state": "for a state that starts a loop: the last state of that run",
    "iterations": "for a state that starts a loop: the iterations of that run",
    "result": "for a state that starts a loop: `result.NAME` is a value of that loop's `result`",
    "total": "for a state with branches: how many there were",
    "passed": "for a state with branches: how many of them passed",
    "failed": "for a state with branches: how many did not pass",
    "branch.index": "in a state with branches: the position of the branch, from 0",
    "branch.name": "in a state with branches: the name of the branch",
    "branch.item": "with `for_each`: the item, by the name in `as`; `item.key` is a value in it",
    "branch.KEY": "with `matrix`: the value for this key",
    "merge": "for a state with a worktree: the merged commit, and the branches that were left out, with the reasons",
    "prev.state": "the state of the last action",
}


def interpolation_page() -> Iterator[str]:
    yield from ("# Interpolation", "", *INTERPOLATION.splitlines(), "")
    yield from ("## Values", "")
    yield from table(("reference", "value", "kind in a shell"), _value_rows())
    yield (
        "`captured.NAME` is the result of the state with that name, or of the state with `capture: NAME`. `prev` is the result of the last action that ran. "
        "Numbers, texts and booleans are inserted unchanged, null as nothing, lists and mappings as JSON."
    )
    yield from ("", "## Forms", "")
    forms = [(_forms(k), sentence(v)) for k, v in FORMS.items()]
    forms += [(code(f"${{x.y:{name}}}"), sentence(text)) for name, text in MODIFIER_HELP.items()]
    yield from table(("written", "meaning"), forms)
    yield from (
        "You can combine a modifier and a fallback: `${x.y:q:-none}`. References do not nest, and inserted values are never scanned for references.",
        "",
    )
    yield from ("## Code, inert, data", "", *KINDS_INTRO.splitlines())


def _forms(text: str) -> str:
    return code(text) if text.count("${") < 2 else ", ".join(map(code, text.split()))


OF_BRANCH = ("index", "name", "item", "KEY")


def _value_rows() -> Iterator[tuple[str, str, str]]:
    for namespace in NAMESPACES:
        if namespace in ("context", "env"):
            yield (
                code(f"${{{namespace}.NAME}}"),
                sentence(MEANINGS[namespace]),
                _kind(namespace, "x"),
            )
            continue
        name = ("NAME",) if namespace == "captured" else ()
        for field in RESULT_FIELDS if name else FIELDS.get(namespace, OF_BRANCH):
            shown = ".".join((namespace, *name, field))
            meaning = MEANINGS.get(f"{namespace}.{field}") or MEANINGS[field]
            yield code(f"${{{shown}}}"), sentence(meaning), _kind(namespace, *name, field)


def _kind(namespace: str, *path: str) -> str:
    return classify(Reference(namespace, path, None, None, "", 0, 0))
