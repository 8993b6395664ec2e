"""The Python blocks of the adapters' pages run, from top to bottom, in a folder of their own."""

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
}
BLOCK = re.compile(r"(<!-- not run: [^\n]* -->\n)?```python\n(.*?)```", re.DOTALL)


def source(page: str) -> str:
    """The blocks that run, with the plugins of the tests in the place of registry names."""
    blocks = [block for skipped, block in BLOCK.findall((PAGES / f"{page}.md").read_text()) if not skipped]
    return re.sub(r'"gymkhana/([a-z-]+)"', lambda name: repr(path(name[1])), "\n".join(blocks))


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
