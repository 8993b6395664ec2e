"""Outbound HTTP to the servers that the run allows. The host adds secrets. Requires the capability `http`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .host import capability, missing

_host = capability("http")


@dataclass(frozen=True)
class Response:
    """Response of a server."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def send(
    method: str, url: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", timeout: int = 10_000
) -> Response:
    """Sends a request and waits up to `timeout` milliseconds for the complete response.

    Raises `Denied` for a server that the run does not allow and `Error` for a network failure.
    """
    if _host is None:
        missing("http")
    from ._component.convert import raised

    with raised():
        request = _host.Request(method, url, [_host.Header(*header) for header in headers], body, timeout)
        response = _host.send(request)
    return Response(response.status, [(header.name, header.value) for header in response.headers], response.body)
