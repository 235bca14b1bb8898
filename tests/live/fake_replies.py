"""What the fake model can do, and how each protocol writes it on the wire.

A reply says what happens next; `message_stream` and `message_whole` write it as Anthropic Messages,
`response_stream` as OpenAI Responses.  The other way round, `turns_in_messages` and `turns_in_responses`
read a conversation out of a request.

Not here: which reply is due, and the server (`fake_model`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]


class Say(NamedTuple):
    """End the turn with this text."""

    text: str
    tokens: tuple[int, int] = (100, 20)
    stop: str = "end_turn"


class Call(NamedTuple):
    """Call a tool, after saying `text` if there is any."""

    tool: str
    given: Mapping[str, Any]
    text: str = ""
    tokens: tuple[int, int] = (100, 20)


class Calls(NamedTuple):
    """Call several tools in one message."""

    calls: tuple[Call, ...]
    tokens: tuple[int, int] = (100, 20)


class Answer(NamedTuple):
    """Give a structured answer, in the way the protocol has for it."""

    fields: Mapping[str, Any]
    text: str = ""
    tokens: tuple[int, int] = (100, 20)


class Fail(NamedTuple):
    """Answer with an HTTP error."""

    status: int
    kind: str = "api_error"
    message: str = "scripted failure"
    headers: Mapping[str, str] = {}
    times: int | None = None


class Sick(NamedTuple):
    """Begin a good stream, then report an error inside it."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"
    times: int | None = None


class Cut(NamedTuple):
    """Begin to speak, then close the connection."""

    text: str = "I will now"
    times: int | None = None


class Hang(NamedTuple):
    """Say nothing until the time is up or the server closes."""

    seconds: float = 60.0
    times: int | None = None


Reply = Say | Call | Calls | Answer | Fail | Sick | Cut | Hang


class Turn(NamedTuple):
    """A piece of a conversation: whose it is, and a person's words without the CLI's reminders."""

    of_model: bool
    text: str = ""


REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


def turns_in_messages(body: Json) -> list[Turn]:
    turns = []
    for message in body.get("messages", []):
        content = message.get("content", "")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        if message.get("role") == "assistant":
            turns.append(Turn(of_model=True))
        elif message.get("role") == "user":
            turns.append(Turn(False, REMINDER.sub("", "\n".join(texts)).strip()))
    return turns


def turns_in_responses(body: Json) -> list[Turn]:
    items = body.get("input", [])
    if isinstance(items, str):
        return [Turn(False, items)]
    turns: list[Turn] = []
    for item in items:
        if of_the_model(item):
            # A message and the calls beside it are one turn of the model.
            if not (turns and turns[-1].of_model):
                turns.append(Turn(of_model=True))
        elif item.get("role") == "user":
            content = item.get("content", [])
            parts = [{"text": content}] if isinstance(content, str) else content
            turns.append(Turn(False, "\n".join(part.get("text", "") for part in parts).strip()))
        else:
            turns.append(Turn(of_model=False))
    return turns


def of_the_model(item: Json) -> bool:
    made = ("function_call", "custom_tool_call", "local_shell_call", "reasoning")
    return item.get("type") in made or item.get("role") == "assistant"


def tokens_of(reply: Reply) -> tuple[int, int]:
    return reply.tokens if isinstance(reply, Say | Call | Calls | Answer) else (100, 20)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def message_blocks(reply: Reply, ident: str) -> list[Json]:
    """The content of an Anthropic message."""

    def tool(call: Call, at: int) -> Json:
        made = {"type": "tool_use", "id": f"toolu_{ident}_{at}", "name": call.tool}
        return {**made, "input": dict(call.given)}

    def words(text: str) -> list[Json]:
        return [{"type": "text", "text": text}] if text else []

    match reply:
        case Say() | Cut():
            return [{"type": "text", "text": reply.text}]
        case Call():
            return [*words(reply.text), tool(reply, 0)]
        case Calls():
            return [tool(call, at) for at, call in enumerate(reply.calls)]
        case Answer():
            return [*words(reply.text), tool(Call("StructuredOutput", reply.fields), 0)]
        case _:
            return []


def message_whole(reply: Reply, model: str, ident: str) -> Json:
    """Anthropic Messages without streaming: what the CLI falls back to after a cut stream."""
    read, wrote = tokens_of(reply)
    whole: Json = {"id": f"msg_{ident}", "type": "message", "role": "assistant", "model": model}
    whole["content"] = message_blocks(reply, ident)
    whole["stop_reason"] = reply.stop if isinstance(reply, Say) else "tool_use"
    whole["stop_sequence"] = None
    whole["usage"] = {"input_tokens": read, "output_tokens": wrote}
    return whole


def message_stream(reply: Reply, model: str, ident: str) -> Iterator[bytes]:
    """Anthropic Messages, server-sent events."""
    whole = message_whole(reply, model, ident)
    # As the real one does: the count of what was written is true only at the end.
    begun: Json = {
        "content": [],
        "stop_reason": None,
        "usage": {**whole["usage"], "output_tokens": 1},
    }
    yield event("message_start", message={**whole, **begun})
    if isinstance(reply, Sick):
        yield event("error", error={"type": reply.kind, "message": reply.message})
        return
    for index, block in enumerate(whole["content"]):
        yield from block_stream(index, block)
        if isinstance(reply, Cut):
            return
        yield event("content_block_stop", index=index)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ending, usage=whole["usage"])
    yield event("message_stop")


def block_stream(index: int, block: Json) -> Iterator[bytes]:
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield event("content_block_start", index=index, content_block=empty)
    yield event("content_block_delta", index=index, delta=delta)


def response_items(reply: Reply, ident: str) -> list[Json]:
    """The output items of an OpenAI response."""

    def message(text: str) -> list[Json]:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "role": "assistant", "id": f"item_{ident}", "content": [part]}
        return [item] if text else []

    def call(made: Call, at: int) -> Json:
        ids = {"id": f"fc_{ident}_{at}", "call_id": f"call_{ident}_{at}"}
        given = json.dumps(dict(made.given))
        return {"type": "function_call", "name": made.tool, "arguments": given, **ids}

    match reply:
        case Say() | Cut():
            return message(reply.text)
        case Call():
            return [*message(reply.text), call(reply, 0)]
        case Calls():
            return [call(made, at) for at, made in enumerate(reply.calls)]
        case Answer():
            return message(json.dumps(dict(reply.fields)))
        case _:
            return []


def response_stream(reply: Reply, ident: str) -> Iterator[bytes]:
    """OpenAI Responses, server-sent events."""
    response: Json = {"id": f"resp_{ident}", "object": "response", "status": "in_progress"}
    yield event("response.created", response=response)
    if isinstance(reply, Sick):
        error = {"code": reply.kind, "message": reply.message}
        yield event("response.failed", response={**response, "status": "failed", "error": error})
        return
    items = response_items(reply, ident)
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=item)
        if isinstance(reply, Cut):
            return
        yield event("response.output_item.done", output_index=index, item=item)
    read, wrote = tokens_of(reply)
    usage: Json = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
    usage["input_tokens_details"] = {"cached_tokens": 0}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    done = {**response, "status": "completed", "output": items, "usage": usage}
    yield event("response.completed", response=done)
