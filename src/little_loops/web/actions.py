"""The buttons of the page: each runs the command of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.runs import refusals
from little_loops.runs.layout import RunFiles
from little_loops.runs.project import is_run_name
from little_loops.templates.splice import as_text
from little_loops.web.abilities import why_not_again
from little_loops.web.commands import command_name, refused, result_of, run_command
from little_loops.web.errors import ApiError, bad_request
from little_loops.web.keys import loop_key, run_key
from little_loops.web.questions import Query, Question

if TYPE_CHECKING:
    from little_loops.definitions.loop_entries import LoopEntry
    from little_loops.fsm.schema import FSMLoop
    from little_loops.runs.view import RunView
    from little_loops.web.site import FoundRun, Project, Site

MOST_VALUES = 1000


class OptionField(NamedTuple):
    """A value of a request's body, and the option that it becomes."""

    option: str
    kind: type | tuple[type, ...]


TEXT, NUMBER, AMOUNT, FLAG = str, int, (int, float), bool
LIMITS = {
    "max_iterations": OptionField("--max-iterations", NUMBER),
    "timeout": OptionField("--timeout", TEXT),
    "max_cost": OptionField("--max-cost", AMOUNT),
    "max_tokens": OptionField("--max-tokens", NUMBER),
}
RUN = {
    **LIMITS,
    "id": OptionField("--id", TEXT),
    "queue": OptionField("--queue", FLAG),
    "fresh": OptionField("--fresh", FLAG),
    "worktree": OptionField("--worktree", FLAG),
    "context": OptionField("--context", dict),
}
AGAIN = {**LIMITS, "queue": RUN["queue"], "context": RUN["context"]}
RESUME = {
    **LIMITS,
    "max_continuations": OptionField("--max-continuations", NUMBER),
    "over_budget": OptionField("--over-budget", FLAG),
    "queue": OptionField("--queue", FLAG),
    "from": OptionField("--from", TEXT),
    "definition": OptionField("--definition", TEXT),
    "context": OptionField("--context", dict),
}
APPROVE = {
    "message": OptionField("--message", TEXT),
    "to": OptionField("--to", TEXT),
    "definition": OptionField("--definition", TEXT),
}
REJECT = {
    "message": OptionField("--message", TEXT),
    "definition": OptionField("--definition", TEXT),
}
FORK = {
    "at": OptionField("--at", NUMBER),
    "id": OptionField("--id", TEXT),
    "max_iterations": OptionField("--max-iterations", NUMBER),
    "context": OptionField("--context", dict),
}
UNDO = {
    "to": OptionField("--to", NUMBER),
    "dry_run": OptionField("--dry-run", FLAG),
    "force": OptionField("--force", FLAG),
}


def questions() -> list[Question]:
    posts: dict[str, Callable[[Site, Query], Mapping[str, Any]]] = {
        "run": again,
        "stop": stop,
        "resume": resume,
        "approve": approve,
        "reject": reject,
        "tell": tell,
        "fork": fork,
        "undo": undo,
    }
    return [
        Question("/api/loops/{loop}/run", run, "POST"),
        Question("/api/templates", templates),
        Question("/api/loops", create, "POST"),
        *(Question(f"/api/runs/{{run}}/{verb}", each, "POST") for verb, each in posts.items()),
    ]


# ── the body of a request as options ───────────────────────────────────────────────────────────


def options(body: Mapping[str, Any], fields: Mapping[str, OptionField], *more: str) -> list[str]:
    """Return a body as options of a command; `more` are names that the caller handles.

    An option and its value are one word, so that no value is read as an option. Raises `ApiError`
    for an unknown name or a value of the wrong type.
    """
    unknown = sorted(body.keys() - fields.keys() - set(more))
    if unknown:
        known = ", ".join(f"`{name}`" for name in sorted({*fields, *more}))
        raise bad_request(f"the request has an unknown field `{unknown[0]}`; known are {known}")
    return [word for name, field in fields.items() for word in _option(body, name, field)]


