"""OpenEnv's validator and clients, TRL's environment factory and verifiers' taskset against the OpenEnv endpoint."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from openenv import GenericEnvClient
from openenv.cli._validation import validate_running_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient

# The way over the map of four by four tiles.
MOVES = ("down", "down", "right", "down", "right", "right")


@pytest.mark.parametrize("path", ["", "/openenv/frozen-lake"])
def test_the_runtime_profile_is_valid(url, path):
    report = validate_running_environment(url + path)
    failed = [criterion for criterion in report["criteria"] if not criterion["passed"]]
    assert failed == []
    assert (report["mode"], report["standard_profile"]) == ("simulation", "openenv-http/1.x")
    assert len(report["criteria"]) == 6


def test_the_generic_client_plays_an_episode(url):
    with GenericEnvClient(base_url=url).sync() as env:
        first = env.reset(seed=3, episode_id="mine")
        assert (first.done, first.reward) == (False, None)
        steps = [env.step({"text": move}) for move in MOVES]
        state = env.state()
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            env.step({"words": "left"})
        again = env.reset(seed=3)
        assert again.observation["text"] == first.observation["text"]
    assert [step.done for step in steps] == [False] * 5 + [True]
    assert sum(step.reward for step in steps) == 1.0
    assert (state["episode_id"], state["step_count"], state["seed"]) == ("mine", 6, 3)


def test_an_environment_by_name_has_its_own_address(url):
    with GenericEnvClient(base_url=f"{url}/openenv/frozen-lake").sync() as env:
        assert env.reset(seed=1).observation["text"]


def test_the_tool_client_shares_a_session_with_its_socket(url):
    async def play():
        async with MCPToolClient(base_url=url) as env:
            tools = await env.list_tools()
            await env.reset(seed=1)
            called = await env.call_tool("calculate", expression="6*7")
            step = await env.step(CallToolAction(tool_name="calculate", arguments={"expression": "1+1"}))
            with pytest.raises(RuntimeError):
                await env.call_tool("calculate", expression="6*")
            return tools, called, step, await env.state()

    tools, called, step, state = asyncio.run(play())
    assert "calculate" in [tool.name for tool in tools]
    assert "42" in str(called)
    assert "2" in str(step.observation.result)
    assert state.step_count == 3


def test_verifiers_taskset_plays_an_episode(url):
    from verifiers.v1.tasksets.openenv import OpenEnvConfig, OpenEnvEnv, OpenEnvTaskset

    (task,) = OpenEnvTaskset(OpenEnvConfig(base_url=url, resets=[{"seed": 3}])).load()
    replies, rewards = iter(MOVES), {}

    class Interaction:
        trace = SimpleNamespace(record_reward=rewards.__setitem__, stop=lambda reason: pytest.fail(reason))

        async def turn(self, payload):
            assert "action_schema" in payload
            return SimpleNamespace(terminated=False, last_reply=next(replies))

    @asynccontextmanager
    async def interaction(task):
        yield Interaction()

    agents = SimpleNamespace(player=SimpleNamespace(interaction=interaction))
    asyncio.run(OpenEnvEnv.run(None, task, agents))
    assert rewards == {"openenv_reward": 1.0}


def test_trl_plays_through_an_environment_factory(url, tmp_path):
    import json
    from pathlib import Path

    import tiny
    import trl

    earned = []

    class Lake:
        def __init__(self):
            self._client = GenericEnvClient(base_url=url).sync()
            self._client.connect()

        def reset(self, **row):
            self._reward = 0.0
            return self._client.reset(seed=3).observation["text"]

        def move(self, direction: str) -> str:
            """Moves over the ice.

            Args:
                direction: The direction.

            Returns:
                What is seen.
            """
            step = self._client.step({"text": direction})
            self._reward += step.reward
            return step.observation["text"]

        def get_reward(self) -> float:
            earned.append(self._reward)
            return self._reward

    call = "<tool_call>\n{}\n</tool_call>"
    calls = [call.format(json.dumps({"name": "move", "arguments": {"direction": word}})) for word in ("down", "right")]
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    tokenizer = tiny.tokenizer(template.read_text(), calls)
    kept = {tokenizer.convert_tokens_to_ids(word) for word in calls} | {tokenizer.eos_token_id}
    config = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=4, num_generations=4,
        max_completion_length=600, max_tool_calling_iterations=2, use_cpu=True, bf16=False,
        gradient_checkpointing=False, report_to=[], save_strategy="no", seed=1, disable_tqdm=True,
        generation_kwargs={"suppress_tokens": [token for token in range(len(tokenizer)) if token not in kept]},
        chat_template_kwargs={"enable_thinking": False},
    )
    from datasets import Dataset

    trainer = trl.GRPOTrainer(
        model=tiny.model(len(tokenizer)), args=config, processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": "Go."}]] * 4}),
        environment_factory=Lake,
    )
    trainer.train()
    assert len(earned) == 4
