"""Messages between the host and the engine, version 1.

A message is a frame: a length in bytes (unsigned, 64 bits, little-endian), then a body in the layout of safetensors
files. The entry `gymkhana` of the body's metadata is the head as JSON.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import safetensors.torch
import torch

VERSION = 1
ENTRY = "gymkhana"
MAX_FRAME = 4 << 30
"""Length of the longest body, in bytes."""


class InvalidRequest(Exception):
    """A request that the engine refuses. The engine continues."""


@dataclass(frozen=True)
class Message:
    """A message from the host, or from rank 0 to the other ranks."""

    head: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    body: bytes

    @property
    def id(self) -> int:
        """Number of the request."""
        return int(self.head["id"])

    @property
    def request(self) -> dict[str, Any]:
        """The request, with its `kind`."""
        request: dict[str, Any] = self.head["request"]
        return request

    @property
    def kind(self) -> str:
        """Kind of the request."""
        return str(self.request["kind"])


def head_of(body: bytes) -> dict[str, Any]:
    """Head in the metadata of a body.

    Raises:
        InvalidRequest: The body has no head, or its head is not a request.
    """
    try:
        head = _entry(body)
        if not isinstance(head["id"], int) or not isinstance(head["request"]["kind"], str):
            raise ValueError("`id` or `request.kind` has another type")
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise InvalidRequest(f"malformed head: {type(error).__name__}: {error}") from error
    return dict(head)


def answered(body: bytes) -> int:
    """Number of the request that an answer of this engine names."""
    return int(_entry(body)["id"])


def _entry(body: bytes) -> Any:
    (length,) = struct.unpack_from("<Q", body)
    if length > len(body) - 8:
        raise ValueError(f"the header has {length} bytes and the body {len(body)}")
    return json.loads(json.loads(body[8 : 8 + length])["__metadata__"][ENTRY])


def read(body: bytes) -> Message:
    """Message of a body.

    Raises:
        InvalidRequest: The body is malformed, or has another version.
    """
    head = head_of(body)
    if head.get("version") != VERSION:
        raise InvalidRequest(f"version {head.get('version')} of the messages: the engine has version {VERSION}")
    try:
        return Message(head, safetensors.torch.load(body), body)
    except Exception as error:
        raise InvalidRequest(f"malformed tensors: {error}") from error


def write(head: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Body of a message."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    body: bytes = safetensors.torch.save(held, {ENTRY: json.dumps(head)})
    return body


def answer(number: int, kind: str, tensors: Mapping[str, torch.Tensor], **fields: Any) -> bytes:
    """Body of the answer to a request."""
    return write({"version": VERSION, "id": number, "answer": {"kind": kind, **fields}}, tensors)


def refusal(number: int, text: str) -> bytes:
    """Body of the answer to a refused request."""
    return write({"version": VERSION, "id": number, "error": {"kind": "invalid", "text": text}}, {})


def send(connection: socket.socket, body: bytes) -> None:
    """Writes a frame."""
    connection.sendall(struct.pack("<Q", len(body)))
    connection.sendall(body)


def receive(connection: socket.socket) -> bytes | None:
    """Body of the next frame; `None` at the end of the stream.

    Raises:
        ValueError: The frame is longer than `MAX_FRAME`.
    """
    start = _exactly(connection, 8)
    if start is None:
        return None
    (length,) = struct.unpack("<Q", start)
    if length > MAX_FRAME:
        raise ValueError(f"a frame has {length} bytes: the maximum is {MAX_FRAME}")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(min(length - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)
