"""TRL's trainer and its schema generator accept the adapter, in this process and in spawned ones."""

import inspect
import json
import multiprocessing
import pickle
import queue
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

trl = pytest.importorskip("trl", reason="trl is not installed")
pytest.importorskip("torch", reason="torch is not installed")

from accelerate.state import PartialState
from transformers.utils import get_json_schema

import gymkhana_rl
import tiny
from gymkhana_rl.datasets import tasks
from gymkhana_rl.trl import environment_factory
from reference import CASES, path, play
from scripted import serve

LAKE = path("frozen-lake")
WORDS = ("left", "down", "right", "up")
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
CALL = "<tool_call>\n{}\n</tool_call>"


def tools_of(environment: object) -> list:
    """The tools as TRL finds them: functions of the class without `reset`, `get_reward` and private ones."""
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    public = [name for name, _ in members if not name.startswith("_") and name not in ("reset", "get_reward")]
    return [getattr(environment, name) for name in public]


def test_functions_are_real_methods_with_schemas() -> None:
    case = CASES["calls"]
    environment = environment_factory(case.plugin, tools=case.tools)()
    schemas = {tool.__name__: get_json_schema(tool)["function"] for tool in tools_of(environment)}
    env = case.env()
    env.reset(**case.row)
    assert set(schemas) == {"act", *(function["name"] for function in env.functions)}
    for function in env.functions:
        schema = schemas[function["name"]]
        assert set(schema["parameters"]["properties"]) == set(function["parameters"]["properties"])
        assert schema["parameters"].get("required") == function["parameters"].get("required")


def test_the_message_function_can_be_renamed_and_left_out() -> None:
    case = CASES["calls"]

    def names(**arguments: str | None) -> list[str]:
        environment = environment_factory(case.plugin, tools=case.tools, **arguments)()
        return [tool.__name__ for tool in tools_of(environment)]

    assert "say" in names(message="say")
    assert "act" not in names(message=None)
    with pytest.raises(ValueError, match="`reset` cannot be a tool"):
        names(message="reset")


def test_a_row_without_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match="no column `task`"):
        environment_factory(LAKE)().reset(prompt=[])


def test_calls_after_the_end_do_not_reach_the_plugin() -> None:
    played = play(CASES["messages"])
    environment = environment_factory(LAKE)()
    environment.reset(**CASES["messages"].row)
    for action in played.actions:
        last = environment.act(message=action)
    assert last.endswith("The episode is over.")
    assert environment.act(message="left") == "The episode is over."
    assert environment.get_reward() == sum(played.rewards) == 1.0


def in_another_process(payload: bytes, row: dict, actions: list, answers) -> None:
    """What AsyncGRPO's worker does with the pickled factory and rewards."""
    arguments = pickle.loads(payload)
    environment = arguments["environment_factory"]()
    texts = [environment.reset(**row), *(environment.act(message=action) for action in actions)]
    scores = arguments["reward_funcs"][0]([""], ["4"], answer=["4"])
    answers.put((texts, environment.get_reward(), [tool.__name__ for tool in tools_of(environment)], scores))


def test_factory_and_rewards_work_in_a_spawned_process() -> None:
    case = CASES["messages"]
    played = play(case)
    factory = environment_factory(LAKE)
    factory()  # the class that a call makes must not be in the pickle
    arguments = {"environment_factory": factory, "reward_funcs": [gymkhana_rl.load(path("answer-match")).reward()]}
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(
        target=in_another_process, args=(pickle.dumps(arguments), case.row, played.actions, answers)
    )
    process.start()
    texts, reward, names, scores = answers.get(timeout=120)
    process.join()
    assert texts[:-1] == played.texts[:-1]
    assert texts[-1].startswith(played.texts[-1])
    assert (reward, names, scores) == (1.0, ["act"], [1.0])