def _option(body: Mapping[str, Any], name: str, field: OptionField) -> Iterator[str]:
    value = body.get(name)
    if value is None:
        return
    if not isinstance(value, field.kind) or (isinstance(value, bool) and field.kind is not FLAG):
        raise bad_request(f"`{name}` has the wrong type")
    if field.kind is FLAG:
        if value:
            yield field.option
    elif isinstance(value, dict):
        if len(value) > MOST_VALUES or not all(isinstance(each, str) for each in value.values()):
            raise bad_request(f"the values of `{name}` must be strings")
        yield from (f"{field.option}={key}={text}" for key, text in value.items())
    else:
        yield f"{field.option}={value}"


def _done(
    verb: str, key: str | None, result: Mapping[str, Any], lines: list[str]
) -> dict[str, Any]:
    return {"schema": 1, "verb": verb, "key": key, "lines": lines, "result": result}


# ── loops ──────────────────────────────────────────────────────────────────────────────────────


def run(site: Site, query: Query) -> Mapping[str, Any]:
    """Start a run in the background, or return what it would do."""
    project, path = site.loop(query.path["loop"])
    words = options(query.body, RUN, "dry_run")
    if query.body.get("dry_run") is True:
        return _dry_run(project, [path, *words])
    result, lines = result_of(project, "run", path, "--background", *words)
    return _done("run", _key_of(project, result), result, lines)


def _key_of(project: Project, result: Mapping[str, Any]) -> str | None:
    """Return the key of the run that a command has named; None if it has named none."""
    name = result.get("name")
    if not isinstance(name, str) or not is_run_name(name):
        return None
    return run_key(project.key, RunFiles(project.root, name))


def _dry_run(project: Project, words: list[str]) -> Mapping[str, Any]:
    printed = run_command(project, "run", "--dry-run", *words)
    if printed.code:
        # Once more, for the error as data: of a loop file there may be many.
        result_of(project, "run", "--dry-run", *words)
        raise refused(printed, {})
    return {"schema": 1, "lines": printed.out.decode("utf-8", "replace").splitlines()}


def templates(site: Site, _: Query) -> Mapping[str, Any]:
    """Return the templates for a new loop."""
    from little_loops.definitions.loop_templates import TEMPLATES  # rarely asked for

    found = [
        {"name": name, "title": each.title, "description": each.loop}
        for name, each in TEMPLATES.items()
    ]
    return {"schema": 1, "templates": found}


def create(site: Site, query: Query) -> Mapping[str, Any]:
    """Write a new loop from a template, as `ll-loop init` does."""
    options(query.body, {}, "project", "template")
    project = site.project(_text(query.body, "project", ""))
    template = _text(query.body, "template", "")
    if not template:
        raise bad_request("`template` is missing")
    printed = run_command(project, "init", "--yes", f"--template={template}")
    if printed.code:
        raise refused(printed, {})
    from little_loops.definitions.loop_templates import TEMPLATES

    lines = printed.out.decode("utf-8", "replace").splitlines()
    file = f"{TEMPLATES[template].loop}.yaml" if template in TEMPLATES else ""
    key = loop_key(project.key, file)
    return {"schema": 1, "key": key, "file": file, "lines": lines}


def _text(body: Mapping[str, Any], name: str, default: str) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"`{name}` must be a string")
    return value


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def again(site: Site, query: Query) -> Mapping[str, Any]:
    """Run the loop of a run again, in the background, or return what that would do.

    It has the context, limits, scope and worktree of the run, but for what the body says.
    """
    project, view = site.run(query.path["run"])
    loop = project.loops.by_name().get(view.loop)
    if (why := why_not_again(view, loop)) is not None:
        raise ApiError(409, "refused", *why)
    assert loop is not None, "otherwise, the request is refused"
    assert loop.path is not None, "otherwise, the request is refused"
    changed = options(query.body, AGAIN, "dry_run")  # refuses what is wrong with it
    same = as_before(view, loop, project.runs.machine(view), query.body)
    words = [loop.path, *same, *changed]
    if query.body.get("dry_run") is True:
        return _dry_run(project, words)
    result, lines = result_of(project, "run", *words, "--background")
    return _done("run", _key_of(project, result), result, lines)


