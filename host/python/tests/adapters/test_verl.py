"""verl's tool loader, tool loop, agent loop registry and reward manager drive the adapter without its GPU parts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed")
pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="verl's agent loop cannot be imported")

import hydra
import numpy
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.tools.tool_registry import initialize_tools_from_config
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.reward_manager.naive import NaiveRewardManager
from verl.workers.rollout.replica import TokenOutput

import gymkhana_rl
import tiny
from gymkhana_rl._adapter import EpisodeConfig
from gymkhana_rl.verl import compute_score
from reference import CASES, Case, Played, as_text, comparable, path, play


class Server:
    """Answers with the next text; keeps the prompts."""

    def __init__(self, tokenizer: Any, texts: list[str], log_probs: bool) -> None:
        self.tokenizer, self.texts, self.log_probs = tokenizer, iter(texts), log_probs
        self.prompts: list[str] = []

    async def generate(self, *, prompt_ids: list[int], **_: Any) -> TokenOutput:
        self.prompts.append(self.tokenizer.decode(prompt_ids))
        ids = self.tokenizer(f"{next(self.texts)}<|im_end|>", add_special_tokens=False)["input_ids"]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids) if self.log_probs else None)


def arguments(server: Server, response_length: int = 8192, **multi_turn: Any) -> dict[str, Any]:
    """What verl's worker passes to each agent loop."""
    turns = {
        "max_user_turns": None,
        "max_assistant_turns": None,
        "max_parallel_calls": 4,
        "max_tool_response_length": 4096,
        "tool_response_truncate_side": "middle",
        "format": "hermes",
        **multi_turn,
    }
    lengths = {"prompt_length": 4096, "response_length": response_length}
    rollout = {**lengths, "full_determinism": False, "multi_turn": turns}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    return {
        "trainer_config": DictConfigWrap(config),
        "server_manager": server,
        "tokenizer": server.tokenizer,
        "processor": None,
        "dataset_cls": RLHFDataset,
        "data_config": DictConfigWrap(config.data),
        "hf_model_type": "qwen2",
        "tools": ToolListWrap([]),
    }


def run_loop(case: Case, server: Server, **limits: Any) -> Any:
    """Opens the agent loop from the configuration of an agent loop file, as verl's worker does."""
    entry = OmegaConf.create(
        {
            "_target_": "gymkhana_rl.verl.PluginAgentLoop",
            "plugin": case.plugin,
            "plugin_tools": list(case.tools),
            "record": True,
        }
    )

    async def run() -> Any:
        loop = hydra.utils.instantiate(config=entry, **arguments(server, **limits))
        prompt = [{"role": "user", "content": ""}]
        return await loop.run({}, raw_prompt=prompt, extra_info={"index": 0, **case.row})

    return asyncio.run(run())


@pytest.mark.parametrize("log_probs", [True, False])
def test_the_agent_loop_plays_an_episode(case: Case, played: Played, log_probs: bool) -> None:
    texts = [as_text(action) for action in played.actions]
    server = Server(tiny.tokenizer(), texts, log_probs)
    output = run_loop(case, server)
    assert output.reward_score == sum(played.rewards)
    assert output.extra_fields["turn_scores"] == played.rewards
    assert comparable(output.extra_fields["gymkhana_record"]) == played.record
    assert played.texts[0] in server.prompts[0]
    for prompt, text in zip(server.prompts[1:], played.texts[1:-1], strict=True):
        assert text in prompt.rsplit("<|im_end|>", 2)[1]
    trained = [token for token, kept in zip(output.response_ids, output.response_mask, strict=True) if kept]
    assert server.tokenizer.decode(trained).replace("<|im_end|>", "") == "".join(texts)
    assert (output.response_logprobs is not None) == log_probs
    output.as_dict()


def test_the_agent_loop_obeys_the_limit_of_turns() -> None:
    server = Server(tiny.tokenizer(), ["?", "?", "?"], True)
    output = run_loop(CASES["messages"], server, max_assistant_turns=2)
    assert len(server.prompts) == len(output.extra_fields["turn_scores"]) == 2


def test_a_reply_that_fills_the_response_is_not_played() -> None:
    server = Server(tiny.tokenizer(), ["right, " * 20], True)
    output = run_loop(CASES["messages"], server, response_length=16)
    assert (len(output.response_ids), output.extra_fields["turn_scores"], output.reward_score) == (16, [], 0.0)


