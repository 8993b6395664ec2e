"""verl: tool plugins as `BaseTool`, reward plugins as `compute_score`, and an agent loop for environments."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from gymkhana_rl._adapter import (
    Episode,
    EpisodeConfig,
    PluginLike,
    Reply,
    framework,
    open_plugin,
    openai_tool,
    opening,
)
from gymkhana_rl.errors import OptionError

with framework("verl"):
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.tools.base_tool import BaseTool
    from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
    from verl.utils.profiler import simple_timer

__all__ = ["PluginAgentLoop", "PluginTool", "compute_score"]

# Tool sessions of each trajectory, which end with it. verl creates and releases a tool at every call, so that the
# state of a trajectory cannot be kept there.
_sessions: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class PluginTool(BaseTool):
    """One function of a tool plugin. All functions of the plugin share a session in each trajectory.

    The tool file's `config` has `type: native`, `plugin`, `function` (if the plugin has several), and optionally `seed`
    and `options`. The schema comes from the plugin.
    """

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None = None) -> None:
        self.plugin = open_plugin(config["plugin"])
        self.seed, self.options = int(config.get("seed", 0)), config.get("options")
        schemas = {schema["name"]: schema for schema in self._open().schemas}
        function = config.get("function") or (next(iter(schemas)) if len(schemas) == 1 else None)
        if function not in schemas:
            known = ", ".join(schemas)
            raise OptionError(f"plugin `{self.plugin.name}` has no function `{function}`", f"known: {known}")
        schema = tool_schema or OpenAIFunctionToolSchema.model_validate(openai_tool(schemas[function]))
        self._lonely: dict[str, Any] = {}
        super().__init__(config, schema)

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, ToolResponse]:
        return instance_id or str(uuid4()), ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        session = self._session(instance_id, kwargs.get("agent_data"))
        answer = await asyncio.to_thread(session.call, self.name, parameters)
        return ToolResponse(text=answer.content), 0.0, {"failed": float(answer.failed)}

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        session = self._lonely.pop(instance_id, None)
        if session is not None:
            session.close()

    def _session(self, instance_id: str, trajectory: Any) -> Any:
        """The trajectory's session; without a trajectory, a session of the instance until its release."""
        sessions = self._lonely if trajectory is None else _sessions.setdefault(trajectory, {})
        key = instance_id if trajectory is None else f"{self.plugin.digest} {self.seed} {self.options}"
        if key not in sessions:
            sessions[key] = self._open()
        return sessions[key]

    def _open(self) -> Any:
        return self.plugin.tool(seed=self.seed, options=self.options)


class PluginAgentLoop(AgentLoopBase):
    """Agent loop that plays an environment plugin. Rows (or their `extra_info`) name `task`, `split` and `seed`.

    The agent loop file has `name`, `_target_: gymkhana_rl.verl.PluginAgentLoop`, `plugin`, and optionally
    `plugin_tools`, `split`, `seed`, `options`, `seat` and `record`, which adds the episode's record to the output's
    extra fields, as `gymkhana_record`. The chat template offers the functions; the model calls them with
    `<tool_call>`, as Hermes and Qwen do.
    """

    def __init__(
        self,
        *args: Any,
        plugin: PluginLike,
        plugin_tools: Sequence[PluginLike] = (),
        split: str | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        seat: int | str = 0,
        record: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.record = record
        self.episodes = EpisodeConfig(plugin, tuple(plugin_tools), split, seed, options, seat)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Plays the row's episode until it ends or the response is full; its reward is the trajectory's score."""
        episode = self.episodes.episode()
        try:
            return await self._play(episode, sampling_params, kwargs)
        finally:
            episode.close()

    async def _play(
        self, episode: Episode, sampling_params: dict[str, Any], row: Mapping[str, Any]
    ) -> AgentLoopOutput:
        limits = self.rollout_config.multi_turn
        observation = await asyncio.to_thread(episode.start_row, {**(row.get("extra_info") or {}), **row})
        messages = opening(row["raw_prompt"], observation)
        tools: Any = [openai_tool(function) for function in episode.functions] or None
        tokens = _Tokens(await self.ct_build_initial_tokens(messages, tools=tools))
        prompt_length, request = len(tokens.ids), uuid4().hex
        metrics: Any = {}
        tokenizer: Any = self.tokenizer
        scores: list[float] = []
        while True:
            with simple_timer("generate_sequences", metrics):
                output = await self.server_manager.generate(
                    request_id=request, prompt_ids=tokens.ids, sampling_params=sampling_params
                )
            merged = await self.ct_merge_assistant_token(
                tokens.ids, output.token_ids, tokens.mask, tokens.known(output), assistant_logprobs=output.log_probs
            )
            tokens.update(merged)
            if len(tokens.mask) >= self.rollout_config.response_length:
                break  # The reply may be cut.
            text = tokenizer.decode(output.token_ids, skip_special_tokens=True)
            reply = Reply.from_text(text, episode.functions)
            with simple_timer("tool_calls", metrics):
                turn = await asyncio.to_thread(episode.act, reply)
            scores.append(turn.reward)
            if turn.done or len(scores) == limits.max_assistant_turns:
                break
            before = [*messages, reply.as_message]
            messages = [*before, *turn.messages]
            merged = await self.ct_merge_context_msg(
                before, messages, tokens.ids, tokens.mask, tokens.log_probs, tools=tools
            )
            if len(merged[1]) >= self.rollout_config.response_length:
                break
            tokens.update(merged)
        record = {"gymkhana_record": episode.env.record()} if self.record else {}
        end = self.rollout_config.response_length
        return AgentLoopOutput(
            prompt_ids=tokens.ids[:prompt_length],
            response_ids=tokens.ids[prompt_length:][:end],
            response_mask=tokens.mask[:end],
            response_logprobs=tokens.log_probs[:end] if tokens.log_probs else None,
            reward_score=episode.total,
            num_turns=len(messages) + 1,
            metrics=metrics,
            extra_fields={"turn_scores": scores, "tool_rewards": [], **record},
        )


@dataclass
class _Tokens:
    """Tokens of a conversation, with mask and log-probabilities of those after the prompt."""

    ids: list[int]
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] | None = None

    def known(self, output: Any) -> list[float] | None:
        """Log-probabilities so far, if the server gives any."""
        return self.log_probs or ([] if output.log_probs and not self.mask else None)

    def update(self, merged: tuple[Any, list[int], list[float] | None]) -> None:
        result, self.mask, self.log_probs = merged
        self.ids = result.token_ids


@functools.lru_cache(maxsize=32)
def _reward(plugin: str, options: tuple[tuple[str, Any], ...], process: int) -> Any:
    return open_plugin(plugin).reward(**dict(options))


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    plugin: str,
    column: str = "answer",
    **options: Any,
) -> dict[str, float]:
    """Scores a completion with a reward plugin, for `reward.custom_reward_function`.

    `reward_kwargs` names `plugin`, the `column` that `ground_truth` is, and options of the reward. Other columns come
    from `extra_info`.

    Returns:
        `score` (0 if unscored), `unscored`, and the reward's components.
    """
    reward = _reward(plugin, tuple(sorted(options.items())), os.getpid())
    columns = {**(extra_info or {}), column: ground_truth}
    (score,) = reward.score([solution_str], columns={name: [value] for name, value in columns.items()})
    components = {name: float(score.components.get(name, 0.0)) for name in reward.components}
    return {**components, "score": score.total or 0.0, "unscored": float(score.total is None)}
