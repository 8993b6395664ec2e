"""Python classes of gymkhana-sdk in place of plugins, for prototypes: in this process, without a sandbox.

    import gymkhana_rl as gk

    env = gk.local(Guess).env(split="train", seed=1)

The objects have the interface of `Plugin`, `Env`, `Tool` and `Reward`. Nothing limits their time, memory or access.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _native
from ._async import in_thread
from ._functions import functions_of
from ._types import Score, ToolAnswer
from .errors import LoadError, OptionError, PluginError, StaleHandleError

if TYPE_CHECKING:
    from ._local_env import LocalEnv

_MAKES = {"environment": "env", "tool": "tool", "reward": "reward"}


def local(kind: type) -> LocalPlugin:
    """The class of an environment, a tool or a reward, as a plugin without a sandbox. Needs the package gymkhana-sdk."""
    return LocalPlugin(kind)


def sdk() -> Any:
    """The package gymkhana_sdk, with its module of rules."""
    try:
        import gymkhana_sdk
        import gymkhana_sdk.rules
    except ImportError as error:
        raise LoadError(f"cannot import `gymkhana_sdk`: {error}", "pip install gymkhana-sdk") from error
    return gymkhana_sdk


class LocalPlugin:
    """A class with the interface of `Plugin`. It pickles by reference to the class."""

    version = "0.0.0"
    digest = ""

    def __init__(self, kind: type) -> None:
        package = sdk()
        bases = {"environment": package.Environment, "tool": package.Tool, "reward": package.Reward}
        found = [name for name, base in bases.items() if isinstance(kind, type) and issubclass(kind, base)]
        if len(found) != 1:
            shown = getattr(kind, "__name__", kind)
            raise LoadError(
                f"`{shown}` cannot be used: it is no class of one kind of plugin",
                "give a subclass of Environment, Tool or Reward of gymkhana_sdk",
            )
        self.cls: Any = kind
        self.kinds: tuple[str, ...] = (found[0],)
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).replace("_", "-").lower()
        self.name = f"local/{words.strip('-')}"

    def __repr__(self) -> str:
        return f"<LocalPlugin {self.name} ({self.kinds[0]}), not sandboxed>"

    def describe(self) -> dict[str, Any]:
        """What the class declares."""
        options = [{"name": one.name, "description": one.told(), "default": one.default} for one in self.cls.options]
        return {"name": self.name, "kinds": list(self.kinds), "summary": self.cls.summary, "options": options}

    def splits(self, **options: Any) -> dict[str, int | None]:
        """Number of tasks of each split; None for a split without end."""
        self.check("environment")
        with calling(self, "splits"):
            return {split.name: split.tasks for split in sdk().rules.Episode.splits(self.cls, options.items())}

    def env(
        self,
        *,
        split: str | None = None,
        task: int | None = None,
        seed: int = 0,
        tools: Sequence[Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> LocalEnv:
        """An environment without an episode, as `Plugin.env`. Its tools may be classes and plugins."""
        from ._local_env import LocalEnv

        self.check("environment")
        return LocalEnv(self, split=split, task=task, seed=seed, tools=tools, options=options)

    def tool(self, *, seed: int = 0, options: Mapping[str, Any] | None = None) -> LocalTool:
        """A session of the tool."""
        self.check("tool")
        return LocalTool(self, seed, dict(options or {}))

    def reward(self, *, seed: int = 0, **options: Any) -> LocalReward:
        """A reward function with these options."""
        self.check("reward")
        return LocalReward(self, seed, options)

    def check(self, kind: str) -> None:
        """Raises OptionError if the class is of another kind."""
        if kind not in self.kinds:
            own = self.kinds[0]
            raise OptionError(f"`{self.name}` is a class of kind {own}, not {kind}", f"call {_MAKES[own]}()")

    def offers(self, method: str) -> bool:
        """Whether the class defines an optional method."""
        package = sdk()
        base = {"environment": package.Environment, "tool": package.Tool, "reward": package.Reward}[self.kinds[0]]
        return bool(package.rules.offers(self.cls, base, method))


@contextmanager
def calling(plugin: LocalPlugin, what: str) -> Iterator[None]:
    """Turns an exception of the author's code into PluginError, with the line that raised it."""
    try:
        yield
    except sdk().Error as error:
        raise PluginError(f"{plugin.name} failed during {what}: {error}", None, plugin.name, "refused") from error
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({at.filename}:{at.lineno})"
        raise PluginError(f"{plugin.name} failed during {what}: {why}", None, plugin.name, "trap") from error


