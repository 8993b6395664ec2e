"""Modules that a component has imported when it starts; others of the standard library are compiled at their import.

Excluded are modules that need features missing in a component (terminals, processes, foreign functions), complete
programs (`idlelib`, `test`, …) and modules missing in this build of CPython (`bz2`, `lzma`, `ssl`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import pkgutil
import sys
import types
import warnings

from .guards import Guards

STANDARD = tuple(
    """
    abc annotationlib argparse array ast atexit base64 binascii bisect builtins calendar cmath codecs collections
    collections.abc colorsys concurrent.futures configparser contextlib contextvars copy copyreg csv dataclasses
    datetime decimal difflib dis doctest email email.message email.mime.text email.parser encodings encodings.ascii
    encodings.cp1252 encodings.idna encodings.latin_1 encodings.punycode encodings.utf_16 encodings.utf_32
    encodings.utf_8_sig enum errno fnmatch fractions functools gc getopt gettext glob graphlib gzip hashlib heapq hmac
    html html.entities html.parser http importlib importlib.util inspect io ipaddress itertools json json.tool keyword
    linecache locale logging marshal math mimetypes numbers opcode operator os os.path pathlib pickle pickletools
    pkgutil platform plistlib pprint queue quopri random re reprlib runpy sched secrets select selectors shelve shlex
    shutil signal socket sqlite3 stat statistics string string.templatelib stringprep struct subprocess symtable sys
    tempfile textwrap threading time timeit token tokenize tomllib trace traceback types typing unicodedata unittest
    unittest.mock urllib urllib.error urllib.parse urllib.request uuid warnings wave weakref xml xml.dom.minidom
    xml.etree.ElementTree zipfile zlib zoneinfo _strptime
    """.split()
)
"""Modules of the standard library that programs can import."""

NEWER = frozenset({"annotationlib", "string.templatelib"})
"""Modules missing in older Pythons, which may run the tests."""

_UNUSABLE = ("tests benchmarks testing galgebra plotting conftest antlr autolev llvmjitcode this").split()


def bake() -> None:
    """Imports all modules and warms SymPy's caches."""
    for name in STANDARD:
        if name not in NEWER or sys.version_info >= (3, 14):
            importlib.import_module(name)
    _bake_sympy()
    if sys.platform == "wasi":
        Guards().__enter__()
    # Objects that exist now never become garbage. Freezing them keeps collections from touching their pages.
    gc.collect()
    gc.freeze()


def _bake_sympy() -> None:
    import sympy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Deprecated names warn on import.
        for module in pkgutil.walk_packages(sympy.__path__, "sympy.", onerror=lambda name: None):
            if not any(part in _UNUSABLE for part in module.name.split(".")):
                with contextlib.suppress(ImportError):  # Some modules need missing packages, such as NumPy.
                    importlib.import_module(module.name)
    exercise(sympy)


def exercise(sympy: types.ModuleType) -> None:
    """Runs common operations once, to trigger lazy imports and fill caches."""
    x, y = sympy.symbols("x y")
    sympy.simplify(sympy.sin(x) ** 2 + sympy.cos(x) ** 2 + (x**2 - 1) / (x - 1))
    sympy.integrate(x**2 * sympy.exp(-x), (x, 0, sympy.oo))
    sympy.diff(sympy.log(x) * sympy.sin(x), x)
    sympy.solve([x + y - 3, x * y - 2], [x, y])
    sympy.solve(x**3 - 6 * x**2 + 11 * x - 6, x)
    sympy.factor(x**4 - 1)
    sympy.limit(sympy.sin(x) / x, x, 0)
    sympy.series(sympy.exp(x), x, 0, 4)
    sympy.summation(1 / x**2, (x, 1, sympy.oo))
    sympy.Matrix([[2, 1], [1, 3]]).eigenvals()
    sympy.N(sympy.pi, 30)
    sympy.factorint(2**32 + 1)
    sympy.sympify("2*x + 1/3")
    sympy.latex(sympy.Rational(1, 3) * x)
    sympy.pretty(x**2 / 3)
    sympy.nsimplify(0.5)
    sympy.lambdify(x, x**2)(3)
