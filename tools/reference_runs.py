"""The pages on exit codes, error codes, the environment and interpolation, from the program's own tables."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.codes import Code, catalogue
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
    yield from ("Any other signal that stops a run gives 128 and its number.", "")
    yield from ("## How a run can end", "")
    rows = [(ending, code(status), number, after) for ending, status, number, after in endings()]
    yield from table(("ending", "status", "exit code", "`ll-loop resume`"), rows)
    yield (
        '"Completed" is said of a success state and nothing else. `ll-loop wait NAME` exits as the run did, and so does '
        "`ll-loop status NAME --exit-code`, with 5 while it runs; `ll-loop status NAME` exits 0 whenever it could answer."
    )
    yield (
        "A run whose process was killed has no exit code of its own: it is shown as interrupted (crashed), `wait` exits 1, and it can be resumed."
    )


# ── error codes ────────────────────────────────────────────────────────────────────────────────

GROUPS = {
    "LL0": "The file as YAML",
    "LL1": "Keys, values and names",
    "LL2": "The machine",
    "LL3": "Warnings",
    "LL4": "Templates and the shell",
}


def error_codes_page() -> Iterator[str]:
    codes = catalogue()
    yield from ("# Error codes", "")
    yield "What `ll-loop validate` finds. A code keeps its meaning. `ll-loop explain LL201` prints its entry."
    yield "Warnings let a loop run; `validate --strict` makes them errors."
    yield ""
    for group, title in GROUPS.items():
        yield from (f"## {title}", "")
        for each in codes.values():
            if each.code.startswith(group):
                yield from _code_part(each)


def _code_part(entry: Code) -> Iterator[str]:
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
A setting is looked for in this order: the flag, the `LL_*` variable, the loop file, `.loops/.config.yaml` (the project's), `little-loops/config.yaml` in `$XDG_CONFIG_HOME`
or `~/.config` (yours), the default. Both config files hold settings by their names:
"""
CONFIG = "# .loops/.config.yaml\nhost: {name: claude, model: sonnet}\nmax_cost_usd: 10\n"


def environment_page() -> Iterator[str]:
    yield from ("# Environment", "", "## What `ll-loop` reads", "")
    yield from table(("variable", "meaning"), [(_coded(k), sentence(v)) for k, v in READ.items()])
    yield from ("## Settings", "", *PRECEDENCE.splitlines(), "")
    yield from fenced(CONFIG, "yaml")
    rows = [(code(name), code(f"LL_{name.upper()}")) for name in SETTINGS]
    yield from table(("setting", "variable"), rows)
    yield "[`evidence`](fields.md#evidence) can stand in config files, too; there it counts key by key."
    yield from ("", "## What an action is given", "")
    yield from ("Beside the caller's environment and `env`:", "")
    yield from table(("variable", "meaning"), [(_coded(k), sentence(v)) for k, v in GIVEN.items()])
    yield (
        "A turn of a relay also has the variables of the [return-metadata page](return-metadata.md#what-a-turn-receives)."
    )
    yield "stdin is empty. The working directory is the project, or `cwd`."
    yield ""
    yield f"Taken away, so that an agent does not take itself for a part of another: {', '.join(map(code, SESSION_VARIABLES))}."
    yield from ("", "## Secrets", "")
    names = [f"`*{end}`" for end in ENDINGS] + [f"`*{part}*`" for part in PARTS]
    yield (
        f"The values of variables whose names look secret ({', '.join(names)}), if they have {SHORTEST} characters or more, are shown as `***` in events, logs and on the "
        "screen. They stay what they are in the run's own files (state, `run.json`, outputs), which only you can read."
    )


def _coded(names: str) -> str:
    return ", ".join(code(name) for name in names.split(", "))


# ── interpolation ──────────────────────────────────────────────────────────────────────────────

INTERPOLATION = """\
`${namespace.name}` is filled in just before use: in `action`, in the values of `context` and `env`, and in a condition's `source`, `target`, `pattern`, `path` and
`tolerance`. Anywhere else it is an error. A name that does not exist is an error: `ll-loop validate` finds it where it can be known, else the run does (verdict `error`).
"""
KINDS_INTRO = """\
In a shell action it matters where a value comes from. **code** is your own text: it stands in the script as you wrote it. **inert** values are the
engine's own and harmless. **data** is everything else: it reaches the script in an environment variable and is never run;
[values and the shell](../explanation/values-and-the-shell.md) tells how. In a prompt or a slash command every value is plain text.
"""
MEANINGS = {
    "context": "your variables, those of the state before those of the loop",
    "env": "an environment variable; an unset one is empty",
    "state.name": "the state",
    "state.iteration": "times around, from 1",
    "state.attempt": "counts the attempts of this step from 1",
    "loop.name": "the loop's name",
    "loop.started_at": "when the run began, UTC",
    "loop.elapsed_ms": "running time in milliseconds",
    "loop.elapsed": "running time in words, like `2m 34s`",
    "loop.cycle": "counts the cycles of a `maintain` loop",
    "loop.run_id": "which run this is",
    "loop.run_dir": "a directory of this run alone",
    "loop.continuation": "what an earlier session handed over",
    "output": "what the action printed to stdout, without one trailing newline; of an agent, its last text",
    "stderr": "what it printed to stderr",
    "exit_code": "its exit code; of an agent 0 pass, 1 fail, 2 error",
    "duration_ms": "how long it took",
    "file": "the path of a file that holds the whole output",
    "stderr_file": "the path of a file that holds all of its stderr",
    "log_file": "the path of a file with both streams in order of arrival, without colour codes",
    "stream_file": "of an agent, the path of a file with the raw events of its program",
    "structured": "an agent's structured answer; `structured.key` is a value in it",
    "session_id": "the agent's session",
    "cost_usd": "what the agent cost",
    "turns": "the agent's turns",
    "prev.state": "the state of the last action",
}


def interpolation_page() -> Iterator[str]:
    yield from ("# Interpolation", "", *INTERPOLATION.splitlines(), "")
    yield from ("## Values", "")
    yield from table(("reference", "value", "in a shell it is"), _value_rows())
    yield (
        "`captured.NAME` is the result of the state of that name, or of the state with `capture: NAME`; `prev` is the last action that ran. "
        "A number, text or flag is inserted as it stands, null as nothing, a list or mapping as JSON."
    )
    yield from ("", "## Forms", "")
    forms = [(_forms(k), sentence(v)) for k, v in FORMS.items()]
    forms += [(code(f"${{x.y:{name}}}"), sentence(text)) for name, text in MODIFIER_HELP.items()]
    yield from table(("written", "meaning"), forms)
    yield from (
        "A modifier and a fallback may stand together: `${x.y:q:-none}`. References do not nest, and nothing that was filled in is looked at again.",
        "",
    )
    yield from ("## Code, inert, data", "", *KINDS_INTRO.splitlines())


def _forms(text: str) -> str:
    return code(text) if text.count("${") < 2 else ", ".join(map(code, text.split()))


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
        for field in RESULT_FIELDS if name else FIELDS[namespace]:
            shown = ".".join((namespace, *name, field))
            meaning = MEANINGS.get(f"{namespace}.{field}") or MEANINGS[field]
            yield code(f"${{{shown}}}"), sentence(meaning), _kind(namespace, *name, field)


def _kind(namespace: str, *path: str) -> str:
    return classify(Reference(namespace, path, None, None, "", 0, 0))
