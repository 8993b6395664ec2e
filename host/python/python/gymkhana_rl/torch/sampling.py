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

from . import cache as caches
from .draws import Choice, Rules, choose
from .messages import Message, answer
from .network import POLICY, Network
from .ranks import Ranks


@dataclass
class Row:
    """A reply in progress.

    Attributes:
        length: Number of tokens in the cache.
        answered: Whether the reply has ended and was returned.
    """

    id: int
    tokens: list[int]
    rules: Rules
    context: int
    version: int
    choices: list[Choice] = field(default_factory=list)
    length: int = 0
    answered: bool = False

    @property
    def last(self) -> int:
        """The token that the next pass reads."""
        return self.choices[-1].token

    @property
    def stopped(self) -> str | None:
        """Reason of the end; `None` before."""
        if self.choices and self.last in self.rules.stop:
            return "token"
        full = len(self.tokens) + len(self.choices) >= self.context
        return "length" if full or len(self.choices) >= self.rules.max_tokens else None

    def answer(self) -> bytes:
        """Answer to the request."""
        self.answered = True
        columns = {
            "tokens": torch.tensor([choice.token for choice in self.choices]),
            "log_probs": torch.tensor([choice.log_prob for choice in self.choices], dtype=torch.float32),
            "entropies": torch.tensor([choice.entropy for choice in self.choices], dtype=torch.float32),
        }
        return answer(self.id, "generated", columns, stop=self.stopped, version=self.version)


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
        self._network.keep_whole(fits_whole(self._network, self._ranks))
        rows = [
            Row(one.id, one.tensors["tokens"].tolist(), Rules.of(one.request), self._network.context, version)
            for one in new
        ]
        with self._network.adapter(POLICY):
            self._admit(rows)
            for _ in range(steps):
                self._step()
        ended = [row.answer() for row in self._rows if row.stopped and not row.answered]
        self._compact(always=False)
        return ended

    def _admit(self, rows: list[Row]) -> None:
        self._compact(always=bool(rows))
        if not rows:
            self._idle()
            return
        columns = max(len(row.tokens) for row in rows)
        lengths = torch.tensor([len(row.tokens) for row in rows])
        padded = torch.tensor([[0] * (columns - len(row.tokens)) + row.tokens for row in rows])
        mask = torch.arange(columns) >= columns - lengths[:, None]
        positions = (torch.arange(columns) - (columns - lengths[:, None])).clamp_min(0)
        new = caches.empty()
        logits = self._pass(padded, positions, mask, new)
        for row in rows:
            row.length = len(row.tokens)
        self._take(logits, rows)
        parts = [(new, torch.arange(len(rows)))]
        if self._rows:
            parts.insert(0, (self._cache, torch.arange(len(self._rows))))
        self._rows = [*self._rows, *rows]
        self._cache = caches.joined(parts, max(row.length for row in self._rows))

    def _step(self) -> None:
        """Samples one token of each row. Rows that have ended take part until they are removed."""
        if not any(row.stopped is None for row in self._rows):
            self._idle()
            return
        lengths = torch.tensor([row.length for row in self._rows])
        columns = self._cache.get_seq_length() + 1
        mask = torch.arange(columns) >= columns - 1 - lengths[:, None]
        tokens = torch.tensor([[row.last] for row in self._rows])
        positions = lengths[:, None].clamp_max(self._network.context - 1)
        logits = self._pass(tokens, positions, mask, self._cache)
        for row in self._rows:
            row.length += 1
        live = [index for index, row in enumerate(self._rows) if row.stopped is None]
        self._take(logits if len(live) == len(self._rows) else logits[live], [self._rows[index] for index in live])

    def _take(self, logits: torch.Tensor, rows: Sequence[Row]) -> None:
        chosen = choose(logits, [row.rules for row in rows], [len(row.choices) for row in rows])
        for row, choice in zip(rows, chosen, strict=True):
            row.choices.append(choice)

    def _idle(self) -> None:
        """Takes part in the collectives of a pass of other ranks."""
        if self._ranks.size > 1 and not self._network.is_whole:
            nothing = torch.zeros(1, 1, dtype=torch.int64)
            self._pass(nothing, nothing, torch.ones(1, 1), caches.empty())

    def _pass(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        held = (part.to(self._ranks.device) for part in (tokens, positions, mask.long()))
        logits: torch.Tensor = self._network("decode", *held, cache)
        return logits

    def _compact(self, always: bool) -> None:
        """Removes ended rows: a quarter of the rows at a time, because it copies the cache."""
        kept = [index for index, row in enumerate(self._rows) if row.stopped is None]
        ended = len(self._rows) - len(kept)
        if not ended or (kept and not always and 4 * ended < len(self._rows)):
            return
        self._rows = [self._rows[index] for index in kept]
        if not kept:
            self._cache = None
            return
        rows = torch.tensor(kept)
        self._cache = caches.joined([(self._cache, rows)], max(row.length for row in self._rows))


def fits_whole(network: Network, ranks: Ranks) -> bool:
    """Whether each rank has memory for all weights while it samples: 40% of its device's memory."""
    if ranks.device.type != "cuda":
        return True
    total = torch.cuda.get_device_properties(ranks.device).total_memory
    return bool(2 * network.size <= 0.4 * total)


def columns_in_memory(network: Network, ranks: Ranks) -> int:
    """Number of tokens whose keys and values a rank may hold."""
    config = network.causal.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size = 2 if ranks.device.type == "cuda" else 4
    bytes_of_one = 2 * config.num_hidden_layers * heads * width * size
    memory = 2 << 30
    if ranks.device.type == "cuda":
        memory = torch.cuda.get_device_properties(ranks.device).total_memory // 5
    return max(1, int(memory // bytes_of_one))
