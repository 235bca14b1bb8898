"""Histories of workflows as files: recorded on a fleet, and replayed with the present code.

A file has the history of one workflow execution and the commands that its code gave when it was
recorded. Payloads are data, not base64, so that a difference can be read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from temporalio.client import WorkflowHistory
from temporalio.worker import (
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)

from little_loops.fleet.workflow import RunWorkflow

HISTORIES = Path(__file__).parent / "histories"
JSON = base64.b64encode(b"json/plain").decode()


class Golden(NamedTuple):
    """The history of a workflow execution, and the commands that the workflow gave."""

    workflow: str
    events: list[Any]
    commands: list[Any]

    @classmethod
    def read(cls, path: Path) -> Golden:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """Write a line for each event and each command."""
        events, commands = (",\n".join(map(text_of, each)) for each in (self.events, self.commands))
        name = json.dumps(self.workflow)
        path.write_text(
            f'{{"workflow": {name},\n"events": [\n{events}\n],\n"commands": [\n{commands}\n]}}\n'
        )


def text_of(each: Any) -> str:
    return json.dumps(each, sort_keys=True, ensure_ascii=False)


class Recorder(UnsandboxedWorkflowRunner):
    """Runs workflows as a worker does, and remembers their commands."""

    def __init__(self) -> None:
        self.commands: list[Any] = []

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return RecordedInstance(super().create_instance(det), self.commands)


class RecordedInstance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance, commands: list[Any]) -> None:
        self._instance = instance
        self._commands = commands

    def activate(self, act: Any) -> Any:
        completion = self._instance.activate(act)
        self._commands += map(readable, map(MessageToDict, completion.successful.commands))
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Any:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()


async def replayed(
    workflow: str, events: Sequence[Any], workflows: Sequence[type] = (RunWorkflow,)
) -> list[Any]:
    """Return the commands that the present code gives for these events. Raises what Temporal raises if
    they do not lead to the same events."""
    recorder = Recorder()
    replayer = Replayer(workflows=workflows, unsandboxed_workflow_runner=recorder)
    history = WorkflowHistory.from_json(workflow, {"events": as_sent(events)})
    await replayer.replay_workflow(history)
    return recorder.commands


def readable(message: Any) -> Any:
    """Return a message with the data of its payloads."""

    def decoded(payload: dict[str, Any]) -> Any:
        is_json = payload.get("metadata") == {"encoding": JSON}
        return {"json": json.loads(base64.b64decode(payload["data"]))} if is_json else payload

    return _changed(message, lambda each: "metadata" in each and "data" in each, decoded)


def as_sent(message: Any) -> Any:
    """Return a message whose payloads are as Temporal writes them."""

    def encoded(payload: dict[str, Any]) -> Any:
        data = json.dumps(payload["json"], separators=(",", ":")).encode()
        return {"metadata": {"encoding": JSON}, "data": base64.b64encode(data).decode()}

    return _changed(message, lambda each: each.keys() == {"json"}, encoded)


def _changed(
    value: Any, is_payload: Callable[[dict[str, Any]], bool], change: Callable[[Any], Any]
) -> Any:
    match value:
        case dict() if is_payload(value):
            return change(value)
        case dict():
            return {key: _changed(each, is_payload, change) for key, each in value.items()}
        case list():
            return [_changed(each, is_payload, change) for each in value]
        case _:
            return value
