"""What the server answers if it cannot do what was asked."""

from __future__ import annotations

from typing import Any

from little_loops.errors import LittleLoopsError


class ApiError(Exception):
    """An answer with a status of 400 or more; `more` is added to the body, beside `error`."""

    def __init__(
        self, status: int, code: str, message: str, help: str | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.help = help
        self.more = more

    def as_json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message, "help": self.help}
        return {"error": error, **self.more}


def bad_request(message: str, help: str | None = None) -> ApiError:
    return ApiError(400, "bad_request", message, help)


def not_found(code: str, message: str, help: str | None = None) -> ApiError:
    """Return the error for something that does not exist: `unknown_run`, `unknown_loop`, …"""
    return ApiError(404, code, message, help)


class LoopNotRecorded(LittleLoopsError):
    """The files of a run do not say which loop it ran: they are damaged, or are moving just now."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the saved files for run `{name}` do not record which loop it ran")
