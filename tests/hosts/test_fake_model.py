"""The fake model does what its script says, in both protocols."""

from __future__ import annotations

import http.client
import json
import re
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.live.fake_model import (
    Answer,
    Call,
    Calls,
    Cut,
    Fail,
    FakeModel,
    Hang,
    Rule,
    Say,
    Sick,
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def result(text: str = "ok") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "content": text}]}


MODEL = {"role": "assistant", "content": [{"type": "text", "text": "…"}]}


def post(model: FakeModel, path: str, body: Any) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def events(data: bytes) -> list[dict[str, Any]]:
    lines = data.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def messages(model: FakeModel, *conversation: dict[str, Any], stream: bool = True) -> Any:
    body = {"model": "m", "messages": list(conversation), "stream": stream}
    status, _, data = post(model, "/v1/messages?beta=true", body)
    if status != 200 or not stream:
        return status, json.loads(data)
    return events(data)


def spoken(stream: list[dict[str, Any]]) -> str:
    return "".join(e["delta"].get("text", "") for e in stream if e["type"] == "content_block_delta")


def called(stream: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    starts = [e["content_block"] for e in stream if e["type"] == "content_block_start"]
    names = [block["name"] for block in starts if block["type"] == "tool_use"]
    deltas = [e["delta"] for e in stream if e["type"] == "content_block_delta"]
    given = [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta]
    return list(zip(names, given, strict=True))


def test_the_step_follows_from_the_conversation():
    rule = Rule("fix it", Call("Write", {"path": "a"}, "I write."), Say("done"))
    with FakeModel(rule) as model:
        first = messages(model, user("fix it"))
        assert (spoken(first), called(first)) == ("I write.", [("Write", {"path": "a"})])
        assert spoken(messages(model, user("fix it"), MODEL, result())) == "done"
        assert spoken(messages(model, user("fix it"), MODEL, result(), MODEL, result())) == "done"
        assert called(messages(model, user("fix it"))) == [("Write", {"path": "a"})]
        assert [(asked.said, asked.step) for asked in model.asked] == [
            ("fix it", 0),
            ("fix it", 1),
            ("fix it", 2),
            ("fix it", 0),
        ]


def test_the_newest_known_words_of_a_person_decide():
    rules = Rule("first", Say("one")), Rule(re.compile("^sec"), Say("two"))
    reminder = user("<system-reminder>first</system-reminder>hello")
    with FakeModel(*rules, otherwise=Say("?")) as model:
        assert spoken(messages(model, user("first"), MODEL, user("second"))) == "two"
        assert spoken(messages(model, user("first"), MODEL, user("and then?"))) == "one"
        assert spoken(messages(model, reminder)) == "?"
        assert spoken(messages(model, {"role": "user", "content": "a second"})) == "?"
        assert spoken(messages(model, result("first"))) == "?"


def test_a_trouble_passes():
    rule = Rule(
        "go", Fail(429, "rate_limit_error", "slow", {"retry-after": "1"}, times=2), Say("ok")
    )
    with FakeModel(rule) as model:
        body = {"messages": [user("go")], "stream": True}
        for _ in range(2):
            status, headers, data = post(model, "/v1/messages", body)
            assert (status, headers["retry-after"]) == (429, "1")
            assert json.loads(data)["error"]["type"] == "rate_limit_error"
        assert spoken(messages(model, user("go"))) == "ok"
        assert spoken(messages(model, user("go"))) == "ok"


def test_a_trouble_in_the_middle_waits_for_its_step():
    rule = Rule("go", Call("X", {}), Fail(500, times=1), Say("ok"))
    with FakeModel(rule) as model:
        assert called(messages(model, user("go"))) == [("X", {})]
        status, _ = messages(model, user("go"), MODEL, result())
        assert status == 500
        assert spoken(messages(model, user("go"), MODEL, result())) == "ok"


def test_several_tools_and_a_structured_answer():
    calls = Calls((Call("A", {"n": 1}), Call("B", {"n": 2})))
    with FakeModel(Rule("go", calls, Answer({"verdict": "pass"}, "So."))) as model:
        assert called(messages(model, user("go"))) == [("A", {"n": 1}), ("B", {"n": 2})]
        stream = messages(model, user("go"), MODEL, result())
        assert (spoken(stream), called(stream)) == (
            "So.",
            [("StructuredOutput", {"verdict": "pass"})],
        )


def test_without_streaming():
    rules = Rule("go", Say("ok", tokens=(7, 3), stop="refusal")), Rule("sick", Sick())
    with FakeModel(*rules) as model:
        status, whole = messages(model, user("go"), stream=False)
        assert (status, whole["content"]) == (200, [{"type": "text", "text": "ok"}])
        assert whole["usage"] == {"input_tokens": 7, "output_tokens": 3}
        assert whole["stop_reason"] == "refusal"
        status, error = messages(model, user("sick"), stream=False)
        assert (status, error["error"]["type"]) == (529, "overloaded_error")


def test_streams_that_break():
    with FakeModel(Rule("sick", Sick()), Rule("cut", Cut("half"))) as model:
        assert messages(model, user("sick"))[-1]["error"]["type"] == "overloaded_error"
        stream = messages(model, user("cut"))
        assert spoken(stream) == "half"
        assert stream[-1]["type"] == "content_block_delta"
        with pytest.raises((http.client.HTTPException, OSError)):
            messages(model, user("cut"), stream=False)


def test_hanging_ends_with_the_server():
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            messages(model, user("go"))
        except (OSError, http.client.HTTPException) as error:
            failures.append(error)

    with FakeModel(Rule("go", Hang(60))) as model:
        thread = threading.Thread(target=ask)
        thread.start()
        assert model.wait_for(lambda asked: len(asked) == 1, 10)
    thread.join(10)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_other_addresses():
    with FakeModel() as model:
        assert post(model, "/v1/messages/count_tokens", {"messages": []})[0] == 200
        assert post(model, "/v1/nothing", {})[0] == 404
        with urllib.request.urlopen(model.url + "/v1/models", timeout=10) as answer:
            assert json.load(answer)["data"] == []
        head = urllib.request.Request(model.url, method="HEAD")
        with urllib.request.urlopen(head, timeout=10) as answer:
            assert answer.status == 200
        connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/messages", b"{")
        assert connection.getresponse().status == 400
        connection.close()


# OpenAI Responses


def responses(model: FakeModel, *items: dict[str, Any]) -> list[dict[str, Any]]:
    return events(post(model, "/v1/responses", {"input": list(items)})[2])


SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
CALLED = {"type": "function_call", "name": "run"}
OUTPUT = {"type": "function_call_output", "output": "ok"}


def done_items(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in stream if event["type"] == "response.output_item.done"]


def test_responses():
    rule = Rule("go", Call("run", {"cmd": "ls"}, "I look."), Answer({"verdict": "pass"}))
    with FakeModel(rule) as model:
        first = responses(model, SAID)
        text, call = done_items(first)
        assert text["content"][0]["text"] == "I look."
        assert (call["name"], json.loads(call["arguments"])) == ("run", {"cmd": "ls"})
        usage = first[-1]["response"]["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (100, 20)
        spoke = {"type": "message", "role": "assistant", "content": []}
        (answer,) = done_items(responses(model, SAID, spoke, CALLED, OUTPUT))
        assert json.loads(answer["content"][0]["text"]) == {"verdict": "pass"}
        assert [asked.step for asked in model.asked] == [0, 1]
        assert responses(model, {"role": "user", "content": "go"})
        assert post(model, "/v1/responses", {"input": "go"})[0] == 200
        assert [asked.said for asked in model.asked[2:]] == ["go", "go"]


def test_responses_that_break():
    sick = Rule("go", Sick("context_length_exceeded", "too long", times=1), Cut("half", times=1))
    with FakeModel(sick) as model:
        failed = responses(model, SAID)[-1]["response"]
        assert failed["error"] == {"code": "context_length_exceeded", "message": "too long"}
        assert [event["type"] for event in responses(model, SAID)] == [
            "response.created",
            "response.output_item.added",
        ]
        assert done_items(responses(model, SAID))[0]["content"][0]["text"] == "ok"


def test_responses_with_several_calls():
    with FakeModel(Rule("go", Calls((Call("a", {}), Call("b", {}))))) as model:
        calls = done_items(responses(model, SAID))
        assert [call["call_id"] for call in calls] == ["call_0001_0", "call_0001_1"]
