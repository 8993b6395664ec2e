"""Substitute for `_bz2`, so that `bz2` can be imported; using it fails with the reason."""


class BZ2Compressor:
    """Raises `OSError`."""

    def __init__(self, *_, **__):
        raise OSError(f"bz2.{type(self).__name__}: a component's CPython lacks bzip2; use zlib")


class BZ2Decompressor(BZ2Compressor):
    """Raises `OSError`."""
