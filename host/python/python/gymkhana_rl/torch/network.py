"""A causal language model that is sharded over the ranks, with its two passes: scoring and decoding."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import MoeModelOutputWithPast

from .ranks import Ranks

POLICY, REFERENCE = "policy", "reference"
"""Names of the adapters."""
_CHUNK = 1 << 26
"""Number of logits that a scoring pass holds at once."""
_recomputed = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)


class Network(nn.Module):
    """A causal language model whose log-probabilities are computed for some positions only.

    The outputs are in float32, or in float64 if the weights are. Both passes are one call of this module, whose hooks
    gather the sharded weights.
    """

    def __init__(self, causal: Any) -> None:
        super().__init__()
        self.causal = causal
        self._decoder = str(causal.base_model_prefix)
        self.size = sum(held.numel() for held in causal.parameters())
        """Number of weights, without adapters."""
        self.vocabulary = int(causal.get_output_embeddings().weight.shape[0])
        self.context = int(getattr(causal.config.get_text_config(), "max_position_embeddings", 0) or 1 << 30)
        """Maximum number of tokens of a sequence."""
        self._keeps_whole = False
        self.is_whole = False
        """Whether the weights are gathered, so that a pass communicates nothing."""

    def forward(self, task: str, *args: Any) -> Any:
        """Runs the pass `task`, `score` or `decode`."""
        found = self._score(*args) if task == "score" else self._decode(*args)
        self.is_whole = self._keeps_whole
        return found

    def _score(
        self, row: Tensor, positions: Tensor, before: Tensor, wanted: Tensor, temperature: float, entropies: bool
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the tokens `wanted` [N], and entropies or zeros in their place (nats).

        `row` [T] has the tokens of packed sequences, `positions` [T] that of each in its own sequence, and `before` [N]
        the index in the row of the token before each wanted one.
        """
        decoder = getattr(self.causal, self._decoder)
        states = decoder(input_ids=row[None], position_ids=positions[None], use_cache=False).last_hidden_state[0]
        size = max(1, _CHUNK // self.vocabulary)
        pieces = zip(states[before].split(size), wanted.split(size), strict=True)
        # The backward pass computes the logits again.
        scored = partial(_recomputed, self._log_probs) if torch.is_grad_enabled() else self._log_probs
        found = [scored(*piece, temperature, entropies) for piece in pieces]
        log_probs, all_entropies = (torch.cat(column) for column in zip(*found, strict=True))
        return log_probs, all_entropies

    def _log_probs(self, states: Tensor, tokens: Tensor, temperature: float, entropies: bool) -> tuple[Tensor, Tensor]:
        everything = (self._logits(states) / temperature).log_softmax(-1)
        log_probs = everything.gather(-1, tokens[:, None])[:, 0]
        if not entropies:
            return log_probs, torch.zeros_like(log_probs)
        # Excluded tokens have the logit -inf and add 0.
        finite = everything.clamp_min(torch.finfo(everything.dtype).min)
        return log_probs, -(everything.exp() * finite).sum(-1)

    def _logits(self, states: Tensor) -> Tensor:
        """Logits of the shape [N, vocabulary], as the model's own class computes them after the decoder."""
        modules, given = self.causal._modules, MoeModelOutputWithPast(last_hidden_state=states[None])
        decoder = modules[self._decoder]
        modules[self._decoder] = lambda *_, **__: given
        try:
            logits = self.causal.forward(inputs_embeds=states[None], use_cache=False).logits[0]
        finally:
            modules[self._decoder] = decoder
        return logits if logits.dtype == torch.float64 else logits.float()

    def _decode(self, tokens: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Logits [B, vocabulary] after the last token of each row; extends the cache.

        `tokens` and `positions` [B, Q] are padded on the left. `mask` has 1 for each column of the cache and of
        `tokens` that is not padding.
        """
        decoder = getattr(self.causal, self._decoder)
        inputs = {"input_ids": tokens, "position_ids": positions, "attention_mask": mask}
        return self._logits(decoder(**inputs, past_key_values=cache, use_cache=True).last_hidden_state[:, -1])

    def use(self, adapter: str) -> None:
        """Uses one of the adapters from now on, if the model has adapters."""
        for module in self.modules():
            if isinstance(module, BaseTunerLayer):
                # `set_adapter` would change which parameters are trained.
                module._active_adapter = [adapter]

    def _layers(self) -> list[nn.Module]:
        found = [module for module in self.modules() if isinstance(module, GradientCheckpointingLayer)]
        inside = {id(part) for module in found for part in module.modules() if part is not module}
        return [module for module in found if id(module) not in inside]

    def recompute_layers(self) -> None:
        """Makes the backward pass compute the activations of layers again. It precedes `shard`."""
        for layer in self._layers():
            layer.forward = partial(_recomputed, layer.forward)

    def keep_whole(self, keep: bool) -> None:
        """Keeps the gathered weights from the next pass on, for sampling, or frees them, as a change needs."""
        if keep == self._keeps_whole:
            return
        self._keeps_whole, self.is_whole = keep, False
        for module in self._sharded():
            module.set_reshard_after_forward(not keep, recurse=False)
            if not keep:
                module.reshard()

    def _sharded(self) -> list[Any]:
        return [module for module in self.modules() if isinstance(module, FSDPModule)]

    def shard(self, ranks: Ranks, kind: torch.dtype, broadcast: bool) -> None:
        """Allocates the weights on the ranks' devices and shards them, layer by layer.

        The weights are those of rank 0, or uninitialised without `broadcast`. Gradients are sums over the ranks. If
        `kind`, the number format of passes, is bfloat16, passes use copies of the weights, and gradients are float32.
        """
        precision = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
        settings = {"mp_policy": precision} if kind == torch.bfloat16 else {}
        counts = Counter(id(held) for _, held in self.named_parameters(remove_duplicate=False))
        # Parameters of several modules, with what replaces them. They are kept, so that no id is used again.
        shared: dict[int, list[Any]] = {id(old): [old, None] for old in self.parameters() if counts[id(old)] > 1}
        for module in [*self._layers(), self]:
            _allocate(module, ranks, broadcast, shared)
            fully_shard(module, mesh=ranks.mesh, reshard_after_forward=True, **settings)
        for module in self._sharded():
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
        self.eval()

    @torch.no_grad()
    def copy_from(self, other: Network) -> None:
        """Copies the weights of a network that is sharded alike."""
        for mine, its in zip(self.parameters(), other.parameters(), strict=True):
            mine.to_local().copy_(its.to_local())
        for buffer, its in zip(self.buffers(), other.buffers(), strict=True):
            buffer.copy_(its)


def _allocate(module: nn.Module, ranks: Ranks, broadcast: bool, shared: dict[int, list[Any]]) -> None:
    """Moves what is not sharded yet to the device."""
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, old in held.items():
                if old is None or isinstance(old, DTensor):
                    continue
                entry = shared.get(id(old), [old, None])
                if entry[1] is None:
                    entry[1] = _moved(old, ranks, broadcast)
                held[name] = entry[1]


def _moved(old: Any, ranks: Ranks, broadcast: bool) -> Any:
    data = torch.empty_like(old, device=ranks.device) if old.is_meta else old.detach().to(ranks.device).contiguous()
    if broadcast:
        dist.broadcast(data, 0)
    return nn.Parameter(data, requires_grad=old.requires_grad) if isinstance(old, nn.Parameter) else data
