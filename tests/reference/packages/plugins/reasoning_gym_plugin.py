"""Items of reasoning-gym."""

import json

import reasoning_gym
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool
from reasoning_gym.factory import DATASETS

PART = {"datasets": [{"name": "leg_counting", "weight": 1.0}]}
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
            if name not in DATASETS:
                raise Mistake(f"no generator `{name}`")
            made = reasoning_gym.create_dataset(name, size=1, seed=int(seed), **(PART if name == "composite" else {}))
        except ValueError as error:
            raise Mistake(f"write for example `leg_counting 3`: {error}") from None
        try:
            item = made[0]
            score = made.score_answer(item["answer"], item)
        except ImportError as error:
            raise Mistake(str(error)) from None
        return json.dumps([item["question"], item["answer"], score], default=repr)
