"""The Python blocks of the package's pages run, from top to bottom, in a folder of their own; versions are locked ones."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from model_server import Model, served, write_model
from reference import path

ROOT = Path(__file__).resolve().parents[4]
PAGES = ROOT / "docs" / "how-to" / "python"
MODULES = {
    "datasets": ["datasets"],
    "gymnasium": ["gymnasium"],
    "openrlhf": ["openrlhf", "torch"],
    "pettingzoo": ["pettingzoo"],
    "play": ["numpy", "polars"],
    "skyrl": ["skyrl_gym"],
    "tinker": ["tinker_cookbook"],
    "trl": ["datasets"],
    "verifiers": ["verifiers"],
    "verl": ["verl", "ray", "torch"],
    "../use-from-python": ["polars"],
}
LOCK = ROOT / "xtask" / "requirements" / "adapters.txt"
BLOCK = re.compile(r"(<!-- not run: [^\n]* -->\n)?```python\n(.*?)```", re.DOTALL)


def source(page: str) -> str:
    """The blocks that run, with the plugins of the tests in the place of registry names."""
    blocks = [block for skipped, block in BLOCK.findall((PAGES / f"{page}.md").read_text()) if not skipped]
    names = r'"(?:gymkhana/([a-z-]+)(?:@[^"]*)?|target/plugins/([a-z-]+)\.wasm)"'
    return re.sub(names, lambda name: repr(path(name[1] or name[2])), "\n".join(blocks))


def classes() -> str:
    """The module `plugin` of the pages: the classes of the templates."""
    templates = (ROOT / "host" / "cli" / "templates" / f"python-{kind}" for kind in ("environment", "tool", "reward"))
    return "\n".join((template / "plugin.py").read_text() for template in templates)


@pytest.mark.skipif(not PAGES.is_dir(), reason="the pages are in the repository")
@pytest.mark.parametrize("page", MODULES)
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    for module in MODULES[page]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    code = source(page)
    assert code
    (tmp_path / "plugin.py").write_text(classes())
    modules = os.pathsep.join(filter(None, [str(ROOT / "sdk" / "python" / "src"), os.environ.get("PYTHONPATH")]))
    with served(Model(lambda _: "right", write_model(tmp_path / "model"))) as model:
        code = code.replace("http://127.0.0.1:8000", model.url)
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": modules},
        )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not PAGES.is_dir(), reason="the pages are in the repository")
def test_the_tables_name_the_locked_versions() -> None:
    locked = dict(line.split(" ")[0].lower().split("==") for line in LOCK.read_text().splitlines() if "==" in line)
    rows = []
    for page in PAGES.glob("*.md"):
        _, _, table = page.read_text().partition("## Versions tested")
        rows += [(page.stem, *row) for row in re.findall(r"^\| ([a-z-]+) \| ([0-9][^ ]*) \|", table, re.MULTILINE)]
    assert len(rows) > 12
    assert [row for row in rows if locked.get(row[1]) != row[2]] == []
