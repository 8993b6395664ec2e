"""Classes of gymkhana-sdk that tests use in place of plugins: those of the templates, and some that fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The tests of the wheel have them beside the tests, and the SDK installed.
FOLDERS = (HERE.parent / "templates", ROOT / "host" / "cli" / "templates")
TEMPLATES = next((folder for folder in FOLDERS if folder.is_dir()), None)
if TEMPLATES is None:
    pytest.skip("the templates are not here", allow_module_level=True)
SDK = ROOT / "sdk" / "python" / "src"
if SDK.is_dir():
    sys.path.insert(0, str(SDK))
pytest.importorskip("gymkhana_sdk", reason="gymkhana-sdk is not installed")

from gymkhana_sdk import Answer, Environment, Function, Parameter, ResetResult, Reward, Score, Split, StepResult, Tool


def template(kind: str, name: str) -> Any:
    """The class of a template, whose plugin is a guest of the tests."""
    module = f"template_{kind}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, TEMPLATES / f"python-{kind}" / "plugin.py")
        assert spec is not None and spec.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return getattr(sys.modules[module], name)


Guess = template("environment", "Guess")
Notes = template("tool", "Notes")
Brief = template("reward", "Brief")

# Names of the plugins that are built from the classes, and those of the classes.
NAMES = {"guest-python-environment": "guess", "guest-python-tool": "notes", "guest-python-reward": "brief"}


class Ending(Environment):
    """Ends after one step, as its class attribute says."""

    summary = "Ends"
    reward_range = (0.0, 1.0)
    stepped: Any = None

    @classmethod
    def splits(cls, options):
        return [Split("train", 2)]

    def reset(self, task, options, seed):
        return ResetResult("Go.")

    def step(self, action):
        if isinstance(self.stepped, Exception):
            raise self.stepped
        return self.stepped


class BrokenStart(Ending):
    def reset(self, task, options, seed):
        raise RuntimeError("it is broken")


class WrongSeat(Ending):
    def reset(self, task, options, seed):
        return ResetResult({3: "Go."}, next_seat=3)


class BrokenStep(Ending):
    stepped = RuntimeError("it is broken")


class NoResult(Ending):
    stepped = None


class WrongType(Ending):
    stepped = StepResult("Done.", terminated="yes")


class NotANumber(Ending):
    stepped = StepResult("Done.", reward=float("nan"), terminated=True)


class TooMuch(Ending):
    stepped = StepResult("Much.", reward=7.0, terminated=True)


class WrongNext(Ending):
    stepped = StepResult("On.", next_seat=2)


class Crashing(Tool):
    """Loses its state when it crashes."""

    @classmethod
    def functions(cls, options):
        return [Function("count", "Counts.", {"crash": Parameter(bool, "whether to crash")})]

    def open(self, setup, options, seed):
        self.count = 0

    def call(self, call):
        if call.flag("crash"):
            raise KeyError("gone")
        self.count += 1
        return Answer(str(self.count))


class Yes(Reward):
    """Scores a word; other words than `yes` and `no` break a rule each."""

    components = {}
    range = (0.0, 1.0)

    def score(self, trajectory, seat, options):
        said = trajectory.last_message(seat).text
        if said == "raise":
            raise RuntimeError("it is broken")
        return Score({"yes": 1.0, "no": 0.0, "nan": float("nan"), "two": 2.0}[said])
