"""A small real HTTP server that speaks just enough of the OpenAI API, and can misbehave on request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any


@dataclass
class Reply:
    """What the server sends: a status, a body, how slowly, or nothing at all."""

    body: Any = None
    status: int = 200
    content_type: str = "application/json"
    delay_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    hangs_up: bool = False
    cuts_body_at: int | None = None

    def data(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


@dataclass
class FakeServer:
    """Replies in order, the last one for ever; remembers the requests it got."""

    url: str = ""
    models: list[Reply] = field(default_factory=list)
    chats: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Paths of the calls that are not OpenAI's."""
    other: Callable[[str, Any], Reply] = lambda path, body: Reply({"detail": "Not Found"}, status=404)
    listening: Any = None
    closing: threading.Event = field(default_factory=threading.Event)

    def next_reply(self, replies: list[Reply]) -> Reply:
        if not replies:
            return Reply({"detail": "Not Found"}, status=404)
        return replies.pop(0) if len(replies) > 1 else replies[0]


def model_list(*names: str, owner: str = "vllm") -> Reply:
    return Reply({"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner} for name in names]})


def chat(content: Any = "hello", **choice: Any) -> Reply:
    message = {"role": "assistant", "content": content, **choice.pop("message", {})}
    whole = {"index": 0, "message": message, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return Reply({"id": "1", "object": "chat.completion", "model": "tiny", "choices": [whole], "usage": usage})


def sse(*pieces: Any, done: bool = True) -> Reply:
    """A stream of pieces, as vLLM sends it."""
    lines = [piece if isinstance(piece, str) else f"data: {json.dumps(piece)}" for piece in pieces]
    body = "\n\n".join([*lines, *(["data: [DONE]"] if done else [])]) + "\n\n"
    return Reply(body, content_type="text/event-stream; charset=utf-8")


def piece(text: str = "", index: int = 0, **choice: Any) -> dict[str, Any]:
    delta = {"content": text, **choice.pop("delta", {})}
    return {"id": "1", "model": "tiny", "choices": [{"index": index, "delta": delta, **choice}]}


def handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(server.next_reply(server.models))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.path.endswith("/chat/completions"):
                server.calls.append(self.path)
                self._answer(server.other(self.path, body))
                return
            server.keys.append(self.headers.get("Authorization", ""))
            server.requests.append(body)
            self._answer(server.next_reply(server.chats))

        def _answer(self, reply: Reply) -> None:
            server.closing.wait(reply.delay_s)
            if reply.hangs_up:
                self.close_connection = True
                return
            data = reply.data()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(data)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: reply.cuts_body_at])
            self.close_connection = self.close_connection or reply.cuts_body_at is not None

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing on stderr."""

    return Handler
