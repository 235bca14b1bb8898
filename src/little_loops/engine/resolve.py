"""Fill in what the machine left open: environment, files, templates. The edge of the pure core.

The machine's texts contain references to data, which get their values here, just before use. The
values are not stored.

Not here: the rules for values in shell scripts (`render`), running (`shell_actions` …).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property

from little_loops import light_json as json
from little_loops.errors import LittleLoopsError
from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.commands import Job, Judge, RunAction, RunAgent, RunBuiltin, RunShell
from little_loops.fsm.conditions import Observation
from little_loops.fsm.schema import ERROR, All, AnyOf, Condition, FSMLoop, Not
from little_loops.fsm.state import FileRef, Judgement, LoopState, Result
from little_loops.fsm.values import FILE_FIELDS, author_context, values_of
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.system.plain_files import read_plain
from little_loops.templates.render import (
    Lookup,
    Reference,
    RefusedScript,
    TemplateError,
    TooLarge,
    Unresolved,
    ValueNotANumber,
    as_text,
    check_variable,
    lookup_in,
    references,
    render_agent_text,
    render_shell,
    render_text,
)
from little_loops.templates.splice import GIVEN, is_data

if TYPE_CHECKING:
    from little_loops.runs.imported import Imported

LARGE_BYTES = 1 << 20
"""Output up to this size is judged as a string."""
ARGUMENTS_BYTES = 8 << 20
"""More than any system accepts as arguments; larger values are refused without reading them."""


OWN = ("context", GIVEN, "env")
"""The namespaces in which a branch's action has its own values."""


class Filled(NamedTuple):
    """An action ready to run: its script or prompt, and its additional environment variables.

    For a built-in action, `text` is its name, and `inputs` are its arguments.
    """

    text: str
    env: dict[str, str]
    inputs: Mapping[str, Any] = {}

    def translated(self, translate: Callable[[str], str]) -> Filled:
        """Return the same action with the paths in its texts replaced."""
        env = {name: translate(text) for name, text in self.env.items()}
        return self._replace(text=translate(self.text), env=env)


class Values:
    """Everything a template may refer to, read on demand."""

    def __init__(
        self,
        loop: FSMLoop,
        run: LoopState,
        environ: Mapping[str, str],
        run_dir: str | None = None,
        most_bytes: int | None = None,
        imported: Imported | None = None,
        branch: Mapping[str, Any] | None = None,
        outer: Values | None = None,
    ) -> None:
        """Without `run_dir`, results have no files. An output of more than `most_bytes` raises
        `TooLarge`; a value that was masked before the run was `imported`, `MaskedValue`.

        `branch` are the values of a branch of the current state. The action of a branch is run by a
        run of its own, whose values, apart from the context, are the `outer` ones.
        """
        self._branch = branch
        self._outer = outer
        self._most_bytes = most_bytes
        self._imported = imported
        self._loop = loop
        self._run = run
        self._environ = environ
        self._run_dir = run_dir
        self.context = author_context(run.context, loop.states[run.current_state])

    def for_process(self) -> Values:
        """Return the same values for a process environment, which has a size limit."""
        return type(self)(
            self._loop,
            self._run,
            self._environ,
            self._run_dir,
            ARGUMENTS_BYTES,
            self._imported,
            self._branch,
            None if self._outer is None else self._outer.for_process(),
        )

    def with_branch(self, branch: Mapping[str, Any]) -> Values:
        """Return the same values, with those of a branch of the current state."""
        return type(self)(
            self._loop,
            self._run,
            self._environ,
            self._run_dir,
            self._most_bytes,
            self._imported,
            branch,
            self._outer,
        )

    @cached_property
    def names(self) -> set[str]:
        """Return all names that results of this loop can have, whether they exist yet or not."""
        states = self._loop.states
        return {*states, *(state.capture for state in states.values() if state.capture)}

    @cached_property
    def _plain(self) -> Lookup:
        values = values_of(self._loop, self._run)
        values["loop"] = {**values["loop"], "run_dir": self._run_dir or ""}
        return lookup_in({**values, "branch": self._branch or {}, "env": self._environ})

    def __call__(self, reference: Reference) -> object:
        """Return the value of a reference, reading a file if necessary.

        Raises `Unresolved` if there is none, `TooLarge` if a process cannot be given it,
        `MaskedValue` if it is not the original one, or `OSError`.
        """
        if self._outer is not None and reference.namespace not in OWN:
            return self._outer(reference)
        if self._imported is not None and self.is_masked(reference):
            raise MaskedValue(f"`{reference.text}`")
        if "structured" in reference.path:
            self._load_structured(reference)
        value = self._plain(reference)
        if value is not None or reference.namespace not in ("captured", "prev"):
            return value
        return self._of_result(reference)

    def _of_result(self, reference: Reference) -> object:
        """Return an output that is in a file, or the path of a file of a result; None if there is
        none."""
        name = self._result_name(reference)
        assert name is not None, "it was found"
        field = reference.path[0 if reference.namespace == "prev" else 1]
        result = self._run.captured[name]
        if field in FILE_FIELDS:
            return self._file_of(field, name, result)
        file = {"output": result.output_file, "stderr": result.stderr_file}.get(field)
        if file is None:
            return None
        self._check_size(reference, file)
        return self.read(file)

    def is_masked(self, reference: Reference) -> bool:
        """Return whether a value is not the original one, because the run was imported."""
        if self._imported is None:
            return False
        if reference.namespace == "context":
            name = reference.path[0]
            return self._imported.is_masked_context(name, self.context.get(name))
        name = self._result_name(reference) or ""
        result = self._run.captured.get(name)
        at = 0 if reference.namespace == "prev" else 1
        if result is None or len(reference.path) <= at:
            return False
        return self._imported.is_masked_result(name, result, reference.path[at])

    def check_output(self, name: str) -> None:
        """Raise `MaskedValue` if the output of a result is not the original one."""
        result = self._run.captured[name]
        if self._imported is not None and self._imported.is_masked_result(name, result, "output"):
            raise MaskedValue(f"the output of `{name}`")

    def _result_name(self, reference: Reference) -> str | None:
        """Return the name of the result that a reference means; None if it means something else."""
        match reference.namespace:
            case "prev":
                return self._run.prev_state
            case "captured":
                return reference.path[0]
            case _:
                return None

    def _load_structured(self, reference: Reference) -> None:
        """Read a long structured answer into these values, if a reference needs it. Raises
        `TooLarge`."""
        name = self._result_name(reference)
        result = self._run.captured.get(name or "")
        if result is None or result.structured_file is None or result.structured is not None:
            return
        if reference.path[-1] == "structured":
            self._check_size(reference, result.structured_file)
        answer = json.loads(read_plain(self.path_of(result.structured_file)))
        loaded = result._replace(structured=answer)
        self._run = self._run._replace(captured={**self._run.captured, name or "": loaded})
        self.__dict__.pop("_plain", None)

    def _check_size(self, reference: Reference, file: FileRef) -> None:
        if self._most_bytes is not None and file.size > self._most_bytes:
            raise TooLarge(reference, file.size)

    def path_of(self, file: FileRef) -> str:
        return os.path.join(self._run_dir or "", file.path)

    def read(self, file: FileRef) -> str:
        data = read_plain(self.path_of(file))
        return without_newline(without_colours(data).decode("utf-8", "replace"))

    def _file_of(self, field: str, name: str, result: Result) -> str | None:
        """Return the path of a result's file, which is written if necessary; None if the result has
        none.

        Raises `Unresolved` without a run directory.
        """
        if self._run_dir is None:
            raise Unresolved(f"captured.{name}.{field}", ())
        from little_loops.engine.result_files import ResultFiles  # few actions need files

        return ResultFiles(self._run_dir).of(field, name, result)


