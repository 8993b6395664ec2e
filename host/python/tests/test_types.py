"""The stubs: they match the native module, and strict programs are checked against them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gymkhana_rl

pytest.importorskip("mypy")

PACKAGE = Path(gymkhana_rl.__file__).parent
SETTINGS = Path(__file__).parents[1] / "pyproject.toml"

GOOD = """
import gymkhana_rl as gk

plugin: gk.Plugin = gk.load("frozen-lake.wasm", timeout_s=0.5)
env: gk.Env = plugin.env(split="train", seed=1, tools=[plugin])
observation, info = env.reset()
text: str = env.step([gk.Call("f", {"x": 1})])[0]
advice: str | list[gk.Call] = env.advise()
env.step(advice)
total: list[float | None] = plugin.reward()(prompts=["p"], completions=["c"], answer=["a"])
name: str = plugin.reward().__name__
"""

BAD = """
import gymkhana_rl as gk

gk.load(3)
gk.load("a.wasm").env(sed=1)
gk.load("a.wasm").env().step(1.5)
gk.Call(1)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("mypy", "--strict", "--config-file", str(SETTINGS), *arguments)


def test_stubs_match_the_module():
    done = run("mypy.stubtest", "gymkhana_rl._native", "--ignore-missing-stub")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_is_strict():
    modules = ["gymkhana_rl", *(f"gymkhana_rl.{file.stem}" for file in PACKAGE.glob("*.py") if file.stem != "__init__")]
    assert {"gymkhana_rl.trl", "gymkhana_rl.runs", "gymkhana_rl._local_code"} <= {*modules}
    done = mypy(*(word for module in [*modules, "gymkhana_verifiers"] for word in ("-m", module)))
    assert done.returncode == 0, done.stdout


def test_programs_are_checked(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    done = mypy(str(tmp_path / "good.py"))
    assert done.returncode == 0, done.stdout
    done = mypy(str(tmp_path / "bad.py"))
    assert "Found 4 errors" in done.stdout, done.stdout


def test_everything_has_a_docstring():
    for name in ("Env", "Plugin", "Reward", "Tool", "VectorEnv"):
        for method, value in vars(getattr(gymkhana_rl, name)).items():
            if not method.startswith("_"):
                assert getattr(value, "__doc__", None), f"{name}.{method}"
