"""Answers that a model of pydantic checks."""

from gymkhana_sdk import Environment, NotFound, ResetResult, Split, StepResult
from pydantic import BaseModel, ValidationError


class Order(BaseModel):
    """Expected answer."""

    name: str
    count: int


class Proof(Environment):
    """Ends with a valid answer."""

    summary = "Answer with an order in JSON"

    @classmethod
    def splits(cls, options):
        return [Split("train", 1)]

    def reset(self, task, options, seed):
        if (task.split, task.index) != ("train", 0):
            raise NotFound(f"unknown task {task.index} of split `{task.split}`: there is only task 0 of `train`")
        return ResetResult("Write an order in JSON with `name` and `count`.")

    def step(self, action):
        try:
            order = Order.parse_raw(action.text)
        except ValidationError as error:
            first = error.errors()[0]
            return StepResult(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        return StepResult(f"{order.name}: {order.count}", terminated=True, extras={"success": True})
