"""Outgoing HTTP to the hosts that the run allows. Secrets are added by the host and never seen here. Needs `http`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .host import capability, missing

_host = capability("http")


@dataclass(frozen=True)
class Response:
    """What a server answered."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def send(
    method: str, url: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", timeout: int = 10_000
) -> Response:
    """Sends a request and waits for the whole response, `timeout` milliseconds at most.

    Raises `Denied` for a host that the run does not allow; `Error` when the network fails.
    """
    if _host is None:
        missing("http")
    from ._component.convert import raised

    with raised():
        request = _host.Request(method, url, [_host.Header(*header) for header in headers], body, timeout)
        response = _host.send(request)
    return Response(response.status, [(header.name, header.value) for header in response.headers], response.body)
