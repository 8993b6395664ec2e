"""A server on loopback that answers as vLLM 0.32.0 was recorded to answer, with replies of a function."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

START, END = 256, 257
LOG_PROB = -0.25
TEMPLATE = """\
{%- for tool in tools or [] %}{{ '<|start|>tool\\n' + (tool | tojson) + '<|end|>\\n' }}{% endfor %}
{%- for message in messages %}{{ '<|start|>' + message.role + '\\n' + message.content + '<|end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"""


def _characters() -> dict[str, int]:
    """The character that stands for each byte in byte-level tokenizers, with the byte as its id."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + at): byte for at, byte in enumerate(others)}}


def write_model(folder: Path) -> Path:
    """A model without weights: each byte is a token, and `<|start|>` and `<|end|>` are 256 and 257."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": START, "content": "<|start|>", **special}, {"id": END, "content": "<|end|>", **special}],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": _characters(), "merges": []},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "config.json").write_text(json.dumps({"vocab_size": 258, "max_position_embeddings": 8192}))
    return folder


def tokens_of(text: str) -> list[int]:
    """Ids of a text with marks."""
    ids: list[int] = []
    for part in re.split(r"(<\|start\|>|<\|end\|>)", text):
        ids += {"<|start|>": [START], "<|end|>": [END]}.get(part) or list(part.encode())
    return ids


def text_of(tokens: list[int]) -> str:
    """Text of ids, with the marks."""
    marks = {START: b"<|start|>", END: b"<|end|>"}
    return b"".join(marks.get(token, bytes([token & 255])) for token in tokens).decode()


def replies_in(prompt: str) -> int:
    """Number of replies that a prompt holds already."""
    return prompt.count("<|start|>assistant\n") - 1


@dataclass
class Model:
    """What the server answers. `reply` gets the prompt's text and returns the text of the policy."""

    reply: Callable[[str], str]
    root: Path | str
    name: str = "tiny"
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    refuse: int | None = None
    with_tokens: bool = True
    url: str = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["prompt"]
        # The client asks for one token to see whether there are ids.
        tokens = [65] if prompt == [0] else [*self.reply(text_of(prompt)).encode(), END]
        stopped = len(tokens) <= body["max_tokens"] and tokens[-1] == END
        tokens = tokens[: body["max_tokens"]]
        ids = {"token_ids": tokens, "prompt_token_ids": prompt} if self.with_tokens else {}
        log_probs = {"token_logprobs": [LOG_PROB] * len(tokens), "tokens": [f"token_id:{token}" for token in tokens]}
        choice = {"index": 0, "text": "", "finish_reason": "stop" if stopped else "length", **ids}
        return {"object": "text_completion", "choices": [{**choice, "logprobs": log_probs if self.with_tokens else None}]}


@contextmanager
def served(model: Model) -> Iterator[Model]:
    """Serves the model; `model.url` is the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = {"id": model.name, "root": str(model.root), "max_model_len": 4096}
            self._send(200, {"object": "list", "data": [found]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.headers.append({name.lower(): value for name, value in self.headers.items()})
            model.requests.append(body)
            if model.refuse is not None and body["prompt"] != [0]:
                self._send(model.refuse, {"error": "out of order"})
            else:
                self._send(200, model.answer(body))

        def _send(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
