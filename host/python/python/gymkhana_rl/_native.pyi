"""The native module. `gymkhana_rl` exports its names."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, final

from ._types import Action, Call, Options, Score, ToolAnswer

__version__: str

def load(
    plugin: str | PathLike[str] | bytes,
    *,
    grants: Mapping[str, Any] | None = None,
    fuel: int | None = None,
    timeout_s: float | None = None,
    memory_mib: int | None = None,
) -> Plugin:
    """Loads a plugin: a name with versions such as "gymkhana/frozen-lake@^0.1", a path, or the bytes of a component.

    grants: what the plugin may use, in the words of a run file's [plugins.NAME]: `assets`, `model`, `http`. `model`
        holds the keys of [models.NAME].
    fuel: instructions of one call, equal on every machine; by default they are not counted.
    timeout_s: running time of one call in seconds, by default 1.
    memory_mib: memory of one live instance in MiB, by default 64.

    Raises LoadError, and OptionError for an argument out of its range.
    """

def local(kind: type, code: object, name: str, of: str, offered: Sequence[str], source: str) -> Plugin:
    """The plugin of a class, without a sandbox. `gymkhana_rl.local` finds the arguments of a class."""

def read_reply(text: str) -> tuple[str | None, str, list[tuple[str, Any, str]]]:
    """Thoughts, message and calls of a model's text in the format of Hermes: name, arguments and `""`, or the text of a
    call that cannot be read, `None` and the reason."""

def step_many(
    envs: Iterable[Env], actions: Iterable[Action]
) -> list[tuple[str, float, bool, bool, dict[str, Any]]]:
    """Takes a turn in each environment, side by side. One that fails is truncated, with the failure in its info.

    Raises EpisodeEndedError before any turn if one of the episodes is over.
    """

def shut_down() -> None:
    """Ends the threads of this process. Runs at the interpreter's end."""

