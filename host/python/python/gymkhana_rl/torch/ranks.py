"""The ranks of `torchrun`: collectives of bytes and numbers, and their common end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

_END = "gymkhana/end"
_POLL = 0.2
"""Seconds between two polls of the end."""
_IDLE = timedelta(days=365)
"""Timeout of collectives that wait for the host's next request."""


class Ranks:
    """All ranks, seen from this one.

    Bytes travel as tensors over gloo, which rank 0 keeps waiting while the host asks nothing. Tensors of the model
    travel over the default group: NCCL on GPUs, gloo on processors.
    """

    def __init__(self) -> None:
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.ending = False
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
            dist.init_process_group("cpu:gloo,cuda:nccl", device_id=self.device)
        else:
            self.device = torch.device("cpu")
            dist.init_process_group("gloo")
        self.control = dist.new_group(backend="gloo", timeout=_IDLE)
        self.mesh = dist.init_device_mesh(self.device.type, (self.size,))
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store = dist.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=60))
        if self.rank > 0:
            threading.Thread(target=self._watch, name="end", daemon=True).start()

    def broadcast(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Bodies of rank 0, on every rank."""
        if self.size == 1:
            return list(bodies)
        count = torch.tensor([len(bodies)])
        dist.broadcast(count, 0, group=self.control)
        lengths = torch.tensor([len(body) for body in bodies] if self.rank == 0 else [0] * int(count))
        dist.broadcast(lengths, 0, group=self.control)
        data = _bytes(b"".join(bodies)) if self.rank == 0 else torch.empty(int(lengths.sum()), dtype=torch.uint8)
        dist.broadcast(data, 0, group=self.control)
        return [part.numpy().tobytes() for part in data.split(lengths.tolist())]

    def gather(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Bodies of all ranks, on every rank."""
        if self.size == 1:
            return list(bodies)
        counts = self._gather(torch.tensor([len(bodies), sum(map(len, bodies))]))
        most, longest = torch.stack(counts).amax(0).tolist()
        if not most:
            return []
        lengths = torch.zeros(most, dtype=torch.int64)
        lengths[: len(bodies)] = torch.tensor([len(body) for body in bodies], dtype=torch.int64)
        all_lengths = self._gather(lengths)
        parts = self._gather(_bytes(b"".join(bodies).ljust(longest, b"\0")))
        found = [
            part[: int(held.sum())].split(held[: int(count[0])].tolist())
            for part, held, count in zip(parts, all_lengths, counts, strict=True)
            if count[0]
        ]
        return [body.numpy().tobytes() for part in found for body in part]

    def _gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor, group=self.control)
        return found

    def total(self, numbers: torch.Tensor) -> torch.Tensor:
        """Sum over the ranks, in place."""
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def from_first(self, tensor: torch.Tensor) -> None:
        """Overwrites a tensor with that of rank 0."""
        if self.size > 1:
            dist.broadcast(tensor, 0)

    def end(self) -> None:
        """Ends all ranks with exit code 0 within seconds, whatever they do. Rank 0 calls it when the host is gone."""
        self.ending = True
        if self.size > 1:
            self._store.set(_END, b"1")
            time.sleep(5 * _POLL)
        os._exit(0)

    def is_ending(self) -> bool:
        """Whether the host is gone, or the processes' parent."""
        if not self.ending:
            try:
                self.ending = bool(self._store.check([_END]))
            except RuntimeError:
                self.ending = True
        return self.ending

    def _watch(self) -> None:
        while not self.is_ending():
            time.sleep(_POLL)
        os._exit(0)


def _bytes(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