def as_before(
    view: RunView, loop: LoopEntry, machine: FSMLoop | None, body: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the options that give a new run what another one had, without what a body has."""
    assert view.summary is not None, "otherwise, the request is refused"
    _, at, id = view.name.partition("@")
    if at:
        yield f"--id={id}"
    own = view.summary.limits
    had = {
        "max_iterations": own.max_iterations,
        "timeout": None if own.timeout is None else f"{own.timeout:g}s",
        "max_cost": own.max_cost_usd,
        "max_tokens": own.max_tokens,
    }
    yield from options({name: had[name] for name in had if body.get(name) is None}, LIMITS)
    changed = body.get("context") or {}
    for name, value in view.summary.context.items():
        is_usual = name not in loop.context or loop.context[name] == value
        if name not in changed and not is_usual:
            yield f"--context={name}={as_text(value)}"
    if machine is not None and machine.worktree is not None:
        yield "--worktree"
        if machine.worktree.merge not in (None, "none"):
            yield "--merge"
    if machine is not None and tuple(machine.scope) != tuple(view.summary.scope):
        yield from (f"--scope={path}" for path in view.summary.scope)


def stop(site: Site, query: Query) -> Mapping[str, Any]:
    found = _latest(site, query)
    options(query.body, {})
    return _carry_out("stop", found, [])


def resume(site: Site, query: Query) -> Mapping[str, Any]:
    return _carry_out(
        "resume", _latest(site, query), [*options(query.body, RESUME), "--background"]
    )


def approve(site: Site, query: Query) -> Mapping[str, Any]:
    words = options(query.body, APPROVE)
    return _carry_out("approve", _latest(site, query), [*words, "--background"])


def reject(site: Site, query: Query) -> Mapping[str, Any]:
    words = options(query.body, REJECT)
    return _carry_out("reject", _latest(site, query), [*words, "--background"])


def tell(site: Site, query: Query) -> Mapping[str, Any]:
    found = _latest(site, query)
    options(query.body, {}, "text")
    return _carry_out("tell", found, ["--", _text(query.body, "text", "")])


def fork(site: Site, query: Query) -> Mapping[str, Any]:
    """Fork a run after a step, and start the fork unless `start` is false."""
    found = site.run(query.path["run"])
    words = options(query.body, FORK, "start")
    starts = query.body.get("start", True) is not False
    past = command_name(found.view)[1:]
    how = "--background" if starts else "--no-start"
    return _carry_out("fork", found, [*past, *words, how])


def undo(site: Site, query: Query) -> Mapping[str, Any]:
    found = site.run(query.path["run"])
    words = options(query.body, UNDO)
    done = _carry_out("undo", found, [*command_name(found.view)[1:], *words])
    return {**done, "lines": [*_undone(done["result"]), *done["lines"]]}


def _undone(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an undo changed, or would change: with `--json`, the command prints only data."""
    changes, failed = result["changes"], result["failed"]
    if not changes and not failed:
        yield "nothing to do: the files are as they were"
    for each in changes:
        note = "  (changed since)" if each["path"] in result["conflicts"] else ""
        yield f"{each['change']:<9} {visible(each['path'], newlines=False)}{note}"
    for path in failed:
        yield f"failed    {visible(path, newlines=False)}"


def _latest(site: Site, query: Query) -> FoundRun:
    """Return a run that is the last one of its name: commands take no other. Raises `ApiError`."""
    from little_loops.web.run_page import is_newest

    found = site.run(query.path["run"])
    if not is_newest(found):
        raise ApiError(409, "refused", *refusals.run_again(found.view.name))
    return found


def _carry_out(verb: str, found: FoundRun, words: list[str]) -> dict[str, Any]:
    """Run a command for a run, and return what it did."""
    project, view = found
    result, lines = result_of(project, verb, view.name, *words)
    starts = verb in ("resume", "approve", "reject", "fork")
    key = _key_of(project, result) if starts else None
    return _done(verb, key or found.key, result, lines)
