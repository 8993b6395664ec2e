"""Discovery of the author's classes, and the messages for modules that cannot be imported."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

SDK = Path(__file__).parents[1] / "src"

TOOL = """
from gymkhana_sdk import Tool

class Notes(Tool):
    summary = "Notes"

    @classmethod
    def functions(cls, options):
        return []

    def call(self, call):
        return ""
"""


def described(source, classes="tool=plugin:Notes", packages=None):
    """Exit code, standard output and standard error for a folder with this `plugin.py`.

    `packages` are files of installed packages by path.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plugin.py").write_text(textwrap.dedent(source))
        for name, text in (packages or {}).items():
            file = Path(folder, ".venv", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        path = os.pathsep.join([folder, str(Path(folder, ".venv")), str(SDK)])
        result = subprocess.run(
            [sys.executable, "-B", "-m", "gymkhana_sdk.abilities", folder, *classes.split()],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return result.returncode, result.stdout, result.stderr.replace(folder + os.sep, "")


class AbilitiesTest(unittest.TestCase):
    def test_a_class_is_described(self):
        code, found, said = described(TOOL)
        self.assertEqual((code, said), (0, ""))
        found = json.loads(found)
        self.assertEqual((found["interfaces"], found["range"]), (["tool"], None))

    def test_the_modules_of_a_plugin_are_found(self):
        _, found, _ = described("import colorsys\n" + TOOL)
        modules = json.loads(found)["modules"]
        self.assertEqual(modules["classes"], {"tool": "plugin:Notes"})
        self.assertEqual(modules["sources"], {"plugin": ["plugin.py", False, "import colorsys\n" + TOOL]})
        self.assertEqual(modules["other"], [])
        self.assertIn("colorsys", modules["standard"])
        # Imported before the plugin, and the plugin may import it too.
        self.assertIn("os", modules["standard"])

    def test_a_file_that_is_opened_at_import_is_noted(self):
        code, found, _ = described(
            "from pathlib import Path\nPath(__file__).with_name('a.txt').write_text('1')\n" + TOOL
        )
        self.assertEqual(code, 0)
        self.assertEqual([Path(path).name for path in json.loads(found)["modules"]["other"]], ["a.txt"])

    def test_packages_are_told_from_the_plugins_modules(self):
        packages = {
            "pack/__init__.py": "from . import part\nopen(__file__.replace('__init__.py', 'words.txt')).close()\n",
            "pack/part.py": "",
            "pack/words.txt": "",
            "single.py": "",
        }
        code, found, said = described("import pack, single\n" + TOOL, packages=packages)
        self.assertEqual((code, said), (0, ""))
        modules = json.loads(found)["modules"]
        self.assertEqual(list(modules["sources"]), ["plugin"])
        self.assertEqual(modules["packages"], [["pack", True], ["pack.part", True], ["single", True]])
        roots = [(name, Path(root).name) for name, root in modules["roots"]]
        self.assertEqual(roots, [("pack", "pack"), ("single", "single.py")])
        # A base imports the package too, which may open its own files.
        self.assertEqual(modules["other"], [])

    def test_a_package_file_that_the_plugin_opens_is_noted(self):
        packages = {
            "pack/__init__.py": "def words():\n    open(__file__.replace('__init__.py', 'words.txt')).close()\n",
            "pack/words.txt": "",
        }
        _, found, _ = described("import pack\npack.words()\n" + TOOL, packages=packages)
        self.assertEqual([Path(path).name for path in json.loads(found)["modules"]["other"]], ["words.txt"])

    def test_the_time_of_an_import_is_that_of_the_plugin_alone(self):
        busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end:\n    pass\n"
        _, found, _ = described("import pack\n" + TOOL, packages={"pack.py": busy})
        slow = json.loads(described(busy + TOOL)[1])["modules"]["seconds"]
        self.assertGreaterEqual(slow, 0.3)
        self.assertLess(json.loads(found)["modules"]["seconds"], slow)

    def test_a_syntax_error_shows_the_authors_line_only(self):
        code, _, said = described("def f(:\n    pass\n")
        self.assertEqual(code, 2)
        lines = said.splitlines()
        self.assertEqual(lines[:3], ["cannot import `plugin`:", '  File "plugin.py", line 1', "    def f(:"])
        self.assertRegex(lines[-1], "^SyntaxError: ")
        self.assertLessEqual(len(lines), 5)

    def test_a_failed_import_shows_the_frames_of_the_author(self):
        for line, error in [
            ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
            ("from gymkhana_sdk import Tol", "ImportError: cannot import name 'Tol' from 'gymkhana_sdk'"),
            ("''.no_such_method()", "AttributeError: 'str' object has no attribute 'no_such_method'"),
            ("int('a')", "ValueError: invalid literal for int() with base 10: 'a'"),
        ]:
            code, _, said = described(f"\n{line}\n")
            self.assertEqual(code, 2, said)
            lines = said.splitlines()
            self.assertEqual(lines[1:3], ['  File "plugin.py", line 2, in <module>', f"    {line}"])
            self.assertEqual(lines[0], "cannot import `plugin`:")
            self.assertTrue(lines[-1].startswith(error), said)
            self.assertNotIn("importlib", said)

    def test_a_missing_class_or_module_is_named(self):
        for classes, words in [
            ("tool=plugin:Note", "module `plugin` has no `Note`, named by `tool`"),
            ("tool=plugn:Notes", 'no module `plugn`, named by `tool = "plugn:Notes"`'),
            ("reward=plugin:Notes", "`plugin:Notes` must be a subclass of gymkhana_sdk.Reward"),
        ]:
            code, _, said = described(TOOL, classes)
            self.assertEqual(code, 2)
            self.assertIn(words, said)

    def test_a_class_without_a_required_method_is_refused(self):
        for source, classes, words in [
            (TOOL.replace("def call", "def cal"), "tool=plugin:Notes", "does not define `call`"),
            (TOOL.replace("def functions", "def function"), "tool=plugin:Notes", "does not define `functions`"),
            (
                "from gymkhana_sdk import Reward\nclass R(Reward):\n    summary = 'R'\n",
                "reward=plugin:R",
                "does not define `score` or `score_group`",
            ),
            (
                "from gymkhana_sdk import Environment\nclass E(Environment):\n    summary = 'E'\n",
                "environment=plugin:E",
                "does not define `splits`",
            ),
        ]:
            code, _, said = described(source, classes)
            self.assertEqual(code, 2, said)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
