"""Sampling: batches of rows on each rank that requests join and leave.

transformers' continuous batching is not used: it draws all tokens of a batch from one global generator, so that a reply
would depend on its neighbours; it returns no entropies, and its log-probabilities are those after cuts; and its ranks
schedule by themselves, whereas sharded weights need the same passes on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..messages import Message, answer
from ..network import POLICY, Network
from ..ranks import Ranks
from . import cache as caches
from .draws import Choice, choose


@dataclass
class Row:
    """A reply in progress. `limit` is its maximum number of tokens, `cached` the number of tokens in the cache."""

    id: int
    prompt: list[int]
    rules: dict[str, Any]
    limit: int
    version: int
    choices: list[Choice] = field(default_factory=list)
    cached: int = 0
    answered: bool = False

    @property
    def stopped(self) -> str | None:
        """Reason of the end; `None` before."""
        if self.choices and self.choices[-1].token in self.rules["stop"]:
            return "token"
        return "length" if len(self.choices) >= self.limit else None

    def answer(self) -> bytes:
        """Answer to the request."""
        self.answered = True
        numbers = [(choice.log_prob, choice.entropy) for choice in self.choices]
        log_probs, entropies = torch.tensor(numbers, dtype=torch.float32).T
        tokens = torch.tensor([choice.token for choice in self.choices])
        tensors = {"tokens": tokens, "log_probs": log_probs, "entropies": entropies}
        return answer(self.id, "generated", tensors, stop=self.stopped, version=self.version)


class Sampler:
    """The rows of this rank."""

    def __init__(self, network: Network, ranks: Ranks) -> None:
        self._network = network
        self._ranks = ranks
        self._rows: list[Row] = []
        self._cache: Any = None

    @torch.no_grad()
    def run(self, new: Sequence[Message], steps: int, version: int) -> list[bytes]:
        """Admits requests and samples tokens. Returns the answers to those that end.

        Each rank runs the same number of passes: one for the new rows of any rank, and `steps`.
        """
        network = self._network
        network.keep_whole(fits_whole(network, self._ranks))
        network.use(POLICY)
        self._admit([self._row(message, version) for message in new])
        for _ in range(steps):
            self._step()
        return [row.answer() for row in self._rows if row.stopped and not row.answered]

    def _row(self, message: Message, version: int) -> Row:
        prompt, most = message.tensors["tokens"].tolist(), message.request["max_tokens"]
        return Row(message.id, prompt, message.request, min(most, self._network.context - len(prompt)), version)

    def _admit(self, rows: list[Row]) -> None:
        kept = [index for index, row in enumerate(self._rows) if row.stopped is None]
        # Removing rows copies the cache, so some ended rows stay.
        if rows or 4 * len(kept) <= 3 * len(self._rows):
            parts = [(self._cache, torch.tensor(kept))] if kept else []
            self._rows = [self._rows[index] for index in kept]
            if rows:
                parts.append((self._first(rows), torch.arange(len(rows))))
            self._rows += rows
            self._cache = caches.joined(parts, max(row.cached for row in self._rows)) if parts else None
        if not rows:
            self._idle()

    def _first(self, rows: list[Row]) -> Any:
        """Samples the first token of new rows. Returns their cache."""
        columns = max(len(row.prompt) for row in rows)
        for row in rows:
            row.cached = len(row.prompt)
        padding = torch.tensor([columns - row.cached for row in rows])[:, None]
        tokens = torch.tensor([[0] * (columns - row.cached) + row.prompt for row in rows])
        places = torch.arange(columns) - padding
        found = caches.empty()
        self._take(self._pass(tokens, places.clamp_min(0), places >= 0, found), rows)
        return found

    def _step(self) -> None:
        """Samples one token of each row. Rows that have ended take part until they are removed."""
        live = [index for index, row in enumerate(self._rows) if row.stopped is None]
        if not live:
            self._idle()
            return
        cached = torch.tensor([row.cached for row in self._rows])[:, None]
        columns = self._cache.get_seq_length() + 1
        mask = torch.arange(columns) >= columns - 1 - cached
        tokens = torch.tensor([[row.choices[-1].token] for row in self._rows])
        logits = self._pass(tokens, cached.clamp_max(self._network.context - 1), mask, self._cache)
        for row in self._rows:
            row.cached += 1
        self._take(logits[live], [self._rows[index] for index in live])

    def _take(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        chosen = choose(logits, [row.rules for row in rows], [len(row.choices) for row in rows])
        for row, choice in zip(rows, chosen, strict=True):
            row.choices.append(choice)

    def _idle(self) -> None:
        """Takes part in the collectives of a pass of other ranks."""
        if self._ranks.size > 1 and not self._network.is_whole:
            nothing = torch.zeros(1, 1, dtype=torch.int64)
            self._pass(nothing, nothing, nothing + 1, caches.empty())

    def _pass(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        held = (part.to(self._ranks.device) for part in (tokens, positions, mask.long()))
        logits: torch.Tensor = self._network("decode", *held, cache)
        return logits


def fits_whole(network: Network, ranks: Ranks) -> bool:
    """Whether each rank has memory for all weights while it samples: 40% of its device's memory."""
    if ranks.device.type != "cuda":
        return True
    return bool(2 * network.size <= 0.4 * torch.cuda.get_device_properties(ranks.device).total_memory)


def columns_in_memory(network: Network, ranks: Ranks) -> int:
    """Number of tokens whose keys and values a rank may hold: a fifth of a GPU's memory, or 2 GiB."""
    config = network.causal.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    memory, size = 2 << 30, 4
    if ranks.device.type == "cuda":
        memory, size = torch.cuda.get_device_properties(ranks.device).total_memory // 5, 2
    return max(1, int(memory // (2 * config.num_hidden_layers * heads * width * size)))
