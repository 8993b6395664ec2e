"""Training: passes that score tokens, weighted gradients, steps of AdamW, and the reference policy."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .division import Packed, packed
from .failures import NotFinite
from .loading import Settings, load, twin
from .messages import Message
from .network import POLICY, REFERENCE, Network
from .ranks import Ranks

Tensors = dict[str, torch.Tensor]


class Training:
    """The policy with its gradients and optimizer, and the reference policy."""

    def __init__(self, request: dict[str, Any], ranks: Ranks) -> None:
        self.settings = Settings.of(request)
        self.ranks = ranks
        self.network = load(self.settings, ranks)
        self.has_reference = False
        self._eight_bits = request["optimizer"] == "adamw8bit"
        self._reference: Network | None = None
        self._kept: tuple[Packed, torch.Tensor, torch.Tensor | None] | None = None
        self.kept_targets: int | None = None
        self.begin_stage()

    def forward(self, message: Message) -> Tensors:
        """Log-probabilities and entropies of a message's targets, of the shape [N]."""
        request = message.request
        keep = bool(request["keep"])
        part = packed(message, self.ranks.rank, self.ranks.size, self.ranks.device)
        network, adapter = self._scorer(request["scorer"])
        self.network.keep_whole(False)
        if keep:
            self._forget_kept()
        with torch.set_grad_enabled(keep), network.adapter(adapter):
            inputs = (part.row, part.positions, part.before, part.wanted)
            log_probs, entropies = network("score", *inputs, request["temperature"], request["entropies"])
        count = len(message.tensors["targets"])
        if keep:
            self._kept, self.kept_targets = (part, log_probs, entropies), count
        found = {"log_probs": log_probs} | ({} if entropies is None else {"entropies": entropies})
        return {name: self._whole(part, numbers, count) for name, numbers in found.items()}

    def _whole(self, part: Packed, numbers: torch.Tensor, count: int) -> torch.Tensor:
        whole = torch.zeros(count, dtype=numbers.dtype, device=numbers.device)
        if len(part.places):
            whole[part.places.to(whole.device)] = numbers.detach()
        self.ranks.total(whole)
        if whole.isnan().any():
            raise NotFinite("a log-probability or an entropy is not a number: the weights are no longer finite")
        return whole

    @property
    def kept_entropies(self) -> bool:
        """Whether the kept pass has entropies."""
        return self._kept is not None and self._kept[2] is not None

    def backward(self, message: Message) -> None:
        """Adds the gradient of the sum of the kept pass's numbers, each multiplied by its weight."""
        assert self._kept
        # The backward pass frees the weights, so they must not count as gathered.
        self.network.keep_whole(False)
        part, *found = self._kept
        loss = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        for name, numbers in zip(("by_log_probs", "by_entropies"), found, strict=True):
            if numbers is None:
                continue
            weights = torch.zeros(len(numbers), dtype=torch.float64)
            if name in message.tensors and len(part.places):
                weights = message.tensors[name][part.places]
            loss = loss + (numbers.double() * weights.to(loss.device)).sum()
        loss.backward()
        self._forget_kept()

    def begin_stage(self) -> None:
        """Forgets the gradients and the optimizer's state."""
        self.network.keep_whole(False)
        self.begin_update()
        embeddings = {id(module.weight) for module in self.network.modules() if isinstance(module, nn.Embedding)}
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        decays = [parameter.ndim > 1 and id(parameter) not in embeddings for parameter in trained]
        groups = [
            {"params": [parameter for parameter, does in zip(trained, decays, strict=True) if does == decay]}
            for decay in (True, False)
        ]
        self.decays = [decay for group, decay in zip(groups, (True, False), strict=True) if group["params"]]
        self.optimizer = self._optimizer([group for group in groups if group["params"]])

    def _optimizer(self, groups: list[dict[str, Any]]) -> Any:
        if self._eight_bits:
            from torchao.optim import AdamW8bit

            return AdamW8bit(groups, lr=torch.zeros(()))
        return torch.optim.AdamW(groups, lr=0.0, fused=True)

    def allocate_optimizer(self) -> None:
        """Creates the optimizer's state, all zeros, without a step, so that a checkpoint can be read into it."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self._set(0.0, 0.9, 0.999, 1e-8, 0.0)
        self.optimizer.step()
        self.begin_update()
        for state in self.optimizer.state.values():
            state["step"].zero_()

    def _set(self, rate: float, beta1: float, beta2: float, epsilon: float, decay: float) -> None:
        for group, decays in zip(self.optimizer.param_groups, self.decays, strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
            group.update(betas=(beta1, beta2), eps=epsilon, weight_decay=decay if decays else 0.0)

    def begin_update(self) -> None:
        """Forgets the gradients and the kept pass."""
        self._forget_kept()
        self.network.zero_grad(set_to_none=True)

    def _forget_kept(self) -> None:
        self._kept = self.kept_targets = None

    @torch.no_grad()
    def step(self, request: dict[str, Any]) -> float | None:
        """Takes a step of AdamW. Returns the norm of the whole gradient before clipping; `None` if it is not finite.

        A gradient that is not finite changes nothing. Gradients are forgotten in any case.
        """
        self.network.keep_whole(False)
        gradients = [parameter.grad.to_local() for parameter in self.trained().values() if parameter.grad is not None]
        squares = torch.zeros((), dtype=torch.float64, device=self.ranks.device)
        for gradient in gradients:
            squares += gradient.double().square().sum()
        norm = math.sqrt(float(self.ranks.total(squares)))
        if math.isfinite(norm):
            most = request["max_norm"]
            if most is not None and most / (norm + 1e-6) < 1.0:
                for gradient in gradients:
                    gradient.mul_(most / (norm + 1e-6))
            self._set(*(request[name] for name in ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")))
            self.optimizer.step()
        self.begin_update()
        return norm if math.isfinite(norm) else None

    def trained(self) -> dict[str, Any]:
        """Trained parameters by name."""
        return {name: held for name, held in self.network.named_parameters() if held.requires_grad}

    def _scorer(self, scorer: str) -> tuple[Network, str]:
        if scorer == "reference" and self._reference is not None:
            return self._reference, POLICY
        return self.network, REFERENCE if scorer == "reference" else POLICY

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
            return
        if self.settings.lora is None and self._reference is None:
            self._reference = twin(self.network, self.settings, self.ranks)
            return
        if self._reference is not None:
            self._reference.keep_whole(False)
        held = dict(self.network.named_parameters())
        for name, mine in self.reference_parameters().items():
            local, target = mine.to_local(), held[name].to_local()
            if share == 1.0:
                local.copy_(target)
            else:
                local.lerp_(target, share)