class LocalTool:
    """One session of a class. A session that fails begins again without its state, as in an episode."""

    def __init__(self, plugin: LocalPlugin, seed: int, options: Mapping[str, Any], setup: bytes | None = None) -> None:
        self.plugin = plugin
        self.seed = seed
        self.options = dict(options)
        self._setup = setup
        self._root = _native.child_seed(_native.child_seed(seed, "tool"), plugin.name.rpartition("/")[2])
        self._session: Any = None
        self._restarts = 0
        self._closed = False
        with calling(plugin, "functions"):
            functions = sdk().rules.Session.functions(plugin.cls, self.options.items())
            self.schemas = [schema_of(function) for function in functions]

    @property
    def functions(self) -> dict[str, Callable[..., str]]:
        """Python functions by name, with annotations and docstrings."""
        return functions_of(self)  # type: ignore[arg-type]

    def call(self, name: str, arguments: Mapping[str, Any], *, id: str = "") -> ToolAnswer:
        """Calls a function. A call that fails is an answer with the reason."""
        package = sdk()
        if self._closed:
            raise StaleHandleError("this tool cannot be used: it is closed")
        if name not in [schema["name"] for schema in self.schemas]:
            known = ", ".join(f"`{schema['name']}`" for schema in self.schemas)
            raise OptionError(f"tool `{self.plugin.name}` has no function `{name}`", f"it has {known}")
        try:
            with calling(self.plugin, "call"):
                if self._session is None:
                    seed = _native.child_seed(self._root, str(self._restarts))
                    opened = self._setup, self.options.items(), seed
                    self._session = package.rules.Session.open(self.plugin.cls, *opened)
                answer = self._session.call(package.Call(name, json_of(arguments), id))
        except PluginError as error:
            self._session, self._restarts = None, self._restarts + 1
            return ToolAnswer(str(error), True)
        return ToolAnswer(package.text_of(answer.content), answer.failed)

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """As `call`, awaited."""
        return await in_thread(self.call, (name, arguments))

    def final_view(self) -> dict[str, Any]:
        """What rewards see of a session that was called, by `TOOL.FIELD`."""
        if self._session is None or not self.plugin.offers("final_view"):
            return {}
        short = self.plugin.name.rpartition("/")[2]
        with calling(self.plugin, "final view"):
            return {f"{short}.{name}": value for name, value in self._session.tool.final_view().items()}

    def close(self) -> None:
        """Ends the session."""
        session, self._session, self._closed = self._session, None, True
        if session is not None:
            with calling(self.plugin, "close"):
                session.tool.close()

    def __enter__(self) -> LocalTool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalTool {self.plugin.name}, not sandboxed>"


class LocalReward:
    """A reward class with its options, as the function that trainers call."""

    def __init__(self, plugin: LocalPlugin, seed: int, options: Mapping[str, Any]) -> None:
        self.plugin = plugin
        self.seed = seed
        self.options = dict(options)
        self.components = tuple(plugin.cls.components)
        self.__name__ = plugin.name.rpartition("/")[2]

    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] | None = None, **columns: Any
    ) -> list[float | None]:
        """Scores completions, each alone; None where there is no score."""
        if completions is None:
            raise OptionError("a reward needs `completions`")
        return [score.total for score in self.score(completions, prompts, columns=columns)]

    def score(
        self,
        completions: Sequence[Any],
        prompts: Sequence[Any] | None = None,
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[Score]:
        """Scores completions, each alone, with components or the failure."""
        return [self._scored([attempt])[0] for attempt in self._attempts(completions, prompts, columns or {})]

    async def ascore(self, *args: Any, **kwargs: Any) -> list[Score]:
        """As `score`, awaited."""
        return await in_thread(self.score, args, kwargs)

    def group(self, prompt: Any, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Scores completions of one prompt together. Columns that are no lists are fields of the task."""
        rows = len(completions)
        spread = {name: value if isinstance(value, list) else [value] * rows for name, value in columns.items()}
        return [score.total for score in self._scored(self._attempts(completions, [prompt] * rows, spread))]

    def _attempts(
        self, completions: Sequence[Any], prompts: Sequence[Any] | None, columns: Mapping[str, Any]
    ) -> list[Any]:
        return [_trajectory(one) for one in _native.read_attempts(completions, prompts, columns)]

    def _scored(self, group: list[Any]) -> list[Score]:
        try:
            with calling(self.plugin, "score"):
                scores = sdk().rules.score(self.plugin.cls, group, self.options.items())
        except PluginError as error:
            return [Score(None, {}, str(error)) for _ in group]
        own = [seats.get(0) for seats in scores]
        none = Score(None, {}, "the reward gave no score for this seat")
        return [none if one is None else Score(one.total, dict(one.components)) for one in own]

    def __repr__(self) -> str:
        return f"<LocalReward {self.plugin.name}, not sandboxed>"


def schema_of(function: Any) -> dict[str, Any]:
    """A function of a class as its name, description and JSON Schema."""
    return {"name": function.name, "description": function.description, "parameters": json.loads(function.schema())}


def json_of(arguments: Mapping[str, Any]) -> str:
    """Arguments of a call as the text that a plugin gets."""
    return json.dumps(dict(arguments), ensure_ascii=False, separators=(",", ":"))


def _trajectory(attempt: Mapping[str, Any]) -> Any:
    package = sdk()
    return package.Trajectory(
        turns=[_turn(package, turn) for turn in attempt["turns"]],
        environment_rewards={0: []},
        privileged=attempt["privileged"],
        views=attempt["views"],
    )


def _turn(package: Any, turn: Mapping[str, Any]) -> Any:
    content = [package.Text(part["text"]) for part in turn.get("content", ())]
    if turn["turn"] == "call":
        call = turn["call"]
        own = package.Call(call["name"], call["arguments"], call["id"])
        return package.Turn(package.TurnKind.CALL, turn["seat"], call=own, cost=turn["cost"])
    kind = {
        "message": package.TurnKind.MESSAGE,
        "answer": package.TurnKind.ANSWER,
        "observation": package.TurnKind.OBSERVATION,
    }[turn["turn"]]
    return package.Turn(kind, turn["seat"], content, id=turn.get("id", ""), failed=turn.get("failed", False))
