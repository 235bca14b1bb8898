"""The agents that may take the turns of a state: its `host`, then those of `fallback`.

Not here: choosing one (`fallbacks`), their command lines (`hosts`).
"""

from __future__ import annotations

from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from little_loops.fsm.state import Hosts, LoopState, Result
from little_loops.light_typing import Final

MISSING: Final = "missing_program"
"""The kind of a turn that could not start because the program does not exist."""


JUDGE_ATTEMPTS: Final = 1000


def hosts_of(loop: FSMLoop, state: StateConfig | None) -> tuple[HostOptions, ...]:
    """Return the agents of a state in their order, each once; `None` stands for a state without
    settings."""
    own = state or StateConfig()
    first = loop.host.under(own.host)
    others = loop.fallback if own.fallback is None else own.fallback
    if not others:
        return (first,)
    found = {name_of(first): first}
    for other in others:
        options = completed(first, other)
        found.setdefault(name_of(options), options)
    return tuple(found.values())


def completed(first: HostOptions, other: HostOptions) -> HostOptions:
    """Return the options of an agent of `fallback`. It has the permission mode of the first, and all
    its options if it is the same program."""
    if other.host == first.host:
        return first.under(other)
    if other.permission_mode is None:
        return other._replace(permission_mode=first.permission_mode)
    return other


def name_of(options: HostOptions) -> str:
    """Return what identifies an agent, for people and in the user's files: its program, its model,
    and a hash of its variables, which may select another account."""
    words = [options.host, options.model, *(options.command or ())[:1]]
    if options.env:
        import hashlib  # few agents have variables of their own

        written = repr(sorted(options.env.items())).encode("utf-8", "surrogatepass")
        words.append(f"env {hashlib.sha256(written).hexdigest()[:8]}")
    return " ".join(word for word in words if word)


def judge_host(loop: FSMLoop, state: StateConfig) -> HostOptions:
    """Return the agent that judges the passes of a state: its own, or the state's agent."""
    first = loop.host.under(state.host)
    own = None if state.judge is None else state.judge.host
    return first if own is None else completed(first, own)


def turn_attempt(run: LoopState, number: int | None = None) -> int:
    """Return the attempt of the latest turn, or of the judge's turn with this number; its numbers
    begin above those of the action."""
    if number is None and run.ruling is not None:
        number = run.ruling.number
    return run.attempt if number is None else run.attempt * JUDGE_ATTEMPTS + number


def is_turn_open(run: LoopState) -> bool:
    """Return whether an agent was at work, on an action or as a judge, when its runner was killed."""
    return run.session_id is not None and (run.phase == "running" or is_asked(run))


def is_asked(run: LoopState) -> bool:
    """Return whether a judge was asked and its answer is not recorded."""
    return run.ruling is not None and run.ruling.verdict is None


def collects_judge(loop: FSMLoop, run: LoopState, target: str | None) -> bool:
    """Return whether a resume needs the answer of a judge that was asked; not if it continues in
    another state (`target`), or the definition now has no judge there."""
    if not is_asked(run) or target is not None or run.resume_to is not None:
        return False
    return loop.states[run.current_state].judge is not None


def host_of(loop: FSMLoop, run: LoopState) -> HostOptions:
    """Return the agent that has the latest turn in the current state; the first before any turn."""
    state = loop.states[run.current_state]
    if run.ruling is not None:
        return judge_host(loop, state)
    if run.hosts is None or run.hosts.state != run.current_state:
        return loop.host.under(state.host)
    hosts = hosts_of(loop, state)
    return hosts[run.hosts.fallback] if run.hosts.fallback < len(hosts) else hosts[0]


def gives_way(loop: FSMLoop, run: LoopState, result: Result) -> bool:
    """Return whether the turn that has ended goes to another agent, or to the same one later."""
    state = loop.states[run.current_state]
    if not (loop.fallback or state.fallback) or result.cut_by != "none":
        return False
    hosts = hosts_of(loop, state)
    if len(hosts) == 1 or state.terminal or run.timed_out_in is not None:
        return False
    if result.agent == "wait":
        return True
    on = loop.fallback_on if state.fallback_on is None else state.fallback_on
    if result.kind != MISSING and result.agent not in on:
        return False
    limited = (run.hosts or Hosts()).limited
    others = [each for each in hosts if each != host_of(loop, run)]
    return any(limited.get(name_of(each), 0) is not None for each in others)
