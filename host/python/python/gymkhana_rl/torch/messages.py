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
from typing import Any, BinaryIO

import safetensors.torch
import torch

VERSION = 1
MAX_FRAME = 4 << 30  # bytes of the longest body
Tensors = Mapping[str, torch.Tensor]


class InvalidRequest(Exception):
    """A request that the engine refuses. The engine continues."""


@dataclass(frozen=True)
class Message:
    """A request with its tensors, and the body from which it was read."""

    id: int
    kind: str
    request: dict[str, Any]
    tensors: Tensors
    body: bytes


def head_of(body: bytes) -> dict[str, Any]:
    """Head of a body. Raises `InvalidRequest` if there is none with an `id`."""
    try:
        (length,) = struct.unpack_from("<Q", body)
        if length > len(body) - 8:
            raise ValueError(f"the header has {length} bytes and the body {len(body)}")
        head = json.loads(json.loads(body[8 : 8 + length])["__metadata__"]["gymkhana"])
        return {**head, "id": int(head["id"])}
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise InvalidRequest(f"malformed head: {type(error).__name__}: {error}") from error


def read(body: bytes) -> Message:
    """Request of a body. Raises `InvalidRequest` if it is malformed, or has another version."""
    head = head_of(body)
    if head.get("version") != VERSION:
        raise InvalidRequest(f"version {head.get('version')} of the messages: the engine has version {VERSION}")
    request = head.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("kind"), str):
        raise InvalidRequest("malformed head: it has no request with a `kind`")
    try:
        return Message(head["id"], request["kind"], request, safetensors.torch.load(body), body)
    except Exception as error:
        raise InvalidRequest(f"malformed tensors: {error}") from error


def write(number: int, content: Mapping[str, Any], tensors: Tensors | None = None) -> bytes:
    """Body of a message with the number of a request."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in (tensors or {}).items()}
    head = json.dumps({"version": VERSION, "id": number, **content})
    body: bytes = safetensors.torch.save(held, {"gymkhana": head})
    return body


def answer(number: int, kind: str, tensors: Tensors | None = None, **fields: Any) -> bytes:
    """Body of the answer to a request."""
    return write(number, {"answer": {"kind": kind, **fields}}, tensors)


def refusal(number: int, text: str) -> bytes:
    """Body of the answer to a refused request."""
    return write(number, {"error": {"kind": "invalid", "text": text}})


def send(connection: socket.socket, body: bytes) -> None:
    """Writes a frame."""
    connection.sendall(struct.pack("<Q", len(body)))
    connection.sendall(body)


def receive(stream: BinaryIO) -> bytes | None:
    """Body of the next frame; `None` at the end of the stream. Raises `ValueError` if it is too long."""
    length = int.from_bytes(start := stream.read(8), "little")
    if length > MAX_FRAME:
        raise ValueError(f"a frame has {length} bytes: the maximum is {MAX_FRAME}")
    body = stream.read(length)
    return body if len(start) == 8 and len(body) == length else None
