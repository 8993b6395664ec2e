"""Substitute for `ctypes.util`: there are no native libraries."""


def find_library(name):
    """None, as for a library that is not installed."""
    return None


def find_msvcrt():
    """None, as on systems other than Windows."""
    return None