def next_sample(worker: Any) -> Any:
    """The next sample of a rollout worker whose child did not fail."""
    for _ in range(120):
        worker.check_health(stale_after_s=120)
        try:
            return worker.rollout_buffer.get(timeout=1)
        except queue.Empty:
            continue
    raise TimeoutError("no sample in 120 seconds")


def test_the_rollout_worker_of_asyncgrpo_plays_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's worker in a spawned process, with a scripted server in the place of vLLM's."""
    worker_module = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    monkeypatch.setattr(worker_module, "is_vllm_available", lambda: True)
    PartialState()  # The worker's logger needs it; the trainer makes it.
    tokenizer = tiny.tokenizer(TEMPLATE.read_text())
    scripts = {}
    data = tasks(LAKE, count=2, observe=False)
    for row in data:
        played = play(replace(CASES["messages"], task=row["task"], seed=row["seed"]))
        scripts[played.texts[0]] = played

    def complete(request: dict) -> dict:
        prompt = tokenizer.decode(request["prompt"])
        played = next(played for first, played in scripts.items() if f"user\n{first}<|im_end|>" in prompt)
        turn = prompt.count("<|im_start|>assistant") - 1
        text = "Done."
        if turn < len(played.actions):
            text = CALL.format(json.dumps({"name": "act", "arguments": {"message": played.actions[turn]}}))
        ids = tokenizer(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"]
        return {"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": [-0.1] * len(ids)}}]}

    with serve(complete) as url:
        worker = worker_module.AsyncRolloutWorker(
            model_name="scripted",
            dataset=data,
            reward_funcs=[gymkhana_rl.load(path("tool-efficiency")).reward()],
            processing_class=tokenizer,
            eos_token_ids=[tokenizer.eos_token_id],
            environment_factory=environment_factory(LAKE),
            num_generations=2,
            max_inflight_tasks=4,
            vllm_server_url=url,
            chat_template_kwargs={"enable_thinking": False},
        )
        worker.start()
        try:
            samples = [next_sample(worker) for _ in range(4)]
        finally:
            # It would wait for a child that failed.
            if worker._process.is_alive():
                worker.stop()
    for sample in samples:
        played = scripts[sample.prompt[-1]["content"]]
        seen = [message["content"] for message in sample.completion if message["role"] == "tool"]
        assert seen[:-1] == played.texts[1:-1]
        assert seen[-1].startswith(played.texts[-1])
        assert sample.metrics["rewards/frozen_lake"] == 1.0


def test_grpo_learns_the_way_over_the_ice(tmp_path: Path) -> None:
    calls = [CALL.format(json.dumps({"name": "act", "arguments": {"message": word}})) for word in WORDS]
    tokenizer = tiny.tokenizer(TEMPLATE.read_text(), calls)
    kept = {tokenizer.convert_tokens_to_ids(word) for word in calls} | {tokenizer.eos_token_id}
    config = trl.GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=18,
        per_device_train_batch_size=16,
        num_generations=16,
        learning_rate=3e-2,
        lr_scheduler_type="constant",
        max_completion_length=500,
        max_tool_calling_iterations=6,
        generation_kwargs={"suppress_tokens": [token for token in range(len(tokenizer)) if token not in kept]},
        chat_template_kwargs={"enable_thinking": False},
        beta=0.0,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        report_to=[],
        save_strategy="no",
        seed=1,
    )
    options = {"map": "random", "size": 2}
    trainer = trl.GRPOTrainer(
        model=tiny.model(len(tokenizer)),
        args=config,
        processing_class=tokenizer,
        train_dataset=tasks(LAKE, count=1, options=options, observe=False),
        environment_factory=environment_factory(LAKE, options=options),
    )
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    failures = [entry["tools/failure_frequency"] for entry in trainer.state.log_history if "reward" in entry]
    assert sum(failures) == 0
    assert sum(rewards[:2]) / 2 < 0.75
    assert sum(rewards[-5:]) / 5 > 0.9
