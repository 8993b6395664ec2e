"""Substitute for `_lzma`, so that `lzma` can be imported; using it fails with the reason."""

CHECK_NONE, CHECK_CRC32, CHECK_CRC64, CHECK_SHA256, CHECK_ID_MAX, CHECK_UNKNOWN = 0, 1, 4, 10, 15, 16
FILTER_DELTA, FILTER_X86, FILTER_POWERPC, FILTER_IA64, FILTER_ARM, FILTER_ARMTHUMB, FILTER_SPARC = 3, 4, 5, 6, 7, 8, 9
FILTER_LZMA1, FILTER_LZMA2 = 0x4000000000000001, 33
FORMAT_AUTO, FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW = 0, 1, 2, 3
MF_HC3, MF_HC4, MF_BT2, MF_BT3, MF_BT4 = 3, 4, 18, 19, 20
MODE_FAST, MODE_NORMAL = 1, 2
PRESET_DEFAULT, PRESET_EXTREME = 6, 1 << 31


class LZMAError(Exception):
    """Error of compressed data."""


class LZMACompressor:
    """Raises `OSError`."""

    def __init__(self, *_, **__):
        raise OSError(f"lzma.{type(self).__name__}: a component's CPython lacks LZMA; use zlib")


class LZMADecompressor(LZMACompressor):
    """Raises `OSError`."""


def is_check_supported(check):
    """False: nothing is supported."""
    return False


def _encode_filter_properties(_):
    raise OSError("lzma: a component's CPython lacks LZMA; use zlib")


def _decode_filter_properties(*_):
    raise OSError("lzma: a component's CPython lacks LZMA; use zlib")
