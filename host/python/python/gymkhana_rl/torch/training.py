"""Training: passes that score tokens, weighted gradients, steps of AdamW, and the reference policy."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .division import Packed, packed
from .failures import NotFinite
from .loading import Loader
from .messages import Message, Tensors
from .network import POLICY, REFERENCE, Network
from .ranks import Ranks


class Training:
    """The policy with its gradients and optimizer, and the reference policy."""

    def __init__(self, request: dict[str, Any], ranks: Ranks) -> None:
        self.ranks = ranks
        self.loader = Loader(request, ranks)
        self.network = self.loader.policy()
        self.has_reference = False
        self.kept_targets: int | None = None  # number of targets of the kept pass
        self.kept_entropies = False
        self._kept: tuple[Packed, torch.Tensor, torch.Tensor] | None = None
        self._eight_bits = request["optimizer"] == "adamw8bit"
        self._reference: Network | None = None
        self._before: list[torch.Tensor] = []  # trained weights before the last step, if they were kept
        self.begin_stage()

    def forward(self, message: Message) -> Tensors:
        """Log-probabilities and entropies of a message's targets, of the shape [N]."""
        request = message.request
        scorer, temperature, entropies, keep = (request[n] for n in ("scorer", "temperature", "entropies", "keep"))
        part = packed(message, self.ranks.rank, self.ranks.size, self.ranks.device)
        network = self._reference if scorer == REFERENCE and self._reference else self.network
        self.network.keep_whole(False)
        if keep:
            self._kept = self.kept_targets = None
        network.use(scorer)
        with torch.set_grad_enabled(keep):
            inputs = (part.row, part.positions, part.before, part.wanted)
            found = network("score", *inputs, temperature, entropies)
        count = len(message.tensors["targets"])
        if keep:
            self._kept, self.kept_targets, self.kept_entropies = (part, *found), count, entropies
        whole = [self._whole(part, numbers, count) for numbers in found]
        return {"log_probs": whole[0]} | ({"entropies": whole[1]} if entropies else {})

    def _whole(self, part: Packed, numbers: torch.Tensor, count: int) -> torch.Tensor:
        whole = torch.zeros(count, dtype=numbers.dtype, device=numbers.device)
        if len(part.places):
            whole[part.places.to(whole.device)] = numbers.detach()
        if self.ranks.total(whole).isnan().any():
            raise NotFinite("a log-probability or an entropy is not a number: the weights are no longer finite")
        return whole

    def backward(self, message: Message) -> None:
        """Adds the gradient of the sum of the kept pass's numbers, each multiplied by its weight."""
        assert self._kept
        # The backward pass frees the weights, so they must not count as gathered.
        self.network.keep_whole(False)
        self.network.use(POLICY)
        part, *found = self._kept
        loss = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        for name, numbers in zip(("by_log_probs", "by_entropies"), found, strict=True):
            weights = torch.zeros(len(numbers), dtype=torch.float64)
            if name in message.tensors and len(part.places):
                weights = message.tensors[name][part.places]
            loss = loss + (numbers.double() * weights.to(loss.device)).sum()
        loss.backward()
        self._kept = self.kept_targets = None

    def begin_update(self) -> None:
        """Forgets the gradients and the kept pass."""
        self._kept = self.kept_targets = None
        self.network.zero_grad(set_to_none=True)
        self._before = []

    def begin_stage(self) -> None:
        """Forgets the gradients and the optimizer's state. Matrices decay, but not embeddings, norms and biases."""
        self.network.keep_whole(False)
        self.begin_update()
        embeddings = {id(module.weight) for module in self.network.modules() if isinstance(module, nn.Embedding)}
        groups: dict[bool, list[Any]] = {True: [], False: []}
        for parameter in self.trained().values():
            groups[parameter.ndim > 1 and id(parameter) not in embeddings].append(parameter)
        settings = [{"params": group, "decays": decays} for decays, group in groups.items() if group]
        if self._eight_bits:
            from torchao.optim import AdamW8bit

            self.optimizer = AdamW8bit(settings, lr=torch.zeros(()))
        else:
            self.optimizer = torch.optim.AdamW(settings, lr=0.0, fused=True)

    def allocate_optimizer(self) -> None:
        """Creates the optimizer's state, all zeros, so that a checkpoint can be read into it."""
        gradients = [(parameter, parameter.grad) for parameter in self.trained().values()]
        for parameter, _ in gradients:
            parameter.grad = torch.zeros_like(parameter)
        self._set(0.0, 0.9, 0.999, 1e-8, 0.0)
        self.optimizer.step()
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for state in self.optimizer.state.values():
            state["step"].zero_()

    def _set(self, rate: float, beta1: float, beta2: float, epsilon: float, decay: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
            group.update(betas=(beta1, beta2), eps=epsilon, weight_decay=decay if group["decays"] else 0.0)

    @torch.no_grad()
    def step(self, request: dict[str, Any]) -> float | None:
        """Takes a step of AdamW. Returns the norm of the whole gradient before clipping; `None` if it is not finite.

        A gradient that is not finite changes nothing. Gradients are forgotten in any case.
        """
        self.network.keep_whole(False)
        gradients = [held.grad.to_local() for held in self.trained().values() if held.grad is not None]
        squares = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        for gradient in gradients:
            squares += gradient.double().square().sum()
        norm = math.sqrt(float(self.ranks.total(squares)))
        if math.isfinite(norm):
            # PyTorch's `clip_grad_norm_` adds the same constant.
            clip = min(1.0, (request["max_norm"] or math.inf) / (norm + 1e-6))
            for gradient in gradients if clip < 1.0 else []:
                gradient.mul_(clip)
            self._set(*(request[name] for name in ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")))
            # In the memory of the processor, which is larger than that of a GPU.
            kept = self.trained().values() if request["keep"] else []
            before = [held.to_local().to("cpu", copy=True) for held in kept]
            self.optimizer.step()
            self.begin_update()
            self._before = before
            return norm
        self.begin_update()
        return None

    @property
    def keeps_step(self) -> bool:
        """Whether the last step can be shortened."""
        return bool(self._before)

    @torch.no_grad()
    def shorten(self, share: float) -> None:
        """Keeps a share of the last step, for which the weights before it were kept. The moments stay."""
        self.network.keep_whole(False)
        for held, before in zip(self.trained().values(), self._before, strict=True):
            local = held.to_local()
            local.copy_(before.to(local.device).lerp(local, share))
        self._before = []

    def trained(self) -> dict[str, Any]:
        """Trained parameters by name."""
        return {name: held for name, held in self.network.named_parameters() if held.requires_grad}

    def reference_parameters(self) -> dict[str, Any]:
        """Parameters of the reference policy that differ from the policy's, by the policy's names."""
        if self._reference is not None:
            return dict(self._reference.named_parameters())
        held = dict(self.network.named_parameters())
        return {name: held[name.replace(f".{POLICY}.", f".{REFERENCE}.")] for name in self.trained()}

    @torch.no_grad()
    def move_reference(self, share: float | None) -> None:
        """Moves the reference policy by a share of the way to the policy; 1 copies it, and `None` drops it."""
        self.network.keep_whole(False)
        self.has_reference = share is not None
        if share is None:
            self._reference = None
        elif self.loader.lora is None and self._reference is None:
            self._reference = self.loader.twin(self.network)
        else:
            trained = self.trained()
            for name, mine in self.reference_parameters().items():
                mine.to_local().lerp_(trained[name].to_local(), share)
