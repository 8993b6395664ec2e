"""Choice of the next tokens from logits: temperature, cuts, and random numbers that depend on a request only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .failures import NotFinite

_CHUNK = 1 << 24
"""Number of probabilities in double precision that are held at once."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Rules:
    """Sampling settings of a request."""

    max_tokens: int
    stop: frozenset[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int

    @staticmethod
    def of(request: dict[str, Any]) -> Rules:
        """Settings of a request that was checked."""
        return Rules(
            max_tokens=int(request["max_tokens"]),
            stop=frozenset(request["stop"]),
            temperature=float(request["temperature"]),
            top_k=int(request["top_k"]),
            top_p=float(request["top_p"]),
            min_p=float(request["min_p"]),
            seed=int(request["seed"]),
        )

    @property
    def cuts(self) -> bool:
        """Whether some tokens are excluded."""
        return self.temperature > 0.0 and (self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0)


@dataclass(frozen=True)
class Choice:
    """A sampled token with its log-probability and the distribution's entropy (nats)."""

    token: int
    log_prob: float
    entropy: float


def choose(logits: torch.Tensor, rules: Sequence[Rules], counts: Sequence[int]) -> list[Choice]:
    """Next token of each row.

    The log-probability is that of the distribution after temperature and cuts, the entropy that of the distribution
    after temperature and before cuts. At temperature 0 the token is the most probable one, there are no cuts, and both
    numbers are those of temperature 1.

    Args:
        logits: Logits, of the shape [B, vocabulary].
        rules: Settings of each row.
        counts: Number of tokens that each row has sampled before.

    Raises:
        NotFinite: A row has no finite distribution.
    """
    found: list[Choice] = []
    size = max(1, _CHUNK // logits.shape[-1])
    for start in range(0, len(rules), size):
        part = slice(start, start + size)
        found += _choose(logits[part], rules[part], counts[part])
    return found


def _choose(logits: torch.Tensor, rules: Sequence[Rules], counts: Sequence[int]) -> list[Choice]:
    heat = [rule.temperature or 1.0 for rule in rules]
    scaled = logits / torch.tensor(heat, dtype=logits.dtype, device=logits.device)[:, None]
    log_probs = scaled.log_softmax(-1)
    finite = log_probs.clamp_min(torch.finfo(log_probs.dtype).min)
    entropies = -(log_probs.exp() * finite).sum(-1)
    kept = log_probs
    cut = [index for index, rule in enumerate(rules) if rule.cuts]
    if cut:
        kept = log_probs.clone()
        kept[cut] = _after_cuts(log_probs[cut], [rules[index] for index in cut])
    tokens = _draw(kept, [uniform(rule.seed, count) for rule, count in zip(rules, counts, strict=True)])
    greedy = torch.tensor([rule.temperature == 0.0 for rule in rules], device=logits.device)
    tokens = torch.where(greedy, log_probs.argmax(-1), tokens)
    chosen = kept.gather(-1, tokens[:, None])[:, 0]
    if not bool((chosen.isfinite() & entropies.isfinite()).all()):
        raise NotFinite("the logits of a sampled token are not finite: the weights are no longer finite")
    columns = zip(tokens.tolist(), chosen.tolist(), entropies.tolist(), strict=True)
    return [Choice(*column) for column in columns]


def _after_cuts(log_probs: torch.Tensor, rules: Sequence[Rules]) -> torch.Tensor:
    """Log-probabilities after top-k, top-p and min-p, in the order and with the bounds of transformers' `generate`."""

    def column(numbers: list[float]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=log_probs.dtype, device=log_probs.device)[:, None]

    vocabulary = log_probs.shape[-1]
    falling, order = log_probs.sort(dim=-1, descending=True, stable=True)
    ranks = [min(rule.top_k or vocabulary, vocabulary) - 1 for rule in rules]
    last = falling.gather(-1, torch.tensor(ranks, device=falling.device)[:, None])
    falling = falling.masked_fill(falling < last, -torch.inf).log_softmax(-1)
    probabilities = falling.double().exp()
    before = probabilities.cumsum(-1) - probabilities
    removed = (before >= column([rule.top_p for rule in rules])) & column([rule.top_p < 1.0 for rule in rules]).bool()
    least = column([math.log(rule.min_p) if rule.min_p > 0.0 else -math.inf for rule in rules])
    removed |= falling < falling[:, :1] + least
    removed[:, 0] = False
    falling = falling.masked_fill(removed, -torch.inf).log_softmax(-1)
    return torch.empty_like(falling).scatter_(-1, order, falling)


def _draw(log_probs: torch.Tensor, numbers: list[float]) -> torch.Tensor:
    """Token of each row at which the cumulative probability passes the row's number in [0, 1)."""
    totals = log_probs.double().exp().cumsum(-1)
    marks = torch.tensor(numbers, dtype=torch.float64, device=totals.device)[:, None] * totals[:, -1:]
    return torch.searchsorted(totals, marks, right=True)[:, 0].clamp_max(totals.shape[-1] - 1)


def uniform(seed: int, count: int) -> float:
    """Random number in [0, 1) of a request's seed and a token's index: SplitMix64 of a mixed seed."""
    with np.errstate(over="ignore"):
        mixed = _mix(np.uint64(seed & _MASK))
        state = mixed + np.uint64(count + 1) * np.uint64(0x9E3779B97F4A7C15)
        return int(_mix(state) >> np.uint64(11)) / float(1 << 53)


def _mix(state: np.uint64) -> np.uint64:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(state ^ (state >> np.uint64(31)))
