"""Play back a run: its events, and between them what its actions printed.

For an agent, what it said and did is read from the events of its program, as while it ran.

Not here: reading events and outputs (`entries`, `outputs`), waiting for more of them (`follow`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from little_loops.fsm.actions import action_of_event, is_agents
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    StateEnter,
)
from little_loops.light_typing import TYPE_CHECKING, assert_never
from little_loops.records import NamedTuple
from little_loops.reporting.observers import Observer
from little_loops.runs.arrival import StreamName
from little_loops.runs.outputs import CHUNK, ActionOutput, Outputs

if TYPE_CHECKING:
    from little_loops.fsm.schema import FSMLoop
    from little_loops.hosts.base import HostEvent, StreamReader
    from little_loops.system.output import LineSplitter


class PrintedText(NamedTuple):
    """What an action printed, or an agent said; secrets are hidden."""

    stream: StreamName
    data: bytes


class AgentActivity(NamedTuple):
    """What an agent was doing."""

    text: str


class UsageSoFar(NamedTuple):
    """What an agent had used so far in its turn."""

    tokens: int
    cost_usd: float | None


class ToolEnded(NamedTuple):
    """A tool call of an agent has ended: what it did, how it ended, and the files it changed."""

    text: str
    status: str
    files: tuple[str, ...]


Item = Entry | PrintedText | AgentActivity | ToolEnded | UsageSoFar


def show(items: Iterable[Item], observer: Observer) -> None:
    """Pass each item to the matching method of the observer."""
    for item in items:
        match item:
            case Entry():
                observer.record(item)
            case PrintedText(stream, data):
                observer.printed(stream, data)
            case AgentActivity(text):
                observer.doing(text)
            case ToolEnded(files=files):
                observer.changed(files)
            case UsageSoFar(tokens, cost_usd):
                observer.used(tokens, cost_usd)
            case _:
                assert_never(item)


class Playback:
    """Turns entries into items for a screen, including the output of the actions."""

    def __init__(self, outputs: Outputs | None, machine: FSMLoop | None, root: str) -> None:
        """Show the output of actions if `outputs` is given; `machine` says which host reads an
        agent's output."""
        self._outputs = outputs
        self._machine = machine
        self._root = root
        self._step = 0
        self._action: ActionStart | None = None
        self._shown: dict[StreamName, int] = {"stdout": 0, "stderr": 0}
        self._agent: AgentStream | None = None

    @property
    def action(self) -> ActionStart | None:
        """The current action."""
        return self._action

    def feed(self, entry: Entry) -> Iterator[Item]:
        """Yield what to show for an event: output that was not shown before it, then the event
        itself."""
        match entry.event:
            case StateEnter(step=step):
                self._step = step
            case ActionStart() as start:
                self._begin(start)
            case ActionComplete(result=result) if self._outputs is not None:
                yield from self._rest(self._outputs.of(result))
            case ActionInterrupted(result=None, attempt=attempt) if self._outputs is not None:
                lost = self._outputs.lost(self._step, attempt, is_stream=self._is_agent)
                yield from self._rest(lost)
            case ActionInterrupted(result=partial) if self._outputs is not None and partial:
                yield from self._rest(self._outputs.of(partial))
            case _:
                pass
        yield entry

    def live(self) -> list[Item]:
        """Return what the current action has printed since the last call."""
        if self._outputs is None or self._action is None:
            return []
        return list(self._more(self._outputs.live(is_stream=self._is_agent)))

    @property
    def _is_agent(self) -> bool:
        action = self._action
        return action is not None and is_agents(action_of_event(action.action, action.action_type))

    def _begin(self, start: ActionStart) -> None:
        self._action = start
        self._shown = {"stdout": 0, "stderr": 0}
        self._agent = None

    def _rest(self, output: ActionOutput) -> Iterator[Item]:
        """Yield everything that was not shown of the current action, which has ended; after that
        there is no current action."""
        if self._action is not None:
            yield from self._more(output)
            if self._agent is not None:
                yield from self._agent.finish()
            self._action = None

    def _more(self, output: ActionOutput) -> Iterator[Item]:
        """Yield the output that was not shown yet, in order of arrival, and count it as shown."""
        assert self._outputs is not None, "an output was found"
        for stream, start, end in output.parts(self._shown):
            while start < end:
                stop = min(start + CHUNK, end)
                data = self._outputs.shown(output.of(stream), start, stop)
                yield from self._printed(stream, data, is_stream=output.is_stream)
                start = stop
            self._shown[stream] = end

    def _printed(self, stream: StreamName, data: bytes, *, is_stream: bool) -> Iterator[Item]:
        """Yield items for a chunk of output; the events of an agent's program are read by its
        host."""
        if stream == "stdout" and is_stream:
            if self._agent is None:
                self._agent = AgentStream(_host_of(self._action, self._machine), self._root)
            yield from self._agent.feed(data)
        elif data:
            yield PrintedText(stream, data)


def _host_of(action: ActionStart | None, machine: FSMLoop | None) -> str:
    """Return the name of the host of an action's state; the default one if state or machine are
    unknown."""
    from little_loops.fsm.schema import HostOptions  # only agents have hosts

    options = HostOptions() if machine is None else machine.host
    state = machine.states.get(action.state) if machine is not None and action is not None else None
    return options.under(state.host if state else None).host


class AgentStream:
    """What an agent says and does, read from the raw events of its program."""

    def __init__(self, host: str, cwd: str) -> None:
        """Read the events of the program that `host` names, which ran in `cwd`."""
        from little_loops.hosts.base import Request, host_named  # only agents pay for hosts
        from little_loops.system.output import LineSplitter

        # With words, a structured verdict is shown as text.
        request = Request("", "prompt", cwd, "", words=("pass", "fail"))
        self._reader: StreamReader = host_named(host).reader(request)
        self._lines: LineSplitter = LineSplitter()

    def feed(self, data: bytes) -> Iterator[Item]:
        for line in self._lines.feed(data):
            yield from self._line(line)

    def finish(self) -> Iterator[Item]:
        for line in self._lines.close():
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[Item]:
        for event in self._reader.feed(line):
            yield from _items(event)


def _items(event: HostEvent) -> Iterator[Item]:
    """Yield what to show for an event of an agent; nothing for kinds that are not shown."""
    from little_loops.hosts.base import Activity, AgentText, Done, Usage

    match event:
        case AgentText(text):
            yield PrintedText("stdout", text.encode("utf-8", "replace") + b"\n")
        case Activity(text):
            yield AgentActivity(text)
        case Done():
            yield ToolEnded(*event)
        case Usage(tokens_in, tokens_out, cost_usd):
            yield UsageSoFar(tokens_in + tokens_out, cost_usd)
        case _:
            pass