def fill(command: RunAction, values: Values) -> Filled | str:
    """Return the action with its values, or why it cannot run."""
    job, given = command.job, values.for_process()
    try:
        env = {name: _variable(name, text, given) for name, text in job.env.items()}
        match command:
            case RunShell():
                return _fill_script(command, given, env)
            case RunAgent():
                return Filled(_prompt(command, values), env)
            case RunBuiltin():
                inputs = {name: _input(name, value, values) for name, value in job.context.items()}
                return Filled(command.name, env, inputs)
    except Unfilled as problem:
        return str(problem)


def known_environment(job: Job, values: Values) -> dict[str, str]:
    """Return the variables of a job whose values are known by now, filled in."""
    given, known = values.for_process(), {}
    for name, text in job.env.items():
        with suppress(Unfilled):
            known[name] = _variable(name, text, given)
    return known


def shown_text(shown: str, command: RunAction, filled: Filled | str, values: Values) -> str:
    """Return what is about to run, for people; `shown` is the action with references to data.

    A prompt includes its values. A script does not: they are listed below it, as it receives them.
    """
    if isinstance(filled, str):
        return shown
    match command:
        case RunShell():
            return "\n".join([shown, *_data_in(command.script, values)])
        case RunAgent():
            return filled.text
        case RunBuiltin():
            return shown


def _data_in(script: str, values: Values) -> list[str]:
    """Return a comment for each reference to data in a script: `# ${captured.x.output} is
    'text'`."""
    if "${" not in script:
        return []
    from shlex import quote  # few scripts refer to data

    named = dict.fromkeys(each.text for each in references(script) if is_data(each))
    return [f"# {text} is {quote(_filled_in('action', text, values))}" for text in named]


def _fill_script(command: RunShell, values: Values, env: dict[str, str]) -> Filled:
    """Fill in the script; its data and the context (`LL_CONTEXT_…`) go into its environment."""
    with _field("action"):
        script = render_shell(command.script, values, values.context, command.shell)
    own = {
        f"LL_CONTEXT_{name.upper()}": _context_value(name, value, values, agent=False)
        for name, value in command.job.context.items()
    }
    return Filled(script.text, {**env, **own, **script.env})


