"""OpenRLHF: environment plugins as agents of `--train.agent_func_path`.

The agent file needs one statement: `AgentExecutor = gymkhana_rl.openrlhf.agent_executor("gymkhana/frozen-lake")`.
"""

from __future__ import annotations

import json
from typing import Any

from gymkhana_rl._adapter import Episode, EpisodeConfig, PluginLike, framework, tools_prompt

with framework("openrlhf"):
    import torch
    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

__all__ = ["CHATML", "agent_executor", "agent_instance", "label"]

CHATML = "\n<|im_start|>user\n{observation}<|im_end|>\n<|im_start|>assistant\n"


class _Agent(AgentInstanceBase):
    """One episode. A subclass has the settings."""

    _config: EpisodeConfig
    _template: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.episode: Episode = self._config.episode()

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Starts the episode that the row's label names; adds the first observation unless the prompt has it."""
        prompt = states["observation"]
        observation = self.episode.start_row(json.loads(states["label"]))
        if observation not in prompt:
            system = tools_prompt(self.episode.functions)
            prompt += self._template.format(observation=f"{system}\n\n{observation}".strip())
        return {"observation": prompt}

    async def step(self, state_dict: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Steps the episode with the model's text; the feedback is the next turn in the chat template's form."""
        turn = self.episode.reply(state_dict["action_text"])
        return {
            "rewards": torch.tensor(turn.reward),
            "scores": torch.tensor(self.episode.total),
            "environment_feedback": "" if turn.done else self._template.format(observation=turn.text),
            "done": turn.done,
            "sampling_params": state_dict.get("sampling_params"),
            "extra_logs": {"truncated": torch.tensor(float(turn.truncated))},
        }


def agent_instance(plugin: PluginLike, *, template: str = CHATML, **settings: Any) -> type[Any]:
    """A subclass of `AgentInstanceBase` for a plugin.

    Args:
        plugin: The environment's plugin, its registry name, or the path of its component.
        template: A user turn and the beginning of the assistant's answer in the model's chat template, with the field
            `{observation}`. ChatML by default; its end-of-turn mark is part of the model's answer.
        settings: Other fields of the episodes: `tools`, `split`, `seed`, `options`, `seat`, `opponent`.
    """
    body = {"_config": EpisodeConfig(plugin, **settings), "_template": template}
    return type("AgentInstance", (_Agent,), body)


def agent_executor(plugin: PluginLike, **settings: Any) -> type[Any]:
    """The class that the agent file must define under the name `AgentExecutor`. Arguments as in `agent_instance`."""
    instance = agent_instance(plugin, **settings)

    class AgentExecutor(MultiTurnAgentExecutor):
        def __init__(self) -> None:
            super().__init__(instance)

    return AgentExecutor


def label(task: int, split: str | None = None, seed: int | None = None) -> str:
    """The label of a row, which names its episode."""
    chosen = {"task": task, "split": split, "seed": seed}
    return json.dumps({key: value for key, value in chosen.items() if value is not None})
