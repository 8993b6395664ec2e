"""Choice of the next tokens from logits: temperature, cuts, and random numbers that depend on a request only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..failures import NotFinite

_CHUNK = 1 << 24
"""Number of probabilities in double precision that are held at once."""
_MASK = (1 << 64) - 1
Rules = dict[str, Any]
"""The request `generate`."""


@dataclass(frozen=True)
class Choice:
    """A sampled token with its log-probability and the distribution's entropy (nats)."""

    token: int
    log_prob: float
    entropy: float


def choose(logits: torch.Tensor, rules: Sequence[Rules], counts: Sequence[int]) -> list[Choice]:
    """Next token of each row of logits [B, vocabulary], which has sampled `counts` tokens before.

    The log-probability is that of the distribution after temperature and cuts, the entropy that of the distribution
    after temperature and before cuts. At temperature 0 the token is the most probable one, there are no cuts, and both
    numbers are those of temperature 1. A row without a finite distribution raises `NotFinite`.
    """
    size = max(1, _CHUNK // logits.shape[-1])
    parts = [slice(start, start + size) for start in range(0, len(rules), size)]
    return [choice for part in parts for choice in _choose(logits[part], rules[part], counts[part])]


def _choose(logits: torch.Tensor, rules: Sequence[Rules], counts: Sequence[int]) -> list[Choice]:
    log_probs = (logits / _column([rule["temperature"] or 1.0 for rule in rules], logits)).log_softmax(-1)
    finite = log_probs.clamp_min(torch.finfo(log_probs.dtype).min)
    entropies = -(log_probs.exp() * finite).sum(-1)
    kept = log_probs
    cut = [index for index, rule in enumerate(rules) if _cuts(rule)]
    if cut:
        kept = log_probs.clone()
        kept[cut] = _after_cuts(log_probs[cut], [rules[index] for index in cut])
    tokens = _draw(kept, [uniform(rule["seed"], count) for rule, count in zip(rules, counts, strict=True)])
    greedy = torch.tensor([rule["temperature"] == 0 for rule in rules], device=logits.device)
    tokens = torch.where(greedy, log_probs.argmax(-1), tokens)
    chosen = kept.gather(-1, tokens[:, None])[:, 0]
    if not bool((chosen.isfinite() & entropies.isfinite()).all()):
        raise NotFinite("the logits of a sampled token are not finite: the weights are no longer finite")
    return [Choice(*row) for row in zip(tokens.tolist(), chosen.tolist(), entropies.tolist(), strict=True)]


def _cuts(rule: Rules) -> bool:
    return bool(rule["temperature"] > 0 and (rule["top_k"] > 0 or rule["top_p"] < 1 or rule["min_p"] > 0))


def _column(numbers: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None]


def _after_cuts(log_probs: torch.Tensor, rules: Sequence[Rules]) -> torch.Tensor:
    """Log-probabilities after top-k, top-p and min-p, in the order and with the bounds of transformers' `generate`."""
    vocabulary = log_probs.shape[-1]
    falling, order = log_probs.sort(dim=-1, descending=True, stable=True)
    last = [min(rule["top_k"] or vocabulary, vocabulary) - 1 for rule in rules]
    lowest = falling.gather(-1, torch.tensor(last, device=falling.device)[:, None])
    falling = falling.masked_fill(falling < lowest, -torch.inf).log_softmax(-1)
    probabilities = falling.double().exp()
    before = probabilities.cumsum(-1) - probabilities
    removed = before >= _column([rule["top_p"] if rule["top_p"] < 1 else math.inf for rule in rules], before)
    least = _column([math.log(rule["min_p"]) if rule["min_p"] > 0 else -math.inf for rule in rules], falling)
    removed |= falling < falling[:, :1] + least
    removed[:, 0] = False
    falling = falling.masked_fill(removed, -torch.inf).log_softmax(-1)
    return torch.empty_like(falling).scatter_(-1, order, falling)


def _draw(log_probs: torch.Tensor, numbers: list[float]) -> torch.Tensor:
    """Token of each row at which the cumulative probability passes the row's number in [0, 1)."""
    totals = log_probs.double().exp().cumsum(-1)
    marks = _column(numbers, totals) * totals[:, -1:]
    return torch.searchsorted(totals, marks, right=True)[:, 0].clamp_max(totals.shape[-1] - 1)


def uniform(seed: int, count: int) -> float:
    """Random number in [0, 1) of a request's seed and a token's index: SplitMix64 of a mixed seed."""
    return (_mix(_mix(seed) + (count + 1) * 0x9E3779B97F4A7C15 & _MASK) >> 11) / (1 << 53)


def _mix(state: int) -> int:
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
    return state ^ state >> 31
