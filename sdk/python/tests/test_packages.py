"""Packages in a component: their files, substitutes for what is missing, and messages."""

import importlib
import io
import json
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import unittest
from pathlib import Path

from gymkhana_sdk import build
from gymkhana_sdk._packages import native
from gymkhana_sdk._packages.archive import Archive
from gymkhana_sdk._packages.collect import collect
from gymkhana_sdk.manifest import BuildError, Project

STDLIB = Path(native.__file__).parent / "stdlib"


def run(code, *path):
    """Output of a program in a Python of its own, whose modules it may change."""
    environment = {"PYTHONPATH": ":".join([str(Path(build.__file__).parents[1]), *map(str, path)])}
    program = [sys.executable, "-c", textwrap.dedent(code)]
    result = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def install(site, name, files, requires=()):
    """Writes an installed distribution of version 1.0."""
    lines = []
    for path, text in files.items():
        Path(site, path).parent.mkdir(parents=True, exist_ok=True)
        Path(site, path).write_text(text)
        lines.append(f"{path},,")
    stem = name.replace("-", "_")
    info = Path(site, f"{stem}-1.0.dist-info")
    info.mkdir()
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needed}\nA long story\n")
    record = f"{stem}-1.0.dist-info/METADATA,,"
    (info / "RECORD").write_text("\n".join([*lines, record, "../../bin/tool,,", ""]))


class CollectTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = folder.name
        sys.path.insert(0, self.site)
        self.addCleanup(sys.path.remove, self.site)
        importlib.invalidate_caches()

    def test_a_package_comes_with_its_data_and_its_requirements(self):
        own = {
            "one/__init__.py": "a = 1",
            "one/words.txt": "ein",
            "one/fast.abi3.so": "\x7fELF",
            "one/tests/test_a.py": "",
        }
        install(self.site, "one", own, ["Two_Words>=1; python_version > '3'", "extra; extra == 'all'", "missing"])
        install(self.site, "two-words", {"two.py": "", "two.pyi": "", "test_two.py": ""})
        install(self.site, "extra", {"extra.py": ""})
        install(self.site, "other", {"other.py": ""})
        archive = collect([], ["one>=1", "# a comment", "gymkhana-sdk[build] @ file:///sdk"], [])
        expected = ["site/one/one-1.0.dist-info/METADATA", "site/one/one/__init__.py", "site/one/one/words.txt"]
        expected += ["site/two-words/two.py", "site/two-words/two_words-1.0.dist-info/METADATA"]
        self.assertEqual(sorted(archive.paths), expected)
        self.assertEqual(archive.native, {"one.fast": "one"})
        self.assertEqual(archive.read("site/one/one/words.txt"), b"ein")
        self.assertNotIn(b"story", archive.read("site/one/one-1.0.dist-info/METADATA"))

    def test_an_imported_package_needs_no_requirement_and_a_placeholder_is_left_out(self):
        install(self.site, "one", {"one.py": ""}, ["two"])
        install(self.site, "two", {"two/__init__.py": ""})
        roots = [("one", str(Path(self.site, "one.py")))]
        both = ["site/one/one-1.0.dist-info/METADATA", "site/one/one.py"]
        self.assertEqual(sorted(collect(roots, [], ["two"]).paths), both)
        # A placeholder for a part of a package leaves the rest.
        self.assertEqual(len(list(collect(roots, [], ["two.part"]).paths)), 4)

    def test_an_archive_is_read_as_it_was_written(self):
        archive = Archive({"a.b": "a"}, ["numpy"])
        archive.add("a", b"one")
        archive.add("b", b"")
        archive.rename("a", "c/a")
        again = Archive.load(io.BytesIO(archive.to_bytes()))
        self.assertEqual(
            (again.native, again.placeholders, sorted(again.paths)), ({"a.b": "a"}, ["numpy"], ["b", "c/a"])
        )
        self.assertEqual((again.read("c/a"), again.size("c/a"), again.read("b")), (b"one", 3, b""))
        again.rename("b", None)
        with self.assertRaises(KeyError):
            again.read("b")


