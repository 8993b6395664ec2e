"""NumPy arrays of numbers from the native module, or lists where NumPy is not installed."""

from __future__ import annotations

import array as _array
from typing import Any

try:
    import numpy as _numpy
except ImportError:
    _numpy = None  # type: ignore[assignment]

_CODES = {"float64": "d", "float32": "f", "int64": "q"}


def array(data: bytearray, dtype: str) -> Any:
    """Numbers of the type "float64", "float32", "int64" or "bool", which `data` holds in the machine's byte order."""
    if _numpy is not None:
        return _numpy.frombuffer(data, dtype=dtype)
    if dtype == "bool":
        return [bool(byte) for byte in data]
    return _array.array(_CODES[dtype], bytes(data)).tolist()


def numbers(values: list[Any], dtype: str) -> Any:
    """The values as an array of this type, or the list itself where NumPy is not installed."""
    return values if _numpy is None else _numpy.array(values, dtype=dtype)
