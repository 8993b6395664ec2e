"""Slot of quick builds."""

import importlib
import json
import sys
import tempfile
import unittest
from pathlib import Path

from gymkhana_sdk._component import late
from gymkhana_sdk.manifest import BuildError, Project
from gymkhana_sdk.quick_build import base, packages, slot
from gymkhana_sdk.quick_build.modules import Modules

BASE = base.Base(("tool",), ("tool",), (), ())
PROJECT = Project("m", "0.1.0", "A tool", "Apache-2.0", "me")


class QuickTest(unittest.TestCase):
    def build(self, folder, modules, around=(b"head", b"tail"), slots=1):
        """Component made from a base, and the number of bundles that were needed."""
        bundles = []

        def bundle(entry):
            bundles.append(entry)
            return around[0] + slot.empty() * slots + around[1]

        return base.component(Path(folder), BASE, modules, bundle), len(bundles)

    def test_a_base_is_bundled_once_and_filled(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, bundles in [("a = 1", 1), ("a = 2", 0)]:
                modules = Modules({"tool": "m:C"}, {"m": ("m.py", False, text)})
                made, needed = self.build(folder, modules)
                self.assertEqual(needed, bundles)
                self.assertEqual((made[:4], made[-4:], len(made)), (b"head", b"tail", slot.SLOT_BYTES + 8))
                content = json.loads(slot.content(made[4:-4]))
                self.assertEqual(content, {"classes": {"tool": "m:C"}, "modules": {"m": ["m.py", False, text]}})

    def test_what_does_not_fit_is_bundled_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            large = Modules({}, {"m": ("m.py", False, "#" * slot.SLOT_BYTES)})
            self.assertEqual(self.build(folder, large), (None, 0))
            # A slot whose end is elsewhere in the file, or a second one.
            torn = slot.empty()[:1000]
            self.assertEqual(self.build(folder, Modules({}), (torn, b""), 0)[0], None)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.build(folder, Modules({}), slots=2)[0], None)

    def test_a_folder_keeps_few_bases(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(base.MAX_BASES + 3):
                needed = base.Base(("tool",), ("tool",), (), (f"module{number}",))
                base.component(Path(folder), needed, Modules({}), lambda _: slot.empty())
            self.assertEqual(len(list(Path(folder).iterdir())), base.MAX_BASES)

    def test_an_edit_with_packages_is_not_bundled_again(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as bases:
            Path(folder, "pack").mkdir()
            Path(folder, "pack", "__init__.py").write_text("a = 1\n")
            Path(folder, "pack", "words.txt").write_text("one")
            entries = []

            def bundle(entry):
                entries.append(entry)
                return slot.empty()

            def bundles(text, imported=("pack",)):
                """Number of bundles that a build with this text of the author's module needs."""
                entries.clear()
                modules = Modules({"tool": "m:C"}, {"m": ("m.py", False, text)})
                modules.packages = [(name, True) for name in imported]
                modules.roots = [("pack", str(Path(folder, "pack")))]
                needed = base.Base.of(modules, ["tool"], PROJECT)
                self.assertIn(text.encode(), base.component(Path(bases), needed, modules, bundle))
                return len(entries)

            self.assertEqual([bundles("a = 1"), bundles("a = 2"), bundles("a = 1")], [1, 0, 0])
            # Another module of the package, an edit in place without another size, a data file, a removed file.
            self.assertEqual(bundles("a = 2", ("pack", "pack.part")), 1)
            Path(folder, "pack", "__init__.py").write_text("a = 2\n")
            self.assertEqual([bundles("a = 2"), bundles("a = 3")], [1, 0])
            Path(folder, "pack", "words.txt").write_text("two")
            self.assertEqual([bundles("a = 2"), bundles("a = 3")], [1, 0])
            Path(folder, "pack", "words.txt").unlink()
            self.assertEqual([bundles("a = 2"), bundles("a = 3")], [1, 0])

    def test_an_upgrade_of_any_package_changes_the_digest(self):
        with tempfile.TemporaryDirectory() as folder:
            sys.path.append(folder)
            try:
                digests = [packages.digest([])]
                Path(folder, "pack-1.0.dist-info").mkdir()
                digests += [packages.digest([]), packages.digest([])]
                Path(folder, "pack-1.0.dist-info").rename(Path(folder, "pack-1.1.dist-info"))
                digests.append(packages.digest([]))
            finally:
                sys.path.remove(folder)
        self.assertEqual([digests.index(each) for each in digests], [0, 1, 1, 3])

    def test_packages_that_a_base_cannot_import_are_bundled_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            modules = Modules({"tool": "m:C"}, {"m": ("m.py", False, "")}, packages=[("pack", True)])
            needed = base.Base(("tool",), ("tool",), (), (), (("pack", True),))
            bundles = []

            def lacks(entry):
                bundles.append(entry)
                raise BuildError(f"rejected: ImportError: {base.LACKS} pack: no ctypes")

            for _ in range(2):
                self.assertEqual(base.component(Path(folder), needed, modules, lacks), None)
            self.assertEqual(len(bundles), 1)

            def broken(entry):
                raise BuildError("no space")

            with self.assertRaisesRegex(BuildError, "no space"):
                base.component(Path(folder), BASE, modules, broken)

    def test_a_base_reports_the_modules_that_it_cannot_import(self):
        def run(*installed):
            exec("\n".join(base.Base((), (), (), (), installed).imports()), {})

        run(("json", True), ("native_module_of_a_package", False))
        with self.assertRaisesRegex(ImportError, f"{base.LACKS} no_such_package: ModuleNotFoundError"):
            run(("json", True), ("no_such_package", True))

    def test_a_plugin_that_calls_packages_a_lot_at_import_is_bundled_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            slow = Modules({}, seconds=base.MAX_SECONDS * 2)
            self.assertIsNotNone(self.build(folder, slow)[0])
            needed = base.Base((), (), (), (), (("pack", True),))
            self.assertIsNone(base.component(Path(folder), needed, slow, lambda _: slot.empty()))

    def test_modules_are_imported_as_from_files(self):
        sources = {
            "quickpack": ("quickpack/__init__.py", True, "from .part import double\nvalue = double(21)\n"),
            "quickpack.part": ("quickpack/part.py", False, "def double(x: 1 + 1):\n    return x * 2\n"),
        }
        finder = late._Finder(sources)
        sys.meta_path.insert(0, finder)
        try:
            pack = importlib.import_module("quickpack")
        finally:
            sys.meta_path.remove(finder)
        self.assertEqual((pack.value, pack.double.__annotations__), (42, {"x": 2}))
        self.assertEqual(pack.double.__code__.co_filename, "/0/quickpack/part.py")

    def test_an_empty_slot_has_no_content(self):
        with self.assertRaisesRegex(ValueError, "contains no plugin"):
            slot.content(slot.empty())
        self.assertEqual(slot.content(slot.MARK + slot.filled(b"ab") + b"rest"), b"ab")


if __name__ == "__main__":
    unittest.main()