@final
class Plugin:
    """A loaded plugin. It pickles by its bytes or its name, its grants and its limits, or by reference to its class."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def unsandboxed(self) -> bool:
        """Whether it is a class, which runs in this process and without a sandbox."""
    @property
    def kinds(self) -> tuple[str, ...]: ...
    def describe(self) -> dict[str, Any]:
        """Everything known about the plugin, as `host plugin inspect --json` prints it."""
    def splits(self, **options: Any) -> dict[str, int | None]:
        """Number of tasks of each split under these options; None for a split without end."""
    def around(self, environment: Plugin, *, options: Options | None = None) -> Plugin:
        """This wrapper around an environment with these options: an environment as any other.

        Raises OptionError if this is not a wrapper, the other is not an environment, or it lacks an option.
        """
    @property
    def layers(self) -> tuple[Plugin, Plugin, dict[str, Any]] | None:
        """Parts of a wrapper with an environment inside: the wrapper, the environment and its options."""
    def env(
        self,
        *,
        split: str | None = None,
        task: int | None = None,
        seed: int = 0,
        tools: Iterable[Plugin | Tool | type] | None = None,
        options: Options | None = None,
    ) -> Env:
        """An environment without an episode; `reset` begins one. Without `task`, each reset draws one of `split`."""
    def restore(self, state: bytes, *, tools: Iterable[Plugin | Tool | type] | None = None) -> Env:
        """Opens an environment from the bytes of `Env.snapshot`, with the tools that it had."""
    def vector_env(
        self,
        num_envs: int,
        *,
        split: str | None = None,
        seed: int = 0,
        shared_episodes: int = 1,
        tools: Iterable[Plugin | Tool | type] | None = None,
        options: Options | None = None,
    ) -> VectorEnv:
        """Environments that are stepped together. Number i begins with the seed `seed + i`.

        `shared_episodes` of them share one instance of the plugin, which takes less memory and time. A trap in one
        then ends all of those, and the sandbox does not isolate them from each other.
        """
    def tool(self, *, seed: int = 0, options: Options | None = None) -> Tool:
        """A session of a tool."""
    def reward(self, *, seed: int = 0, **options: Any) -> Reward:
        """A reward function with these options."""
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Env:
    """One environment, with Gymnasium's methods and text as observations and actions."""

    @property
    def plugin(self) -> Plugin: ...
    @property
    def tools(self) -> tuple[Plugin | Tool, ...]: ...
    @property
    def functions(self) -> list[dict[str, Any]]:
        """Functions of the seat to move, as names, descriptions and JSON Schemas; of task 0 before the first reset."""
    @property
    def seat(self) -> int: ...
    @property
    def seats(self) -> tuple[str, ...]: ...
    @property
    def done(self) -> bool: ...
    @property
    def options(self) -> dict[str, Any]: ...
    def reset(
        self,
        *,
        seed: int | None = None,
        task: int | None = None,
        split: str | None = None,
        options: Options | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Begins the next episode. Without `task` it is drawn from the seed; without `seed` the sequence continues."""
    def step(self, action: Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes a turn: observation, reward, terminated, truncated, info.

        Raises PluginError if the environment fails, which ends the episode, and EpisodeEndedError after the end.
        """
    def areset(self, **kwargs: Any) -> Awaitable[tuple[str, dict[str, Any]]]: ...
    def astep(self, action: Action) -> Awaitable[tuple[str, float, bool, bool, dict[str, Any]]]: ...
    def advise(self) -> str | list[Call]:
        """What the environment's expert would do: an action."""
    def privileged(self) -> dict[str, Any]:
        """The fields that rewards and teachers see, and policies do not."""
    def render(self) -> str: ...
    def state_key(self) -> bytes: ...
    def fork(self) -> Env:
        """A copy that continues apart, in this process."""
    def snapshot(self) -> bytes:
        """The environment and its episode as bytes, for `Plugin.restore`."""
    def record(self) -> dict[str, Any]: ...
    def record_bytes(self) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Env: ...
    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class VectorEnv:
    """Environments that one call steps, with Gymnasium's vector methods and next-step autoreset."""

    @property
    def plugin(self) -> Plugin: ...
    @property
    def num_envs(self) -> int: ...
    def reset(self, *, seed: int | Sequence[int | None] | None = None) -> tuple[list[str], dict[str, Any]]: ...
    def step(self, actions: Iterable[Action]) -> tuple[list[str], Any, Any, Any, dict[str, Any]]:
        """Takes a turn in each environment: texts, arrays float64[N], bool[N] and bool[N], and infos."""
    def areset(self, **kwargs: Any) -> Awaitable[tuple[list[str], dict[str, Any]]]: ...
    def astep(self, actions: Iterable[Action]) -> Awaitable[tuple[list[str], Any, Any, Any, dict[str, Any]]]: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Tool:
    """One session of a tool. A session that fails begins again without its state, as in an episode."""

    @property
    def plugin(self) -> Plugin: ...
    @property
    def seed(self) -> int: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def schemas(self) -> list[dict[str, Any]]: ...
    @property
    def functions(self) -> dict[str, Callable[..., str]]:
        """Python functions by name, with annotations and docstrings. Each returns the answer's text."""
    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer: ...
    def acall(self, name: str, arguments: Mapping[str, Any]) -> Awaitable[ToolAnswer]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Tool: ...
    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Reward:
    """A reward with its options, as the function that trainers call."""

    @property
    def plugin(self) -> Plugin: ...
    @property
    def seed(self) -> int: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def components(self) -> tuple[str, ...]: ...
    @property
    def __name__(self) -> str: ...
    def __call__(
        self, prompts: Sequence[Any] | None = None, completions: Sequence[Any] | None = None, **columns: Any
    ) -> list[float | None]:
        """Scores completions, each alone; None where there is no score.

        Prompts and completions are texts or lists of messages. Columns are the task's privileged fields and, with a dot
        in their names, the final views of tools.
        """
    def score(
        self,
        completions: Sequence[Any],
        prompts: Sequence[Any] | None = None,
        *,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[Score]: ...
    def ascore(self, *args: Any, **kwargs: Any) -> Awaitable[list[Score]]: ...
    def group(self, prompt: Any, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Scores completions of one prompt together, for rewards that compare them."""
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Segment:
    """Tokens that a seat's policy saw and extended. T is their number; the arrays are NumPy's, or lists without it."""

    @property
    def seat(self) -> int: ...
    @property
    def tokens(self) -> Any:
        """Ids of prompt and replies: int64[T]."""
    @property
    def log_probs(self) -> Any:
        """Log-probability of each sampled token in nats, 0 where not sampled: float32[T]."""
    @property
    def mask(self) -> Any:
        """Loss mask, true where the policy sampled the token: bool[T]."""
    @property
    def turns(self) -> Any:
        """Number of the seat's turn during or before which each token came, from 0: int64[T]."""
    def __len__(self) -> int: ...

@final
class Episode:
    """A finished episode of `play`. It is plain data: it pickles, and forked children may use it."""

    @staticmethod
    def from_bytes(record: bytes, system: str | None = None) -> Episode:
        """Reads the bytes of `record_bytes`."""
    @property
    def id(self) -> str: ...
    @property
    def group(self) -> int: ...
    @property
    def member(self) -> int: ...
    @property
    def split(self) -> str: ...
    @property
    def task(self) -> int: ...
    @property
    def seed(self) -> int:
        """Seed, with which `Env.reset` begins the same episode."""
    @property
    def ending(self) -> str:
        """Reason of the end: "terminated", "truncated", "turn-limit", "environment-failed", "dropped", or a limit."""
    @property
    def success(self) -> bool: ...
    @property
    def reward(self) -> float:
        """Reward of the first seat."""
    @property
    def rewards(self) -> tuple[float, ...]:
        """Reward of each seat."""
    def components(self, seat: int = 0) -> dict[str, float]:
        """Parts of the rewards before weights: "environment", "REWARD" and "REWARD.COMPONENT"."""
    @property
    def failures(self) -> list[str]:
        """Failures of plugins, the model and the host, in order."""
    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the environment at the end."""
    @property
    def turns(self) -> int:
        """Number of replies of all policies."""
    @property
    def segments(self) -> tuple[Segment, ...]:
        """Token sequences of all seats. A new one begins where a context does not continue the one before."""
    def messages(self, seat: int = 0) -> list[dict[str, Any]]:
        """Conversation of a seat in OpenAI's form."""
    def record(self) -> dict[str, Any]: ...
    def record_bytes(self) -> bytes: ...
    def _repr_html_(self) -> str: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def play(
    plugins: Sequence[Plugin],
    file: Mapping[str, Any],
    *,
    groups: int,
    size: int,
    temperature: float,
    tasks: Sequence[int] | None = None,
    out: str | PathLike[str] | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> list[Episode]:
    """Plays groups under the rules of a run file. `gymkhana_rl.play` makes the run file from its arguments."""


def command_line(arguments: Sequence[str], name: str = ...) -> int:
    """Runs the command line under a name of the program; ends the process for help and wrong arguments."""

def compile_with(interpreter: str, script: str) -> None:
    """Compiles plugins in processes of an interpreter that runs this script."""

def compile_as_asked(arguments: Sequence[str]) -> int:
    """Compiles the component of standard input to standard output."""
