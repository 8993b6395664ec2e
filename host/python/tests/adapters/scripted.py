"""A server whose model is a function: JSON in, JSON out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Answer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        payload = json.dumps(type(self).answer(request)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve(answer: Answer) -> Iterator[str]:
    """The address of a server that answers each POST."""
    server = Server(("127.0.0.1", 0), type("Scripted", (Handler,), {"answer": staticmethod(answer)}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def chat_completion(message: dict[str, Any]) -> dict[str, Any]:
    """A message as an answer of OpenAI's chat completions."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
