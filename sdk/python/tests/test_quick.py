"""Slot of quick builds."""

import importlib
import json
import sys
import tempfile
import unittest
from pathlib import Path

from gymkhana_sdk._component import late
from gymkhana_sdk.quick_build import base, slot
from gymkhana_sdk.quick_build.modules import Modules

BASE = base.Base(("tool",), ("tool",), (), ())


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
            for number in range(base.MOST_BASES + 3):
                needed = base.Base(("tool",), ("tool",), (), (f"module{number}",))
                base.component(Path(folder), needed, Modules({}), lambda _: slot.empty())
            self.assertEqual(len(list(Path(folder).iterdir())), base.MOST_BASES)

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
