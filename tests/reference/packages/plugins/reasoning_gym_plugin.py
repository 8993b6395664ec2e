"""Items of reasoning-gym."""

import json

import reasoning_gym
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool
from reasoning_gym.composite import DatasetSpec
from reasoning_gym.factory import DATASETS

PART = {"datasets": [DatasetSpec(name="leg_counting", weight=1.0, config={})]}
"""Configuration of `composite`, which needs another generator."""


def members():
    """Names of all generators."""
    return sorted(DATASETS)


class Proof(Tool):
    """Keeps no state."""

    summary = "Items of reasoning-gym"

    @classmethod
    def functions(cls, options):
        return [Function("member", "An item", {"member": Parameter(str, "GENERATOR SEED")})]

    def call(self, call: Call):
        try:
            name, seed = call.text("member").split()
            seed = int(seed)
        except ValueError as error:
            raise Mistake(f"write for example `leg_counting 3`: {error}") from None
        if name not in DATASETS:
            raise Mistake(f"no generator `{name}`")
        try:
            made = reasoning_gym.create_dataset(name, size=1, seed=seed, **(PART if name == "composite" else {}))
            item = made[0]
            score = made.score_answer(item["answer"], item)
        except Exception as error:
            raise Mistake(f"{type(error).__name__}: {error}".splitlines()[0]) from None
        return json.dumps([item["question"], item["answer"], score], default=repr)
