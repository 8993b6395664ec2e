"""OpenRLHF's executor drives the adapter, with a scripted engine in the place of vLLM."""

import asyncio
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("openrlhf.utils.agent", reason="openrlhf is not installed")
pytest.importorskip("torch", reason="torch is not installed")

import tiny
from gymkhana_rl.openrlhf import CHATML, label
from reference import Case, Played, as_text


class Engine:
    """Answers with the next action."""

    def __init__(self, tokenizer, texts: list[str]) -> None:
        self.tokenizer, self.texts = tokenizer, iter(texts)

    async def generate(self, prompt, sampling_params, multi_modal_data=None):
        text = f"{next(self.texts)}<|im_end|>"
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        shown = text.removesuffix("<|im_end|>")
        output = SimpleNamespace(token_ids=ids, text=shown, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


def test_the_executor_plays_an_agent_file(case: Case, played: Played, tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.write_text(
        "import gymkhana_rl.openrlhf\n"
        f"AgentExecutor = gymkhana_rl.openrlhf.agent_executor({case.plugin!r}, tools={case.tools!r})\n"
    )
    spec = importlib.util.spec_from_file_location("agent_module", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tokenizer = tiny.tokenizer()
    prompt = f"<|im_start|>user\n{played.texts[0]}<|im_end|>\n<|im_start|>assistant\n"
    texts = [as_text(action) for action in played.actions]
    result = asyncio.run(
        module.AgentExecutor().execute(
            prompt,
            label(case.task, case.split, case.seed),
            SimpleNamespace(max_tokens=64, logprobs=None),
            16384,
            tokenizer,
            Engine(tokenizer, texts),
        )
    )
    assert result["reward"] == sum(played.rewards)
    expected = prompt
    for text, observation in zip(texts, played.texts[1:], strict=True):
        expected += f"{text}<|im_end|>" + CHATML.format(observation=observation)
    expected = expected.removesuffix(CHATML.format(observation=played.texts[-1]))
    assert tokenizer.decode(result["observation_tokens"]) == expected
    assert len(result["action_ranges"]) == len(texts)
