"""Loops generated at random, sensible or not, for laws about all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from little_loops.fsm.schema import (
    All,
    AnyOf,
    Convergence,
    ExitCode,
    FSMLoop,
    HostOptions,
    Not,
    OutputContains,
    OutputJson,
    OutputNumeric,
    Retry,
    StateConfig,
    VerdictWords,
)

NAMES = ("a", "b", "c", "fail", "done")
names = st.sampled_from(NAMES)
targets = st.sampled_from([*NAMES, "$current", "$error", "nowhere", "${context.x}"])
texts = st.lists(
    st.sampled_from(
        [
            *("ls", "echo", " ", "'", '"', "$(", ")", "\n", "`", "\\", "; ", "&& ", "sh -c "),
            *("/ll:fix x", "git push", "${HOME}", "$${", "${", "}", "${a.", "${prev.output}"),
            *("${captured.a.output}", "${captured.r.file}", "${captured.no.output:-}", "${env.X}"),
            *("${context.x}", "${context.y:q}", "${context.no}", "${state.name:raw}", "${loop.no}"),
        ]
    ),
    max_size=5,
).map("".join)
numbers = st.just(0.0) | texts
sources = texts | names


def some(kind: Any, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    """Things of one kind that have some of their fields."""
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


def conditions() -> st.SearchStrategy[Any]:
    patterns = texts | st.sampled_from(["(", "^a$", "(?=a)"])
    paths = texts | st.sampled_from([".a", ".["])
    leaves = st.one_of(
        some(ExitCode, {}, target=numbers, source=sources),
        some(OutputContains, {"pattern": patterns}, regex=st.booleans(), source=sources),
        some(OutputJson, {"path": paths, "target": st.just(0)}, source=sources),
        some(OutputNumeric, {"target": numbers}, source=sources),
        some(Convergence, {"target": numbers}, tolerance=numbers, source=sources),
        some(VerdictWords, {"words": st.just(("pass", "other"))}, source=sources),
    )
    return st.one_of(
        leaves,
        some(All, {"of": st.tuples(leaves, leaves)}, source=sources),
        some(AnyOf, {"of": st.tuples(leaves)}, source=sources),
        some(Not, {"of": leaves}, source=sources),
    )


contexts = st.dictionaries(
    st.sampled_from(["x", "y", "target"]), texts | st.lists(texts, max_size=2), max_size=2
)
states = some(
    StateConfig,
    {},
    action=texts,
    action_type=st.sampled_from(["shell", "slash", "prompt"]),
    condition=conditions(),
    next=targets,
    on_pass=targets,
    on_fail=targets,
    on_target=targets,
    on_progress=targets,
    on_stall=targets,
    on_error=targets,
    on_timeout=targets,
    on_interrupt=targets,
    on_maintain=targets,
    on_words=st.just({"other": "a"}),
    route=st.just({"other": "b"}),
    terminal=st.booleans(),
    outcome=st.sampled_from(["success", "failure", "review"]),
    capture=st.sampled_from(["r", "a"]),
    capture_exit=st.booleans(),
    timeout=st.just(10.0),
    retry=st.sampled_from([Retry(), Retry(max=2)]),
    context=contexts,
    env=st.fixed_dictionaries({"A": texts}),
    host=st.just(HostOptions(model="${context.x}")),
)
loops = some(
    FSMLoop,
    {
        "name": st.just("a"),
        "initial": st.sampled_from(["a", "a", "a", "b", "nowhere"]),
        "states": st.dictionaries(names, states, max_size=4),
    },
    description=texts,
    context=contexts,
    timeout=st.just(5.0),
    maintain=st.booleans(),
    on_error=targets,
    on_timeout=targets,
    on_interrupt=targets,
    env=st.fixed_dictionaries({"A": texts}),
)
