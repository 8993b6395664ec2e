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

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends columns, and returns all of them."""
        held = self.get_seq_length()
        columns = held + key_states.shape[2]
        if not held:
            self.fill([[(key_states, None)], [(value_states, None)]], columns)
        elif self._buffers[0].shape[2] < columns:
            self.fill([[(self.keys, None)], [(self.values, None)]], held, columns)
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, held:columns] = new
        self._show(columns)
        return self.keys, self.values

    def fill(self, parts: Sequence[Sequence[tuple[torch.Tensor, Any]]], columns: int, least: int = 0) -> None:
        """Takes rows of keys and rows of values, aligned at their last column; all rows where the index is `None`."""
        self._buffers = []
        for pieces in parts:
            rows = [piece if index is None else piece[index] for piece, index in pieces]
            shape = (sum(map(len, rows)), rows[0].shape[1], max(columns, least) + _SPARE, rows[0].shape[3])
            buffer = rows[0].new_zeros(shape)
            start = 0
            for row in rows:
                width = min(columns, row.shape[2])
                buffer[start : start + len(row), :, columns - width : columns] = row[:, :, -width:]
                start += len(row)
            self._buffers.append(buffer)
        self.dtype, self.device, self.is_initialized = buffer.dtype, buffer.device, True
        self._show(columns)

    def _show(self, columns: int) -> None:
        self.keys, self.values = (buffer[:, :, :columns] for buffer in self._buffers)


def empty() -> Cache:
    """A cache without rows, whose layers appear with the first pass."""
    return Cache(layer_class_to_replicate=GrowingLayer)


def joined(parts: Sequence[tuple[Cache, torch.Tensor]], columns: int) -> Cache:
    """Cache of some rows, given by their indices, of caches. `columns` is the length of the longest row."""
    found = empty()
    for layers in zip(*(cache.layers for cache, _ in parts), strict=True):
        pairs = [(layer, rows) for layer, (_, rows) in zip(layers, parts, strict=True)]
        found.layers.append(GrowingLayer())
        found.layers[-1].fill([[(a.keys, rows) for a, rows in pairs], [(a.values, rows) for a, rows in pairs]], columns)
    return found
