"""Cache of keys and values whose rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

_SPARE = 128
"""Columns that are allocated ahead."""


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, of the shape [rows, heads, columns, width], with spare columns in memory.

    Layers with a sliding window keep all columns too: the mask excludes those outside of the window.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._buffers: list[torch.Tensor] = []

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends columns, and returns all of them."""
        held = self.get_seq_length()
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        states = (key_states, value_states)
        columns = held + key_states.shape[2]
        if not self._buffers or self._buffers[0].shape[2] < columns:
            self._buffers = [
                _copied([old] if held else [], new, columns) for old, new in zip(self.held(), states, strict=True)
            ]
        for buffer, new in zip(self._buffers, states, strict=True):
            buffer[:, :, held:columns] = new
        self.keys, self.values = (buffer[:, :, :columns] for buffer in self._buffers)
        return self.keys, self.values

    def held(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values."""
        return self.keys, self.values

    def replace(self, parts: Sequence[tuple[GrowingLayer, torch.Tensor]], columns: int) -> None:
        """Takes rows of layers, aligned at their last column, as its own."""
        for index in range(2):
            pieces = [(part.held()[index], rows) for part, rows in parts]
            first = pieces[0][0]
            count = sum(len(rows) for _, rows in pieces)
            made = first.new_zeros(count, first.shape[1], columns + _SPARE, first.shape[3])
            start = 0
            for piece, rows in pieces:
                width = min(columns, piece.shape[2])
                made[start : start + len(rows), :, columns - width : columns] = piece[rows][:, :, -width:]
                start += len(rows)
            self._buffers = [*self._buffers[:index], made] if index else [made]
        self.dtype, self.device, self.is_initialized = first.dtype, first.device, True
        self.keys, self.values = (buffer[:, :, :columns] for buffer in self._buffers)


def _copied(old: list[torch.Tensor], new: torch.Tensor, columns: int) -> torch.Tensor:
    buffer = new.new_zeros(new.shape[0], new.shape[1], columns + _SPARE, new.shape[3])
    for part in old:
        buffer[:, :, : part.shape[2]] = part
    return buffer


def empty() -> Cache:
    """A cache without rows, whose layers appear with the first pass."""
    return Cache(layer_class_to_replicate=GrowingLayer)


def joined(parts: Sequence[tuple[Cache, torch.Tensor]], columns: int) -> Cache:
    """Cache of some rows of caches.

    Args:
        parts: Caches, each with the indices of the rows that are kept.
        columns: Number of columns of the result: the length of its longest row.
    """
    found = empty()
    for layers in zip(*(cache.layers for cache, _ in parts), strict=True):
        layer = GrowingLayer()
        layer.replace([(held, rows) for held, (_, rows) in zip(layers, parts, strict=True)], columns)
        found.layers.append(layer)
    return found
