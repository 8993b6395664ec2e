"""Operations that all ranks carry out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import saving
from .messages import Message, Tensors, answer, read
from .ranks import Ranks
from .sampling import Sampler
from .training import Training


class Engine:
    """The model on one rank."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.training: Training | None = None
        self.version = 0
        self.paused = False  # whether a step was taken after the last publication, so that no reply begins
        self.closed = False
        self._sampler: Sampler | None = None

    def run(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Carries out an operation of rank 0. Returns the answers."""
        message, *new = (read(body) for body in bodies)
        if message.kind == "sample":
            assert self._sampler
            owners = message.request["owners"]
            mine = [one for owner, one in zip(owners, new, strict=True) if owner == self.ranks.rank]
            return self.ranks.gather(self._sampler.run(mine, message.request["steps"], self.version))
        kind, fields, tensors = self._follow(message)
        return [answer(message.id, kind, tensors, **fields)]

    def _follow(self, message: Message) -> tuple[str, dict[str, Any], Tensors]:
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
            saving.save(training, request["weights"], request["state"], request["untied"], versions)
            return "saved", {}, {}
        if kind == "publish":
            self.version, self.paused = request["version"], False
        elif kind == "reference":
            training.move_reference(request["share"])
        elif kind == "backward":
            training.backward(message)
        elif kind == "shorten":
            training.shorten(request["share"])
        elif kind == "begin_stage":
            training.begin_stage()
        else:
            training.begin_update()
        return "done", {}, {}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        # The memory of a model that was open before is freed first.
        self.training = self._sampler = None
        self.version, self.paused = 0, False
        training = Training(request, self.ranks)
        if request["state"] is not None:
            version, paused = saving.resume(training, request["state"], request["reference"]).tolist()
            self.version, self.paused = int(version), bool(paused)
        self.training, network = training, training.network
        self._sampler = Sampler(network, self.ranks)
        trained = sum(held.numel() for held in training.trained().values())
        facts = {"vocabulary": network.vocabulary, "context": network.context}
        return {"parameters": network.size, "trained": trained, **facts}
