"""Replies of the model: rows of a batch, draws of tokens, keys and values."""

from .batch import Sampler, columns_in_memory

__all__ = ["Sampler", "columns_in_memory"]
