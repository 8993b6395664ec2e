"""A causal language model that is sharded over the ranks, with its two passes: scoring and decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
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


class _Given(nn.Module):
    """Stands for the decoder while the output layer is computed on some of its states."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__()
        self.states = states

    def forward(self, *_: Any, **__: Any) -> MoeModelOutputWithPast:
        """The given states as the decoder's output."""
        return MoeModelOutputWithPast(last_hidden_state=self.states)


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
        self._keeps_whole = False
        self.is_whole = False

    def forward(self, task: str, *args: Any) -> Any:
        """Runs the pass `task`, `score` or `decode`."""
        found = self._score(*args) if task == "score" else self._decode(*args)
        self.is_whole = self._keeps_whole
        return found

    def _score(
        self,
        row: torch.Tensor,
        positions: torch.Tensor,
        before: torch.Tensor,
        wanted: torch.Tensor,
        temperature: float,
        entropies: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Log-probabilities of tokens, and entropies (nats).

        Args:
            row: Tokens of packed sequences, of the shape [T].
            positions: Position of each token in its own sequence, of the shape [T].
            before: Index in the row of the token before each wanted one, of the shape [N].
            wanted: Tokens, of the shape [N].
            temperature: Divisor of the logits.
            entropies: Whether entropies are computed.
        """
        decoder = getattr(self.causal, self._decoder)
        states = decoder(input_ids=row[None], position_ids=positions[None], use_cache=False).last_hidden_state[0]
        pieces = self._pieces(states[before], wanted)
        found = [self._scored(states, tokens, temperature, entropies) for states, tokens in pieces]
        return torch.cat([log_probs for log_probs, _ in found]), torch.cat([e for _, e in found]) if entropies else None

    def _pieces(self, states: torch.Tensor, wanted: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        size = max(1, _CHUNK // self.vocabulary)
        return zip(states.split(size), wanted.split(size), strict=True)

    def _scored(self, *args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled():
            # The backward pass computes the logits again.
            kept: tuple[torch.Tensor, torch.Tensor] = checkpoint(
                self._log_probs, *args, use_reentrant=False, preserve_rng_state=False
            )
            return kept
        return self._log_probs(*args)

    def _log_probs(
        self, states: torch.Tensor, tokens: torch.Tensor, temperature: float, entropies: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        all_log_probs = (self._logits(states) / temperature).log_softmax(-1)
        log_probs = all_log_probs.gather(-1, tokens[:, None])[:, 0]
        if not entropies:
            return log_probs, log_probs
        # Excluded tokens have the logit -inf and add 0.
        finite = all_log_probs.clamp_min(torch.finfo(all_log_probs.dtype).min)
        return log_probs, -(all_log_probs.exp() * finite).sum(-1)

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits of the shape [N, vocabulary], as the model's own class computes them after the decoder."""
        modules = self.causal._modules
        decoder = modules[self._decoder]
        modules[self._decoder] = _Given(states[None])
        try:
            logits = self.causal.forward(inputs_embeds=states[None], use_cache=False).logits[0]
        finally:
            modules[self._decoder] = decoder
        return logits if logits.dtype == torch.float64 else logits.float()

    def _decode(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits after the last token of each row, of the shape [B, vocabulary]; extends the cache.

        Args:
            tokens: Tokens, of the shape [B, Q], padded on the left.
            positions: Position of each token in its row.
            mask: 1 for each column of the cache and of `tokens` that is not padding.
            cache: Keys and values of the tokens before.
        """
        decoder = getattr(self.causal, self._decoder)
        found = decoder(
            input_ids=tokens, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True
        )
        return self._logits(found.last_hidden_state[:, -1])

    @property
    def vocabulary(self) -> int:
        """Number of tokens that have a logit."""
        return int(self.causal.get_output_embeddings().weight.shape[0])

    @property
    def context(self) -> int:
        """Maximum number of tokens of a sequence."""
        config = self.causal.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    @contextmanager
    def adapter(self, name: str) -> Iterator[None]:
        """Uses one of the adapters, if the model has adapters."""
        tuned = [module for module in self.modules() if isinstance(module, BaseTunerLayer)]
        # `set_adapter` would change which parameters are trained.
        for layer in tuned:
            layer._active_adapter = [name]
        try:
            yield
        finally:
            for layer in tuned:
                layer._active_adapter = [POLICY]

    def layers(self) -> list[nn.Module]:
        """The decoder layers."""
        found: list[nn.Module] = []
        inside: set[nn.Module] = set()
        for module in self.modules():
            if isinstance(module, GradientCheckpointingLayer) and module not in inside:
                found.append(module)
                inside.update(module.modules())
        return found

    def recompute_layers(self) -> None:
        """Makes the backward pass compute the layers' activations again (before sharding)."""
        for layer in self.layers():
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)

    def keep_whole(self, keep: bool) -> None:
        """Keeps the gathered weights from the next pass on, for sampling, or frees them, as a change needs."""
        if keep == self._keeps_whole:
            return
        self._keeps_whole, self.is_whole = keep, False
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.set_reshard_after_forward(not keep, recurse=False)
                if not keep:
                    module.reshard()

    def shard(self, ranks: Ranks, kind: torch.dtype, broadcast: bool) -> None:
        """Allocates the weights on the ranks' devices and shards them, layer by layer.

        Gradients are sums over the ranks. In bfloat16, passes use copies of the weights, and gradients are float32.

        Args:
            kind: Number format of passes.
            broadcast: Whether the weights are those of rank 0; if not, they are uninitialised.
        """
        precision = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
        settings = {"mp_policy": precision} if kind == torch.bfloat16 else {}
        shared = _Shared(self)
        for module in [*self.layers(), self]:
            _allocate(module, ranks, broadcast, shared)
            fully_shard(module, mesh=ranks.mesh, reshard_after_forward=True, **settings)
        for module in self.modules():
            if isinstance(module, FSDPModule):
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


class _Shared:
    """Tensors that several modules hold, with what replaces them."""

    def __init__(self, network: nn.Module) -> None:
        counts = Counter(id(held) for _, held in network.named_parameters(remove_duplicate=False))
        # The old tensors are kept, so that no id is used again.
        self.old = [held for held in network.parameters() if counts[id(held)] > 1]
        self.new: dict[int, Any] = {id(held): None for held in self.old}


def _allocate(module: nn.Module, ranks: Ranks, broadcast: bool, shared: _Shared) -> None:
    """Moves what is not sharded yet to the device. Shared parameters stay shared."""
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, old in held.items():
                if old is None or isinstance(old, DTensor):
                    continue
                new = shared.new.get(id(old))
                new = _moved(old, ranks, broadcast) if new is None else new
                if id(old) in shared.new:
                    shared.new[id(old)] = new
                held[name] = new


def _moved(old: Any, ranks: Ranks, broadcast: bool) -> Any:
    data = torch.empty_like(old, device=ranks.device) if old.is_meta else old.detach().to(ranks.device)
    if broadcast:
        data = data.contiguous()
        ranks.from_first(data)
    return nn.Parameter(data, requires_grad=old.requires_grad) if isinstance(old, nn.Parameter) else data
