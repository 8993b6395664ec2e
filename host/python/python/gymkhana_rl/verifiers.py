"""verifiers 0.4: a taskset, an environment and an in-process harness for environment plugins.

verifiers finds a taskset by the name of a top-level module: `--env.taskset.id gymkhana_verifiers`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from gymkhana_rl._adapter import Episode, EpisodeConfig, Reply, framework, open_plugin, openai_tool
from gymkhana_rl.errors import OptionError

with framework("verifiers"):
    import openai
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.errors import MODEL_TRANSPORT_ERROR_EXIT_CODE

__all__ = ["InProcessHarness", "PluginEnv", "PluginTaskset"]

_INFO = "gymkhana"


class PluginTaskData(vf.TaskData):
    """A task of a plugin: its split and index, the seed, and the functions that the player may call."""

    task: int
    split: str
    seed: int = 0
    functions: list[dict[str, Any]] = []


class PluginTask(vf.Task[PluginTaskData]):
    """A task whose reward is the sum of the player's rewards in the environment."""

    @property
    def key(self) -> str:
        return f"{self.data.split}/{self.data.task}/{self.data.seed}"

    @vf.reward
    async def environment(self, trace: vf.Trace) -> float:
        return float(trace.info.get(_INFO, {}).get("reward", 0.0))


class PluginTasksetConfig(vf.TasksetConfig):
    """Which plugin is played, and its tasks.

    Attributes:
        plugin: Registry name or path of the environment's component.
        tools: Names or paths of tool plugins.
        split: Split of the tasks; the plugin's first split by default.
        tasks: Number of tasks; all tasks of the split by default.
        seat: Name or number of the seat that the player takes; the oracle plays the others.
    """

    plugin: str = ""
    tools: list[str] = []
    split: str | None = None
    tasks: int | None = None
    seed: int = 0
    options: dict[str, Any] = {}
    seat: str | int = 0

    @property
    def episodes(self) -> EpisodeConfig:
        return EpisodeConfig(self.plugin, tuple(self.tools), self.split, self.seed, self.options or None, self.seat)


class PluginTaskset(vf.Taskset[PluginTask, PluginTasksetConfig]):
    """The tasks of one split of a plugin, in the order of their indices."""

    def __init__(self, config: PluginTasksetConfig) -> None:
        super().__init__(config)
        if not config.plugin:
            raise OptionError("the taskset names no plugin", "set --env.taskset.plugin")
        sizes = open_plugin(config.plugin).splits(**config.options)
        self.split = config.split or next(iter(sizes))
        if self.split not in sizes:
            raise OptionError(f"unknown split `{self.split}`", f"the splits are {', '.join(sizes)}")
        known = [size for size in (sizes[self.split], config.tasks) if size is not None]
        self.size = min(known, default=None)
        self.INFINITE = self.size is None

    def load(self) -> Iterable[PluginTask]:
        for index in itertools.count() if self.size is None else range(self.size):
            data = PluginTaskData(
                name=f"{self.split}/{index}", task=index, split=self.split, seed=self.config.seed
            )
            yield PluginTask(data, self.config.task)


class PluginEnvConfig(vf.EnvConfig):
    """The player, and whether traces contain the episodes' records."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    record: bool = False


class PluginEnv(vf.Env[PluginEnvConfig]):
    """Plays the environment plugin as the player's user. Works with each harness that can continue an exchange.

    Other harnesses than `InProcessHarness` do not offer the functions to the model.
    """

    async def run(self, task: PluginTask, agents: vf.Agents) -> None:
        """Plays one episode; its reward and its number of turns are on the player's trace."""
        episode = await asyncio.to_thread(self.taskset.config.episodes.episode)
        try:
            observation = await asyncio.to_thread(episode.start_row, task.data.model_dump())
            offered = task.with_data(functions=episode.functions)
            async with agents.player.interaction(offered) as interaction:
                await self._play(episode, interaction, observation)
        finally:
            episode.close()

    async def _play(self, episode: Episode, interaction: vf.Interaction, observation: str) -> None:
        messages: list[Any] = [{"role": "user", "content": observation}]
        while not episode.done:
            segment = await interaction.turn(messages)
            if segment.terminated:
                break
            reply = Reply.from_message(segment.messages[-1].model_dump(), episode.functions)
            turn = await asyncio.to_thread(episode.act, reply)
            messages = turn.messages
        record = {"record": episode.env.record()} if self.config.record else {}
        interaction.trace.info[_INFO] = {"reward": episode.total, "done": episode.done, **record}


# One client for each event loop: its connections belong to the loop.
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = WeakKeyDictionary()


class InProcessHarness(vf.Harness[vf.HarnessConfig]):
    """Chat harness without a process: each segment is one request with the whole conversation."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Requests one answer. A stopped rollout refuses the request, which is not an error of the harness."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        tools: Any = [openai_tool(function) for function in getattr(data, "functions", [])]
        client = _client().with_options(base_url=endpoint, api_key=secret)
        try:
            await client.chat.completions.create(model=ctx.model, messages=messages, tools=tools or openai.omit)
        except openai.APIConnectionError as error:
            return vf.ProgramResult(MODEL_TRANSPORT_ERROR_EXIT_CODE, "", str(error))
        except openai.APIStatusError as error:
            return vf.ProgramResult(1, "", str(error))
        return vf.ProgramResult(0, "", "")


def _client() -> openai.AsyncOpenAI:
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = openai.AsyncOpenAI(base_url="http://127.0.0.1", api_key="unset")
    return _clients[loop]
