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
_PATIENCE = timedelta(days=365)
"""Timeout of collectives, which wait for the host's next request and for rank 0 to read weights."""


class Ranks:
    """All ranks, seen from this one.

    Bytes travel as tensors over gloo. Tensors of the model travel over the default group: NCCL on GPUs, gloo on
    processors.
    """

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.ending = False
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
            dist.init_process_group("cpu:gloo,cuda:nccl", device_id=self.device, timeout=_PATIENCE)
        else:
            dist.init_process_group("gloo", timeout=_PATIENCE)
        self.control = dist.new_group(backend="gloo", timeout=_PATIENCE)
        self.mesh = dist.init_device_mesh(self.device.type, (self.size,))
        self._store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        if self.rank > 0:
            threading.Thread(target=self._watch, daemon=True).start()

    def broadcast(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Bodies of rank 0, on every rank."""
        data = _joined(bodies)
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0, group=self.control)
        if self.rank > 0:
            data = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, 0, group=self.control)
        return _split(data)

    def gather(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Bodies of all ranks, on every rank."""
        data = _joined(bodies)
        lengths = self._gather(torch.tensor([len(data)]))
        parts = self._gather(torch.nn.functional.pad(data, (0, int(max(lengths)) - len(data))))
        return [body for part, length in zip(parts, lengths, strict=True) for body in _split(part[: int(length)])]

    def _gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor, group=self.control)
        return found

    def total(self, numbers: torch.Tensor) -> torch.Tensor:
        """Sum over the ranks, in place."""
        dist.all_reduce(numbers)
        return numbers

    def end(self) -> None:
        """Ends all ranks with exit code 0 at once, whatever they do. Rank 0 calls it when the host is gone."""
        self.ending = True
        if self.size > 1:
            self._store.set(_END, b"1")
            time.sleep(5 * _POLL)
        os._exit(0)

    def is_ending(self) -> bool:
        """Whether the host, or the processes' parent, is gone."""
        try:
            self.ending = self.ending or bool(self._store.check([_END]))
        except RuntimeError:
            self.ending = True
        return self.ending

    def _watch(self) -> None:
        while not self.is_ending():
            time.sleep(_POLL)
        os._exit(0)


def _joined(bodies: Sequence[bytes]) -> torch.Tensor:
    # The count, the lengths, and the bodies.
    numbers = torch.tensor([len(bodies), *map(len, bodies)]).view(torch.uint8)
    return torch.cat([numbers, *(torch.frombuffer(bytearray(body), dtype=torch.uint8) for body in bodies)])


def _split(data: torch.Tensor) -> list[bytes]:
    count = int(data[:8].clone().view(torch.int64))
    lengths = data[8 : 8 * (count + 1)].clone().view(torch.int64).tolist()
    return [part.numpy().tobytes() for part in data[8 * (count + 1) :].split(lengths)] if count else []
