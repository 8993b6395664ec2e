"""Operations that all ranks carry out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import saving
from .messages import VERSION, Message, answer, head_of, read, write
from .ranks import Ranks
from .sampling import Sampler
from .training import Training


def sampling_order(owners: Sequence[int], steps: int) -> bytes:
    """Body with which rank 0 starts passes of sampling. The admitted requests follow, each for the rank in `owners`."""
    request = {"kind": "sample", "owners": list(owners), "steps": steps}
    return write({"version": VERSION, "id": 0, "request": request}, {})


class Engine:
    """The model on one rank."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.training: Training | None = None
        self.version = 0
        self.paused = False
        self.closed = False
        self._sampler: Sampler | None = None

    def run(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Carries out an operation. Returns the answers, on rank 0."""
        if head_of(bodies[0])["request"]["kind"] == "sample":
            return self._sample(bodies)
        message = read(bodies[0])
        kind, fields, tensors = self._follow(message)
        return [answer(message.id, kind, tensors, **fields)]

    def _sample(self, bodies: Sequence[bytes]) -> list[bytes]:
        assert self._sampler
        order = head_of(bodies[0])["request"]
        pairs = zip(order["owners"], bodies[1:], strict=True)
        mine = [read(body) for owner, body in pairs if owner == self.ranks.rank]
        return self.ranks.gather(self._sampler.run(mine, order["steps"], self.version))

    def _follow(self, message: Message) -> tuple[str, dict[str, Any], dict[str, torch.Tensor]]:
        """Kind, fields and tensors of the answer to a request that was checked."""
        kind, request = message.kind, message.request
        if kind == "open":
            return "opened", self._open(request), {}
        if kind == "close":
            self.closed = True
            return "done", {}, {}
        training = self.training
        assert training
        if kind == "forward":
            return "found", {}, training.forward(message)
        if kind == "step":
            self.paused = True
            norm = training.step(request)
            return "stepped", {"taken": norm is not None, "norm": norm}, {}
        if kind == "save":
            versions = torch.tensor([self.version, int(self.paused)])
            saving.save(training, request["weights"], request["state"], versions)
            return "saved", {}, {}
        if kind == "publish":
            self.version, self.paused = int(request["version"]), False
        elif kind == "backward":
            training.backward(message)
        elif kind == "begin_stage":
            training.begin_stage()
        elif kind == "begin_update":
            training.begin_update()
        elif kind == "reference":
            training.move_reference(request["share"])
        return "done", {}, {}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        # A second model takes the place of the first, whose memory is free before.
        self.training = self._sampler = None
        self.version, self.paused = 0, False
        training = Training(request, self.ranks)
        if request["state"] is not None:
            version, paused = saving.resume(training, request["state"], request["reference"]).tolist()
            self.version, self.paused = int(version), bool(paused)
        self.training = training
        self._sampler = Sampler(training.network, self.ranks)
        return {
            "parameters": training.network.size,
            "trained": sum(held.numel() for held in training.trained().values()),
            "vocabulary": training.network.vocabulary,
            "context": training.network.context,
        }
