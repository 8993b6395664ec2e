"""Substitute for `ctypes`: sizes of C types are known, calls of native code fail with the reason."""

import struct as _struct

_REASON = "a component cannot call native code"


def _refuse(name, error=OSError):
    def refused(*_, **__):
        raise error(f"ctypes.{name}: {_REASON}")

    refused.__name__ = name
    return refused


class _CType(type):
    """Class of C types: arrays and pointers of them can be named."""

    def __mul__(cls, length):
        return _CType(f"{cls.__name__}_Array_{length}", (Array,), {"_type_": cls, "_length_": length})

    __rmul__ = __mul__

    def __getattr__(cls, name):
        if name in ("from_buffer", "from_buffer_copy", "from_address", "from_param", "in_dll"):
            return _refuse(f"{cls.__name__}.{name}")
        raise AttributeError(name)


class _CData(metaclass=_CType):
    """Base of C types."""

    _format = ""

    def __init__(self, *_, **__):
        raise OSError(f"ctypes.{type(self).__name__}: {_REASON}")


class _SimpleCData(_CData):
    """Base of numbers. A value can be kept; it is not in native memory."""

    def __init__(self, value=0):
        self.value = value


def _simple(name, form):
    return _CType(name, (_SimpleCData,), {"_format": form, "_type_": form})


for _name, _form in {
    "c_bool": "?",
    "c_byte": "b",
    "c_char": "c",
    "c_char_p": "P",
    "c_double": "d",
    "c_float": "f",
    "c_int": "i",
    "c_int16": "h",
    "c_int32": "i",
    "c_int64": "q",
    "c_int8": "b",
    "c_long": "l",
    "c_longdouble": "d",
    "c_longlong": "q",
    "c_short": "h",
    "c_size_t": "N",
    "c_ssize_t": "n",
    "c_ubyte": "B",
    "c_uint": "I",
    "c_uint16": "H",
    "c_uint32": "I",
    "c_uint64": "Q",
    "c_uint8": "B",
    "c_ulong": "L",
    "c_ulonglong": "Q",
    "c_ushort": "H",
    "c_void_p": "P",
    "c_wchar": "i",
    "c_wchar_p": "P",
    "py_object": "P",
}.items():
    globals()[_name] = _simple(_name, _form)


class Array(_CData):
    """Base of arrays."""


class Structure(_CData):
    """Base of structures."""


class Union(_CData):
    """Base of unions."""


class BigEndianStructure(Structure):
    """Base of structures."""


class LittleEndianStructure(Structure):
    """Base of structures."""


class _Pointer(_CData):
    """Base of pointers."""

    _format = "P"


class ArgumentError(Exception):
    """Error of a call of native code."""


def sizeof(kind):
    """Size of a C type in bytes."""
    kind = kind if isinstance(kind, type) else type(kind)
    if issubclass(kind, Array):
        return sizeof(kind._type_) * kind._length_
    if not kind._format:
        raise OSError(f"ctypes.sizeof: {_REASON}")
    return _struct.calcsize(kind._format)


def alignment(kind):
    """Alignment of a C type in bytes."""
    return sizeof(kind)


def POINTER(kind):
    """Type of pointers to a C type."""
    return _CType(f"LP_{getattr(kind, '__name__', kind)}", (_Pointer,), {"_type_": kind})


def _function_type(result, *arguments, **_):
    return _CType("CFunctionType", (_Pointer,), {"_restype_": result, "_argtypes_": arguments})


CFUNCTYPE = PYFUNCTYPE = WINFUNCTYPE = _function_type


class CDLL:
    """Native library."""

    def __init__(self, name=None, *_, **__):
        raise OSError(f"ctypes.{type(self).__name__}({name!r}): {_REASON}")


class PyDLL(CDLL):
    """Native library that uses Python."""


class LibraryLoader:
    """Loader of native libraries."""

    def __init__(self, kind):
        self._kind = kind

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self._kind(name)

    def __getitem__(self, name):
        return self._kind(name)

    def LoadLibrary(self, name):
        """Raises `OSError`."""
        return self._kind(name)


cdll, pydll = LibraryLoader(CDLL), LibraryLoader(PyDLL)


class _PythonApi:
    def __getattr__(self, name):
        return _refuse(f"pythonapi.{name}")


pythonapi = _PythonApi()
DEFAULT_MODE = RTLD_LOCAL = 0
RTLD_GLOBAL = 256

addressof = _refuse("addressof")
byref = _refuse("byref")
cast = _refuse("cast")
create_string_buffer = _refuse("create_string_buffer")
create_unicode_buffer = _refuse("create_unicode_buffer")
get_errno = _refuse("get_errno")
memmove = _refuse("memmove")
memset = _refuse("memset")
pointer = _refuse("pointer")
resize = _refuse("resize")
set_errno = _refuse("set_errno")
string_at = _refuse("string_at")
wstring_at = _refuse("wstring_at")