class FilesTest(unittest.TestCase):
    def test_files_in_memory_are_read_and_imported_as_from_disk(self):
        code = """
            import importlib.metadata, importlib.resources, json, os, pkgutil, sys
            from pathlib import Path
            from gymkhana_sdk._packages.archive import Archive
            from gymkhana_sdk._packages.files import Files, install
            archive = Archive()
            archive.add("/virtual/pack/__init__.py", b"from . import part")
            archive.add("/virtual/pack/part.py", b"def line():\\n    from .late import a\\n    return a")
            archive.add("/virtual/pack/late.py", b"a = 42")
            archive.add("/virtual/pack/data/words.txt", "zwölf\\r\\n".encode())
            archive.add("/virtual/pack-1.5.dist-info/METADATA", b"Metadata-Version: 2.1\\nName: pack\\nVersion: 1.5\\n")
            install(Files(archive))
            sys.path.append("/virtual")
            import pack.part
            words = importlib.resources.files("pack") / "data" / "words.txt"
            def error(call):
                try:
                    return call()
                except OSError as error:
                    return type(error).__name__
            here = Path(pack.__file__).parent
            print(json.dumps([
                pack.part.line(), words.read_text(encoding="utf-8"), pkgutil.get_data("pack", "data/words.txt").decode(),
                open(here / "data/words.txt", "rb").read().hex(), sorted(os.listdir("/virtual/pack")),
                [module.name for module in pkgutil.iter_modules(pack.__path__)], importlib.metadata.version("pack"),
                [str(path.relative_to(here)) for path in sorted(here.rglob("*"))],
                os.path.isdir("/virtual/pack/data"), os.path.exists("/virtual/pack/no"), os.stat(here / "late.py").st_size,
                [entry.name for entry in os.scandir(here) if entry.is_dir()],
                error(lambda: open(here / "late.py", "w")), error(lambda: open(here / "no")),
                error(lambda: os.listdir(here / "late.py")), os.access(here, os.W_OK), os.path.isfile(os.devnull),
            ]))
        """
        here = [42, "zwölf\n", "zwölf\r\n", "zwölf\r\n".encode().hex(), ["__init__.py", "data", "late.py", "part.py"]]
        here += [["late", "part"], "1.5", ["__init__.py", "data", "data/words.txt", "late.py", "part.py"]]
        here += [True, False, 6, ["data"], "FileNotFoundError", "FileNotFoundError", "NotADirectoryError", False, False]
        self.assertEqual(json.loads(run(code)), here)


class NativeTest(unittest.TestCase):
    def finder(self, finder, first=False):
        sys.meta_path.insert(0 if first else len(sys.meta_path), finder)
        self.addCleanup(sys.meta_path.remove, finder)

    def test_a_module_of_native_code_is_named_with_the_importing_lines(self):
        finder = native.Finder({"nosuch.fast": "no-such"})
        self.finder(finder)
        with tempfile.TemporaryDirectory() as site:
            sys.path.insert(0, site)
            self.addCleanup(sys.path.remove, site)
            Path(site, "nosuch").mkdir()
            # The package hides the reason behind its own advice.
            lines = [
                "try:",
                "    from . import fast",
                "except ImportError as error:",
                "    raise ImportError('advice')",
            ]
            Path(site, "nosuch", "__init__.py").write_text("\n".join(lines))
            Path(site, "user.py").write_text("\nimport nosuch\n")
            with self.assertRaisesRegex(ImportError, "advice") as raised:
                importlib.import_module("user")
        line = native.explain(raised.exception)
        self.assertTrue(line.startswith(native.MARK), line)
        message = build._import_error(f"ImportError: {line}\n")
        self.assertRegex(message, "(?s)^package `no-such` cannot be in a component: `nosuch.fast` is native code\n")
        self.assertRegex(
            message, "imported by `[^`]*nosuch/__init__.py`, line 2\n  imported by `[^`]*user.py`, line 2\n"
        )
        self.assertIn('placeholders = ["nosuch"]', message)
        self.assertEqual(finder.packages, {"no-such"})

    def test_a_module_that_cpython_lacks_is_named_and_others_are_not(self):
        self.finder(native.Finder({}))
        with self.assertRaisesRegex(ModuleNotFoundError, "no module `_winapi`: a component's CPython lacks it"):
            importlib.import_module("_winapi")
        with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'nosuchmodule'") as raised:
            importlib.import_module("nosuchmodule")
        self.assertIsNone(native.explain(raised.exception))

    def test_a_placeholder_is_imported_and_its_use_raises(self):
        self.finder(native.Placeholders(["nosuch"]), first=True)
        self.addCleanup(sys.modules.pop, "nosuch", None)
        self.addCleanup(sys.modules.pop, "nosuch.inner", None)
        import nosuch
        from nosuch.inner import Thing

        def typed(value: nosuch.array | None, other: "nosuch.float64") -> Thing[int]:
            return isinstance(value, nosuch.ndarray)

        class Derived(Thing):
            pass

        self.assertFalse(typed(1, 2))
        for use in (lambda: nosuch.random.default_rng(1), lambda: Thing(), Derived):
            with self.assertRaisesRegex(ImportError, "is not in this component: its module is a placeholder"):
                use()
        with self.assertRaisesRegex(ImportError, r"`nosuch.array` .* used by `[^`]*test_packages.py`, line \d+"):
            nosuch.array([1])
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("nosuchatall")

    def test_placeholders_are_names_of_modules(self):
        fields = {"name": "a", "version": "0.1.0", "description": "A tool", "license": "Apache-2.0"}
        table = {"namespace": "me", "tool": "m:C"}

        def project(names):
            return Project.of({"project": fields, "tool": {"gymkhana": {**table, "placeholders": names}}})

        self.assertEqual(project(["numpy", "a.b"]).placeholders, ["numpy", "a.b"])
        for names in ("numpy", [1], ["numpy==1"], [""]):
            with self.assertRaisesRegex(BuildError, "`placeholders` in .* must be a list of modules"):
                project(names)