def tools(tmp_path: Path, **config: Any) -> list[Any]:
    entry = {"class_name": "gymkhana_rl.verl.PluginTool", "config": {"type": "native", **config}}
    file = tmp_path / "tools.yaml"
    file.write_text(OmegaConf.to_yaml(OmegaConf.create({"tools": [entry]})))
    return initialize_tools_from_config(str(file))


def test_a_tool_is_called_by_verls_own_loop(tmp_path: Path) -> None:
    (tool,) = tools(tmp_path, plugin=path("calculator"))
    (parameter,) = tool.tool_schema.function.parameters.properties
    call = json.dumps({"name": tool.name, "arguments": {parameter: "6*7"}})
    server = Server(tiny.tokenizer(), [f"<tool_call>\n{call}\n</tool_call>", "It is 42."], True)

    async def run() -> Any:
        loop = ToolAgentLoop(**{**arguments(server), "tools": ToolListWrap([tool])})
        return await loop.run({}, raw_prompt=[{"role": "user", "content": "6*7?"}])

    output = asyncio.run(run())
    assert "<|im_start|>tool\n42" in server.prompts[1]
    assert output.num_turns == 4


def test_a_wrong_function_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no function `nothing`"):
        tools(tmp_path, plugin=path("calculator"), function="nothing")


def test_calls_without_a_trajectory_share_a_session_until_the_release(tmp_path: Path) -> None:
    (tool,) = tools(tmp_path, plugin=path("calculator"))
    (parameter,) = tool.tool_schema.function.parameters.properties

    async def run() -> tuple:
        instance, _ = await tool.create()
        answers = [await tool.execute(instance, {parameter: text}) for text in ("1+1", "1+")]
        await tool.release(instance)
        await tool.release(instance)
        return answers

    (good, _, facts), (_, _, failed) = asyncio.run(run())
    assert (good.text, facts, failed) == ("2", {"failed": 0.0}, {"failed": 1.0})


def test_compute_score_scores_verls_batches() -> None:
    tokenizer = tiny.tokenizer()
    texts = ["The answer is 4", "4", "5"]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    width = max(map(len, ids))
    responses = torch.tensor([one + [tokenizer.pad_token_id] * (width - len(one)) for one in ids])
    prompts = torch.full((3, 2), tokenizer.pad_token_id)
    seen = torch.tensor([[1, 1, *[1] * len(one), *[0] * (width - len(one))] for one in ids])
    batch = TensorDict({"prompts": prompts, "responses": responses, "attention_mask": seen}, batch_size=3)
    facts = {
        "data_source": numpy.array(["sums"] * 3, dtype=object),
        "reward_model": numpy.array([{"ground_truth": "4"}] * 3, dtype=object),
        "extra_info": numpy.array([{}] * 3, dtype=object),
    }

    def score(**given: Any) -> dict[str, float]:
        return compute_score(**given, plugin=path("answer-match"))

    manager = NaiveRewardManager(tokenizer, num_examine=0, compute_score=score)
    result = manager(DataProto(batch=batch, non_tensor_batch=facts), return_dict=True)
    assert result["reward_tensor"].sum(-1).tolist()[1:] == [1.0, 0.0]
    assert result["reward_extra_info"]["unscored"] == [0.0, 0.0, 0.0]


def test_scores_and_episodes_work_in_ray_actors() -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    # Workers import the module of the test's cases.
    modules = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=modules)
    try:

        @ray.remote
        class Worker:
            def score(self) -> float:
                return compute_score("sums", "4", "4", plugin=path("answer-match"))["score"]

            def texts(self, config: Any, row: dict[str, Any], actions: list[str]) -> list[str]:
                episode = config.episode()
                return [episode.start_row(row), *(episode.reply(action).text for action in actions)]

        case = CASES["messages"]
        played = play(case)
        worker = Worker.remote()
        plugin = gymkhana_rl.load(case.plugin)
        assert ray.get(worker.score.remote(), timeout=300) == 1.0
        texts = worker.texts.remote(EpisodeConfig(plugin), case.row, played.actions)
        assert ray.get(texts, timeout=120) == played.texts
    finally:
        ray.shutdown()
