"""A model server on 127.0.0.1 that says what a script tells it to.

It speaks what the real agent CLIs speak, Anthropic Messages (`claude`) and OpenAI Responses
(`codex`), so that a test can run the real program, with real tools on real files, and no account.
A script is a list of rules.  The rule is the first one whose words occur in the newest message of a
person that any rule knows; the step is the number of turns the model has had since.  So the answer
follows from the conversation alone: a retry, a resumed session or two sessions at once get what
they should.

    with FakeModel(Rule("fix the types", Call("Write", {...}), Say("done"))) as model:
        ...                          # ANTHROPIC_BASE_URL=model.url; a codex provider: model.url/v1
        assert model.asked[0].said == "fix the types"

The last reply of a rule is repeated for ever.  A trouble with `times` happens that often and is
then as if it were not in the script: `Fail(429, times=1), Say("ok")` is a limit that goes away.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from tests.live.fake_replies import (
    Answer,
    Call,
    Calls,
    Cut,
    Fail,
    Hang,
    Json,
    Reply,
    Say,
    Sick,
    Turn,
    message_stream,
    message_whole,
    response_stream,
    turns_in_messages,
    turns_in_responses,
)

__all__ = ["Answer", "Call", "Calls", "Cut", "Fail", "FakeModel", "Hang", "Rule", "Say", "Sick"]

OK = Say("ok")


class Rule:
    """What to do when a person's message contains `words` (or matches, if it is a pattern)."""

    def __init__(self, words: str | re.Pattern[str], *replies: Reply) -> None:
        self.words = words
        self.replies = replies
        self.left = [times_of(reply) for reply in replies]

    def matches(self, message: str) -> bool:
        if isinstance(self.words, str):
            return self.words in message
        return self.words.search(message) is not None

    def reply(self, step: int) -> Reply:
        """The reply for this step; counts a passing trouble down."""
        lasting: list[Reply] = []
        for index, reply in enumerate(self.replies):
            left = self.left[index]
            if left is None:
                lasting.append(reply)
                if len(lasting) > step:
                    return reply
            elif left > 0 and len(lasting) == step:
                self.left[index] = left - 1
                return reply
        return lasting[-1] if lasting else OK


def times_of(reply: Reply) -> int | None:
    return reply.times if isinstance(reply, Fail | Sick | Cut | Hang) else None


class Asked(NamedTuple):
    """One request, as the server understood it."""

    path: str
    headers: Mapping[str, str]
    body: Json
    said: str  # the message of a person that decided
    step: int
    reply: Reply
    number: int


class FakeModel:
    """The server, from `with` to the end of the block, on a free port."""

    def __init__(self, *rules: Rule, otherwise: Reply = OK) -> None:
        self.rules = rules
        self.otherwise = otherwise
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_for(self, enough: Callable[[Sequence[Asked]], bool], timeout_s: float = 30.0) -> bool:
        """Wait until the requests so far are `enough`; say whether they were."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self.asked), timeout_s)

    def decide(self, path: str, headers: Mapping[str, str], body: Json, turns: list[Turn]) -> Asked:
        """Pick the reply for a conversation, and remember that it was requested."""
        with self._changed:
            said, step, reply = self._pick(turns)
            asked = Asked(path, headers, body, said, step, reply, len(self.asked) + 1)
            self.asked.append(asked)
            self._changed.notify_all()
            return asked

    def _pick(self, turns: list[Turn]) -> tuple[str, int, Reply]:
        step = 0
        for turn in reversed(turns):
            step += turn.of_model
            for rule in self.rules:
                if turn.text and rule.matches(turn.text):
                    return turn.text, step, rule.reply(step)
        return "", step, self.otherwise


class _Handler(BaseHTTPRequestHandler):
    fake: FakeModel

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test's own output is what matters."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._send_json(200, {"data": [], "models": [], "has_more": False})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length)
        try:
            self._answer(self.path.split("?")[0], json.loads(data or b"{}"))
        except ValueError:
            error = {"type": "invalid_request_error", "message": "not JSON"}
            self._send_json(400, {"type": "error", "error": error})
        except (BrokenPipeError, ConnectionResetError):
            pass  # the CLI was stopped while we spoke, which is often the point of the test

    def _answer(self, path: str, body: Json) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if path.endswith("/messages/count_tokens"):
            self._send_json(200, {"input_tokens": len(json.dumps(body)) // 4})
        elif path.endswith("/messages"):
            self._messages(self.fake.decide(path, headers, body, turns_in_messages(body)))
        elif path.endswith("/responses"):
            self._responses(self.fake.decide(path, headers, body, turns_in_responses(body)))
        else:
            error = {"type": "not_found_error", "message": path}
            self._send_json(404, {"type": "error", "error": error})

    def _messages(self, asked: Asked) -> None:
        model, ident = str(asked.body.get("model", "fake")), f"{asked.number:04d}"
        if self._troubled(asked.reply):
            return
        if asked.body.get("stream"):
            self._send_stream(message_stream(asked.reply, model, ident))
        elif isinstance(asked.reply, Sick):
            self._troubled(Fail(529, asked.reply.kind, asked.reply.message))
        elif not isinstance(asked.reply, Cut):
            self._send_json(200, message_whole(asked.reply, model, ident))

    def _responses(self, asked: Asked) -> None:
        if not self._troubled(asked.reply):
            self._send_stream(response_stream(asked.reply, f"{asked.number:04d}"))

    def _troubled(self, reply: Reply) -> bool:
        """Deal with the troubles that come before any stream."""
        if isinstance(reply, Fail):
            error = {"type": reply.kind, "message": reply.message, "code": reply.kind}
            self._send_json(reply.status, {"type": "error", "error": error}, reply.headers)
        elif isinstance(reply, Hang):
            self.fake.closing.wait(reply.seconds)
        return isinstance(reply, Fail | Hang)

    def _send_json(self, status: int, body: Json, headers: Mapping[str, str] = {}) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_stream(self, chunks: Iterator[bytes]) -> None:
        # HTTP/1.0: the end of the connection is the end of the stream, so a cut needs no trick.
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(chunk)
            self.wfile.flush()
