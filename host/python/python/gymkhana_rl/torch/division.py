"""Division of the sequences of a pass among the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .messages import Message


def shares(lengths: Sequence[int], ranks: int) -> list[list[int]]:
    """Indices of each rank's sequences: the longest first, each to the rank with the fewest tokens."""
    found: list[list[int]] = [[] for _ in range(ranks)]
    tokens = [0] * ranks
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        rank = min(range(ranks), key=lambda rank: (tokens[rank], rank))
        found[rank].append(index)
        tokens[rank] += lengths[index]
    return found


@dataclass(frozen=True)
class Packed:
    """One rank's sequences in one row, as `Network` scores them, with the index of each target in the message.

    A row without such places only takes part in the collectives.
    """

    row: torch.Tensor
    positions: torch.Tensor
    before: torch.Tensor
    wanted: torch.Tensor
    places: torch.Tensor


def packed(message: Message, rank: int, ranks: int, device: torch.device) -> Packed:
    """The sequences of a rank. Sequences without targets are left out."""
    lengths, counts = message.tensors["lengths"].tolist(), message.tensors["counts"].tolist()
    tokens, targets = message.tensors["tokens"].split(lengths), message.tensors["targets"].split(counts)
    places = torch.arange(len(message.tensors["targets"])).split(counts)
    used = [index for index, count in enumerate(counts) if count]
    mine = sorted(used[index] for index in shares([lengths[index] for index in used], ranks)[rank])
    if not mine:
        row = torch.zeros(2, dtype=torch.int64, device=device)
        return Packed(row, torch.arange(2, device=device), row[:1], row[:1], torch.empty(0, dtype=torch.int64))
    starts = torch.tensor([0, *(lengths[index] for index in mine)]).cumsum(0)
    row = torch.cat([tokens[index] for index in mine])
    at = torch.cat([start + targets[index] for start, index in zip(starts[:-1], mine, strict=True)])
    positions = torch.cat([torch.arange(lengths[index]) for index in mine])
    found = torch.cat([places[index] for index in mine])
    return Packed(row.to(device), positions.to(device), (at - 1).to(device), row[at].to(device), found)