class MaskedValue(LittleLoopsError):
    """A value that was masked when the run was exported."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was masked when the run was exported, so its value is not known")


class Unfilled(LittleLoopsError):
    """A text that cannot be filled in: which field of the state it is, and why."""


_PROBLEMS = (
    Unresolved,
    ValueNotANumber,
    TemplateError,
    RefusedScript,
    TooLarge,
    MaskedValue,
    OSError,
)


class _field:  # noqa: N801 (a context manager; as a generator, it would take three times as long)
    """Turn any failure to fill in, within the block, into `Unfilled` with the name of this
    field."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if isinstance(problem, _PROBLEMS):
            raise Unfilled(f"`{self._name}`: {problem}") from None


def _filled_in(field: str, text: str, values: Values) -> str:
    with _field(field):
        return render_text(text, values, values.context)


def _variable(name: str, text: str, values: Values) -> str:
    """Return the filled-in value of an environment variable. Raises `Unfilled`, also if it is
    unsafe."""
    with _field(f"env.{name}"):
        if refused := check_variable(name, text, values.context):
            raise RefusedScript(refused)
        return render_text(text, values, values.context)


def _prompt(command: RunAgent, values: Values) -> str:
    """Return the filled-in prompt, followed by a line for each value of the state's `context`."""
    with _field("action"):
        text = render_agent_text(command.text, values, values.context)
    lines = [
        f"{name}: {_context_value(name, value, values, agent=True)}"
        for name, value in command.job.context.items()
    ]
    return "\n\n".join([text, "\n".join(lines)]) if lines else text


def _context_value(name: str, value: Any, values: Values, *, agent: bool) -> str:
    """Return a value of `context` as text; only strings are filled in, with `agent` as for a
    prompt."""
    if not isinstance(value, str):
        return as_text(value)
    render = render_agent_text if agent else render_text
    with _field(f"context.{name}"):
        return render(value, values, values.context)


def _input(name: str, value: Any, values: Values) -> Any:
    """Return an argument of a built-in action; only strings are filled in."""
    if not isinstance(value, str):
        return value
    with _field(f"context.{name}"):
        return render_text(value, values, values.context)


def judge_now(command: Judge, run: LoopState, values: Values) -> Judgement:
    """Carry out a `Judge`: fill in the condition, find what it judges, and judge within a time
    limit.

    If something cannot be filled in or read, the verdict is `error`.
    """
    try:
        seen = _observe_result(command.of, run, values) if command.of else NOTHING_OBSERVED
        seen = seen._replace(samples=command.samples)
        with _field("source"):
            names = condition_sources(command.condition)
            sources = {name: _observe_source(name, run, values) for name in names}
        condition = _filled(command.condition, values)
    except (Unfilled, MaskedValue, OSError) as problem:
        return Judgement(ERROR, str(problem))
    from little_loops.engine.judging import judge_bounded  # an exit code needs no time limit

    return judge_bounded(condition, seen, command.memory, sources=sources)


NOTHING_OBSERVED = Observation(None, None, "")


def _filled(condition: Condition, values: Values) -> Condition:
    """Return the condition with its templates filled in; a `source` is resolved by
    `_observe_source`."""
    match condition:
        case All() | AnyOf():
            return condition._replace(of=tuple(_filled(each, values) for each in condition.of))
        case Not():
            return condition._replace(of=_filled(condition.of, values))
        case _:
            texts: dict[str, Any] = {
                name: _filled_in(name, field, values)
                for name, field in condition._asdict().items()
                if isinstance(field, str) and name != "source"
            }
            return condition._replace(**texts)


def condition_sources(condition: Condition) -> set[str]:
    """Return the names of all sources in a condition."""
    match condition:
        case All() | AnyOf():
            below = {name for each in condition.of for name in condition_sources(each)}
        case Not():
            below = condition_sources(condition.of)
        case _:
            below = set()
    return below if condition.source is None else below | {condition.source}


def _observe_source(source: str, run: LoopState, values: Values) -> Observation:
    """Return the observation of a source: a bare name is a result, anything else a template.

    Raises `Unresolved` if the name is that of a result that does not exist yet.
    """
    if source in run.captured:
        return _observe_result(source, run, values)
    if source in values.names:
        raise Unresolved(f"captured.{source}", tuple(f"captured.{name}" for name in run.captured))
    return Observation(None, None, render_text(source, values, values.context))


def _observe_result(name: str, run: LoopState, values: Values) -> Observation:
    """Return the observation of a result. Of an output larger than `LARGE_BYTES`, its text is only
    the beginning and the end; conditions search the rest in the file."""
    values.check_output(name)
    result = run.captured[name]
    # Version one stored the stream of an agent as its file, beside the answer.
    file, large = (result.output_file if result.output is None else None), None
    if file is None:
        text = without_colours(result.output or "")
    elif file.size <= LARGE_BYTES:
        text = values.read(file)
    else:
        from little_loops.engine.large_output import LargeOutput  # few actions print that much

        large = LargeOutput(values.path_of(file))
        text = large.ends()
    cut = file is not None and file.truncated
    return Observation(result.exit_code, result.signal, text, cut, result.verdict, large)


def without_newline(text: str) -> str:
    """Remove one trailing newline, as `$(…)` does."""
    return text.removesuffix("\n")
