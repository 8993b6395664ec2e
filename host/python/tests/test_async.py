"""The `async` twins."""

from __future__ import annotations

import asyncio
import time

import pytest

import gymkhana_rl as gk


def test_twins_answer_as_their_calls_do(lake, load):
    async def main():
        env, other = lake.env(seed=2), lake.env(seed=2)
        assert await env.areset(seed=5) == other.reset(seed=5)
        assert await env.astep("left") == other.step("left")
        vector = lake.vector_env(4)
        assert await vector.areset(seed=1) == lake.vector_env(4).reset(seed=1)
        assert len((await vector.astep(["left"] * 4))[0]) == 4
        tool, reward = load("calculator").tool(), load("answer-match").reward()
        assert (await tool.acall("calculate", {"expression": "3*3"})).content == "9"
        assert (await reward.ascore(["9"], columns={"answer": ["9"]}))[0].total == 1.0
        with pytest.raises(gk.OptionError):
            await env.areset(split="nothing")

    asyncio.run(main())


def test_the_loop_runs_while_guests_compute(load):
    async def main():
        plugin = load("guest-hostile-environment", timeout_s=0.4)
        envs = [plugin.env(options={"behaviour": "loop-step"}) for _ in range(2)]
        await asyncio.gather(*(env.areset() for env in envs))
        calls = asyncio.gather(*(env.astep("yes") for env in envs), return_exceptions=True)
        longest, since = 0.0, time.monotonic()
        while not calls.done():
            await asyncio.sleep(0.01)
            longest, since = max(longest, time.monotonic() - since), time.monotonic()
        assert {error.kind for error in await calls} == {"budget"}
        assert longest < 0.35

    asyncio.run(main())
