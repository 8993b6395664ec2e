"""The connection to the host, on rank 0, and the order of the operations."""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque

import torch
import transformers

from .checks import check
from .engine import Engine
from .messages import VERSION, InvalidRequest, Message, answer, head_of, read, receive, refusal, send, write
from .ranks import Ranks
from .sampling import columns_in_memory

_STEPS = 8
"""Number of sampling passes after which new requests are read."""
_ROWS = 256
"""Maximum number of rows of a rank."""
_PREFILL = 1 << 14
"""Maximum number of tokens, with padding, of a pass that admits requests; a longer request is admitted alone."""


class Connection:
    """The socket of the host, read by a thread."""

    def __init__(self, path: str, ranks: Ranks) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._ranks = ranks
        self._bodies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        versions = {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}
        self.send(answer(0, "hello", {}, version=VERSION, ranks=ranks.size, device=ranks.device.type, **versions))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self._socket.makefile("rb")
        try:
            while (body := receive(stream)) is not None:
                self._bodies.put(body)
        except (OSError, ValueError) as error:
            print(f"the connection to the host failed: {error}", flush=True)
        self._ranks.end()

    def send(self, body: bytes) -> None:
        """Sends an answer. If the host is gone, all ranks end."""
        try:
            send(self._socket, body)
        except OSError:
            self._ranks.end()

    def next(self, wait: bool) -> bytes | None:
        """Next body; `None` if there is none and the caller does not wait."""
        return self._bodies.get() if wait or not self._bodies.empty() else None


class Host:
    """Order of the operations.

    Training requests are followed in the order in which they come, between passes of sampling. The first step after a
    publication waits until the replies in progress have ended, and no reply begins before the next publication.
    """

    def __init__(self, connection: Connection, engine: Engine) -> None:
        self._connection = connection
        self._engine = engine
        self._training: deque[Message] = deque()
        self._waiting: deque[Message] = deque()
        self._live: dict[int, tuple[int, int]] = {}  # rank of each reply in progress, and its longest length in tokens

    def run(self) -> None:
        """Follows requests until the request `close`. Training requests and sampling take turns."""
        while not self._engine.closed:
            self._receive()
            if self._training and not self._drains():
                message = self._training.popleft()
                if not self._refuses(message):
                    self._operate([message.body])
                if message.kind == "open":
                    self._waiting = deque(waiting for waiting in self._waiting if not self._refuses(waiting))
            if self._can_sample() and not self._engine.closed:
                self._operate(self._sampling())

    def _operate(self, bodies: list[bytes]) -> None:
        for body in self._engine.run(self._engine.ranks.broadcast(bodies)):
            self._live.pop(head_of(body)["id"], None)
            self._connection.send(body)

    def _receive(self) -> None:
        """Sorts the requests that have arrived, and waits for one if there is nothing to do."""
        body = self._connection.next(wait=not (self._training or self._can_sample()))
        while body is not None:
            self._sort(body)
            body = self._connection.next(wait=False)

    def _sort(self, body: bytes) -> None:
        number = 0
        try:
            number = head_of(body)["id"]
            message = read(body)
        except InvalidRequest as error:
            self._connection.send(refusal(number, str(error)))
            return
        if message.kind != "generate":
            self._training.append(message)
        elif not self._refuses(message):
            self._waiting.append(message)

    def _refuses(self, message: Message) -> bool:
        """Checks a request, and answers it if it is invalid."""
        try:
            check(message, self._engine.training)
        except InvalidRequest as error:
            self._connection.send(refusal(message.id, f"{message.kind}: {error}"))
            return True
        return False

    def _drains(self) -> bool:
        """Whether the next training request waits for the replies in progress."""
        return bool(self._live) and bool(self._training) and self._training[0].kind in ("step", "open")

    def _can_sample(self) -> bool:
        return bool(self._live) or (bool(self._waiting) and not self._engine.paused)

    def _sampling(self) -> list[bytes]:
        """Bodies of an operation that samples, and of the requests that it admits, each for the rank in `owners`."""
        owners: list[int] = []
        bodies: list[bytes] = []
        prompts: dict[int, list[int]] = {}
        while self._waiting and not self._engine.paused and not self._drains():
            rank = self._admit(self._waiting[0], prompts)
            if rank is None:
                break
            owners.append(rank)
            bodies.append(self._waiting.popleft().body)
        order = {"kind": "sample", "owners": owners, "steps": _STEPS}
        return [write(0, {"request": order}), *bodies]

    def _admit(self, message: Message, prompts: dict[int, list[int]]) -> int | None:
        """Counts a request at the rank with the fewest rows; `None` if there is no room.

        `prompts` has the lengths of the prompts that each rank admits in this operation.
        """
        ranks, training = self._engine.ranks, self._engine.training
        assert training
        rows = [[length for owner, length in self._live.values() if owner == rank] for rank in range(ranks.size)]
        rank = min(range(ranks.size), key=lambda rank: len(rows[rank]))
        prompt = len(message.tensors["tokens"])
        longest = min(prompt + message.request["max_tokens"], training.network.context)
        admitted = [*prompts.get(rank, []), prompt]
        columns = (len(rows[rank]) + 1) * max([longest, *rows[rank]])
        full = len(rows[rank]) >= _ROWS or columns > columns_in_memory(training.network, ranks)
        if (full and rows[rank]) or (len(admitted) > 1 and len(admitted) * max(admitted) > _PREFILL):
            return None
        prompts[rank] = admitted
        self._live[message.id] = (rank, longest)
        return rank
