"""Sandboxed WebAssembly environments, tools and rewards for reinforcement learning of language-model agents.

    import gymkhana_rl as gk

    plugin = gk.load("gymkhana/frozen-lake@^0.1")   # or a path, or bytes
    env = plugin.env(split="train", seed=1)          # Gymnasium's reset and step, with text
    tool = gk.load("gymkhana/calculator").tool()     # tool.functions: Python functions
    reward = gk.load("gymkhana/math-verify").reward()  # (prompts, completions, **columns) -> list of floats
    runs = gk.play(plugin, model="http://127.0.0.1:8000/v1", episodes=64)  # whole rollouts with a served model

Calls into plugins release the interpreter's lock, and end at their deadlines. Objects do not survive a fork: make
them in the child, or pickle them.
"""

import atexit as _atexit
import sys as _sys
from os import environ as _environ
from pathlib import Path as _Path

from . import errors, runs
from ._local import local
from ._native import Env, Episode, Plugin, Reward, Segment, Tool, VectorEnv, __version__, load, step_many
from ._native import compile_with as _compile_with
from ._native import shut_down as _shut_down
from ._play import Rollouts, play, play_async
from ._types import Action, Call, Json, Options, Score, ToolAnswer
from .errors import (
    EpisodeEndedError,
    GymkhanaError,
    LoadError,
    OptionError,
    PlayError,
    PluginError,
    StaleHandleError,
)


def _end() -> None:
    """Ends code of classes, then the threads of this process. A thread in Python cannot outlive the interpreter."""
    local_code = _sys.modules.get("gymkhana_rl._local_code")
    if local_code is not None:
        local_code.end_all()
    _shut_down()


_atexit.register(_end)

_share = _Path(__file__).parents[1] / "gymkhana_rl_train" / "share" / "gymkhana"
if _share.is_dir():
    # The registry of the first-party plugins, installed with the trainer. A user's variable wins.
    _environ.setdefault("GYMKHANA_SHARE", str(_share))

if _sys.executable:
    # A component can make the compiler use time and memory without bound, or end it.
    _compile_with(_sys.executable, str(_Path(__file__).with_name("_compiler.py")))

__all__ = [
    "Action",
    "Call",
    "Env",
    "Episode",
    "EpisodeEndedError",
    "GymkhanaError",
    "Json",
    "LoadError",
    "OptionError",
    "Options",
    "PlayError",
    "Plugin",
    "PluginError",
    "Reward",
    "Rollouts",
    "Score",
    "Segment",
    "StaleHandleError",
    "Tool",
    "ToolAnswer",
    "VectorEnv",
    "__version__",
    "errors",
    "load",
    "local",
    "play",
    "play_async",
    "runs",
    "step_many",
]
