"""Loops made up at random, sensible or not, for laws about all of them."""

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
maybe = st.none() | targets
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
sources = st.none() | texts | names


def conditions() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.builds(ExitCode, st.none() | numbers, st.none(), sources),
        st.builds(OutputContains, texts | st.sampled_from(["(", "^a$", "(?=a)"]), source=sources),
        st.builds(OutputJson, texts | st.sampled_from([".a", ".["]), st.just(0), source=sources),
        st.builds(OutputNumeric, numbers, source=sources),
        st.builds(Convergence, numbers, numbers, source=sources),
        st.builds(VerdictWords, st.just(("pass", "other")), sources),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(All, st.tuples(inner, inner), sources),
            st.builds(AnyOf, st.tuples(inner), sources),
            st.builds(Not, inner, sources),
        ),
        max_leaves=3,
    )


contexts = st.dictionaries(
    st.sampled_from(["x", "y", "target"]), texts | st.lists(texts, max_size=2), max_size=3
)
states = st.builds(
    StateConfig,
    action=st.none() | texts,
    action_type=st.sampled_from([None, None, "shell", "slash", "prompt"]),
    condition=st.none() | conditions(),
    next=maybe,
    on_pass=maybe,
    on_fail=maybe,
    on_target=maybe,
    on_stall=maybe,
    on_error=maybe,
    on_timeout=maybe,
    on_interrupt=maybe,
    on_maintain=maybe,
    on_words=st.dictionaries(st.just("other"), targets),
    route=st.dictionaries(st.just("other"), targets),
    terminal=st.booleans(),
    outcome=st.sampled_from([None, None, "success", "failure", "review"]),
    capture=st.sampled_from([None, "r", "a"]),
    capture_exit=st.booleans(),
    timeout=st.sampled_from([None, 10.0]),
    retry=st.sampled_from([None, Retry(), Retry(max=2)]),
    context=contexts,
    env=st.dictionaries(st.just("A"), texts),
    host=st.sampled_from([None, HostOptions(model="${context.x}")]),
)
loops = st.builds(
    FSMLoop,
    name=st.just("a"),
    initial=targets,
    states=st.dictionaries(names, states, max_size=5),
    description=st.none() | texts,
    context=contexts,
    timeout=st.sampled_from([None, 5.0]),
    maintain=st.booleans(),
    on_error=maybe,
    on_timeout=maybe,
    on_interrupt=targets,
    env=st.dictionaries(st.just("A"), texts),
)
