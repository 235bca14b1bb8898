"""Decide whether an imported run can be resumed, although its secrets were masked.

Not here: what a run file lacks (`runs.imported`), values at run time (`resolve`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.engine.resolve import Values, condition_sources
from little_loops.errors import UsageError
from little_loops.fsm.evidence import trees_of
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Children, LoopState
from little_loops.light_typing import Any
from little_loops.runs.child_runs import unfinished_children
from little_loops.runs.imported import Imported, read_imported
from little_loops.runs.layout import RunFiles
from little_loops.runs.stored_run import StoredRun
from little_loops.templates.render import TemplateError, references

FEW = 3


def check_imported(
    imported: Imported,
    before: StoredRun,
    loop: FSMLoop | None,
    context: Mapping[str, Any],
    from_state: str | None,
) -> None:
    """Raise `UsageError` if an imported run needs what its run file does not have: its snapshots,
    or a masked value in the definition or in the state where it continues.

    `loop` is the definition to continue with, None for the original one; `context` is given again.
    """
    name, run = before.files.name, before.run
    fresh = f"`ll-loop run {name} --fresh` starts again"
    if imported.no_trees is not None and trees_of(run) is not None:
        raise UsageError(
            f"`{name}` cannot be resumed: its run file has no snapshots ({imported.no_trees})",
            f"export it again with its snapshots; {fresh}",
        )
    if loop is None and imported.masked.definition:
        raise UsageError(
            f"`{name}` cannot be resumed with its original definition, in which secrets were masked"
            f" when it was exported: {_listed(imported.masked.definition)}",
            f"`ll-loop resume {name} --definition current` continues with the loop file here",
        )
    if run.children is not None:
        check_inner(before.files, run.children, name)
    machine = loop or before.loop
    state = from_state or run.current_state
    given = run._replace(context={**run.context, **context}, current_state=state)
    needed = list(dict.fromkeys(_masked_in(machine, given, before.files.data, imported)))
    if state in machine.states and needed:
        raise UsageError(
            f"`{name}` cannot be resumed in state `{state}`: it needs values that were masked when"
            f" the run was exported: {_listed(needed)}",
            "use `--context NAME=VALUE` to set a context variable again, or `--from STATE` to continue"
            " from another state",
        )


def check_inner(parent: RunFiles, children: Children, path: str) -> None:
    """Raise `UsageError` if an imported run that another one has started, and that continues with it,
    needs a masked value. `path` is that of the other one."""
    for child in unfinished_children(parent, children):
        imported = None if child.stored is None else read_imported(child.files)
        if child.stored is None or imported is None:
            continue
        loop, run, name = child.stored.loop, child.stored.run, f"{path}/{child.name}"
        if run.children is not None:
            check_inner(child.files, run.children, name)
        values = _masked_in(loop, run, child.files.data, imported)
        if needed := list(dict.fromkeys((*imported.masked.definition, *values))):
            raise UsageError(
                f"`{name}` cannot be resumed in state `{run.current_state}`: it needs values that were"
                f" masked when the run was exported: {_listed(needed)}",
                f"`ll-loop run {parent.name} --fresh` starts again",
            )


def _masked_in(machine: FSMLoop, run: LoopState, run_dir: str, imported: Imported) -> Iterator[str]:
    """Yield the masked values that the current state refers to."""
    config = machine.states.get(run.current_state)
    if config is None:
        return
    values = Values(machine, run, {}, run_dir, imported=imported)
    sources = condition_sources(config.condition) if config.condition is not None else set()
    for name in imported.masked_results(run):
        if name in sources:
            yield f"the output of `{name}`"
    for text in _texts_in({"env": machine.env, "state": config.to_dict()}):
        try:
            found = [each for each in references(text) if values.is_masked(each)]
        except TemplateError:
            continue
        yield from (f"`{each.text}`" for each in found)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text in plain data, except the names of fields."""
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts_in(item)
        case list() | tuple():
            for item in value:
                yield from _texts_in(item)
        case _:
            return


def _listed(places: list[str] | tuple[str, ...]) -> str:
    """Return the first of these, and how many more there are."""
    shown = ", ".join(each if "`" in each else f"`{each}`" for each in places[:FEW])
    more = len(places) - FEW
    return f"{shown} and {more} more" if more > 0 else shown
