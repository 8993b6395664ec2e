"""The connection to the host, on rank 0: what comes next, and who is answered."""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque

import torch
import transformers

from .checks import check
from .engine import Engine, sampling_order
from .messages import VERSION, InvalidRequest, Message, answer, answered, head_of, read, receive, refusal, send
from .ranks import Ranks
from .sampling import columns_in_memory

_STEPS = 8
"""Number of sampling passes between two looks at the requests."""
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

    def start(self) -> None:
        """Sends the first message, and reads from now on."""
        versions = {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}
        facts = {"ranks": self._ranks.size, "device": self._ranks.device.type}
        self.send([answer(0, "hello", {}, version=VERSION, **facts, **versions)])
        threading.Thread(target=self._read, name="host", daemon=True).start()

    def _read(self) -> None:
        try:
            while (body := receive(self._socket)) is not None:
                self._bodies.put(body)
        except (OSError, ValueError) as error:
            print(f"the connection to the host failed: {error}", flush=True)
        self._ranks.end()

    def send(self, bodies: list[bytes]) -> None:
        """Sends answers. If the host is gone, all ranks end."""
        try:
            for body in bodies:
                send(self._socket, body)
        except OSError:
            self._ranks.end()

    def next(self, wait: bool) -> bytes | None:
        """Next body; `None` if there is none and the caller does not wait."""
        try:
            return self._bodies.get(block=wait)
        except queue.Empty:
            return None


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
        self._live: dict[int, tuple[int, int]] = {}
        """Rank of each reply in progress, and its longest length in tokens."""
        self._sampled_last = False

    def run(self) -> None:
        """Follows requests until the request `close`."""
        while True:
            self._hear()
            if self._turn_of_training():
                message = self._training.popleft()
                if not self._refused(message):
                    self._operate([message.body])
                    if message.kind == "close":
                        return
                self._sampled_last = False
            elif self._can_sample():
                self._operate(self._sampling())
                self._sampled_last = True

    def _operate(self, bodies: list[bytes]) -> None:
        answers = self._engine.run(self._engine.ranks.broadcast(bodies))
        for body in answers:
            self._live.pop(answered(body), None)
        self._connection.send(answers)

    def _hear(self) -> None:
        """Sorts the requests that have arrived, and waits for one if there is nothing to do."""
        idle = not (self._training or self._can_sample())
        body = self._connection.next(idle)
        while body is not None:
            self._sort(body)
            body = self._connection.next(False)

    def _sort(self, body: bytes) -> None:
        number = 0
        try:
            number = int(head_of(body)["id"])
            message = read(body)
        except InvalidRequest as error:
            self._connection.send([refusal(number, str(error))])
            return
        if message.kind != "generate":
            self._training.append(message)
        elif not self._refused(message):
            self._waiting.append(message)

    def _refused(self, message: Message) -> bool:
        try:
            check(message, self._engine.training)
        except InvalidRequest as error:
            self._connection.send([refusal(message.id, f"{message.kind}: {error}")])
            return True
        return False

    def _drains(self) -> bool:
        """Whether a step, or another model, waits for the replies in progress."""
        return bool(self._live) and bool(self._training) and self._training[0].kind in ("step", "open")

    def _turn_of_training(self) -> bool:
        if not self._training or self._drains():
            return False
        return self._sampled_last or not self._can_sample()

    def _can_sample(self) -> bool:
        if self._live:
            return True
        return bool(self._waiting) and not self._engine.paused

    def _sampling(self) -> list[bytes]:
        """Bodies of an operation that admits requests while there is room, and samples."""
        owners: list[int] = []
        bodies: list[bytes] = []
        widths: dict[int, list[int]] = {}
        while self._waiting and not self._engine.paused and not self._drains():
            message = self._waiting[0]
            rank = self._rank_with_room(message, widths)
            if rank is None:
                break
            owners.append(rank)
            bodies.append(self._waiting.popleft().body)
        return [sampling_order(owners, _STEPS), *bodies]

    def _rank_with_room(self, message: Message, widths: dict[int, list[int]]) -> int | None:
        """Rank with the fewest rows, if it has room; the request is then counted there.

        Args:
            widths: Lengths of the prompts that each rank admits in this operation.
        """
        training = self._engine.training
        assert training
        rows: dict[int, list[int]] = {rank: [] for rank in range(self._engine.ranks.size)}
        for owner, length in self._live.values():
            rows[owner].append(length)
        rank = min(rows, key=lambda rank: (len(rows[rank]), rank))
        prompt = len(message.tensors["tokens"])
        longest = min(prompt + message.request["max_tokens"], training.network.context)
        admitted = [*widths.get(rank, []), prompt]
        columns = (len(rows[rank]) + 1) * max([longest, *rows[rank]])
        full = len(rows[rank]) >= _ROWS or columns > columns_in_memory(training.network, self._engine.ranks)
        if (full and rows[rank]) or (len(admitted) > 1 and len(admitted) * max(admitted) > _PREFILL):
            return None
        widths[rank] = admitted
        self._live[message.id] = (rank, longest)
        return rank