class StandardTest(unittest.TestCase):
    def test_functions_that_need_more_than_one_thread_or_process_name_themselves_and_the_reason(self):
        code = """
            import sys
            from gymkhana_sdk._packages import shims
            shims.install()
            import concurrent.futures, multiprocessing, socket, subprocess, threading
            lock = threading.Lock()
            with lock:
                pass
            for call in (
                lambda: threading.Thread(target=print).start(), lambda: threading.Timer(1, print).start(),
                lambda: concurrent.futures.ThreadPoolExecutor(1).submit(print),
                lambda: concurrent.futures.ProcessPoolExecutor(1), lambda: multiprocessing.Pool(2),
                lambda: multiprocessing.Process(target=print).start(), lambda: multiprocessing.Queue(),
                lambda: socket.socket(), lambda: socket.create_connection(("a", 1)), lambda: subprocess.run(["ls"]),
                lambda: subprocess.Popen(["ls"]),
            ):
                try:
                    call()
                except (RuntimeError, OSError) as error:
                    print(error)
                else:
                    print("no error")
        """
        names = """
            threading.Thread.start threading.Thread.start threading.Thread.start
            concurrent.futures.ProcessPoolExecutor multiprocessing.Pool multiprocessing.Process.start
            multiprocessing.Queue socket.socket socket.create_connection subprocess.run subprocess.Popen
        """.split()
        lines = run(code).splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines], names)
        self.assertIn("a plugin runs in one thread", lines[0])
        self.assertIn("a plugin cannot start processes", lines[4])
        self.assertIn("declare the capability `http`", lines[7])

    def test_ctypes_can_be_imported_and_knows_sizes(self):
        code = """
            import ctypes, ctypes.util, struct
            from ctypes import POINTER, CFUNCTYPE, Structure, c_char_p, c_int, c_long, c_void_p, sizeof
            assert "stdlib" in ctypes.__file__, ctypes.__file__
            class Point(Structure):
                _fields_ = [("x", c_int), ("next", POINTER(c_int)), ("name", c_char_p * 2)]
            Callback = CFUNCTYPE(None, c_void_p)
            assert (sizeof(c_long), sizeof(c_int * 3)) == (struct.calcsize("l"), 12)
            assert ctypes.util.find_library("c") is None and c_int(3).value == 3
            for call in (lambda: ctypes.CDLL("libc.so.6"), lambda: Point(), lambda: ctypes.cdll.LoadLibrary("x"),
                         lambda: ctypes.byref(c_int(1)), lambda: Callback(print), lambda: c_int.from_buffer(b"1234")):
                try:
                    call()
                except OSError as error:
                    assert "a component cannot call native code" in str(error), error
                    print(str(error).split(":")[0])
        """
        names = ["ctypes.CDLL('libc.so.6')", "ctypes.Point", "ctypes.CDLL('x')", "ctypes.byref", "ctypes.CFunctionType"]
        self.assertEqual(run(code, STDLIB).splitlines(), [*names, "ctypes.c_int.from_buffer"])

    def test_compression_that_is_missing_can_be_imported(self):
        code = """
            import bz2, lzma, shutil, tarfile, zipfile
            for call in (lambda: bz2.compress(b""), lambda: lzma.decompress(b"1"), lambda: lzma.open("/dev/null").read()):
                try:
                    call()
                except OSError as error:
                    print(str(error).split(":")[0])
        """
        names = ["bz2.BZ2Compressor", "lzma.LZMADecompressor", "lzma.LZMADecompressor"]
        self.assertEqual(run(code, STDLIB).splitlines(), names)


class PageTest(unittest.TestCase):
    def test_the_reference_page_has_every_package_with_its_locked_version(self):
        repository = Path(__file__).parents[3]
        document = tomllib.loads((repository / "tests/reference/packages/packages.toml").read_text())
        lock = (repository / "xtask/requirements/packages.txt").read_text()
        locked = dict(line.split(" ")[0].split("==") for line in lock.splitlines() if "==" in line)
        expected = {each["name"]: locked[each["name"].lower()] for each in document["package"]}
        page = (repository / "docs/reference/python-packages.md").read_text()
        rows = [line.split(" | ") for line in page.splitlines() if " | yes: " in line]
        self.assertEqual({row[0].removeprefix("| "): row[1] for row in rows}, expected)


if __name__ == "__main__":
    unittest.main()
