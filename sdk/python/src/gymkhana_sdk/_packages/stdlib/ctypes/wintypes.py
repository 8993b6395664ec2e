"""Substitute for `ctypes.wintypes`, whose types can be named."""

from . import _SimpleCData


def __getattr__(name):
    if not name.isupper():
        raise AttributeError(name)
    return type(_SimpleCData)(name, (_SimpleCData,), {"_format": "P"})
