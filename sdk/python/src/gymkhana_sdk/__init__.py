"""SDK for environments, tools and rewards of Gymkhana.

Subclass `Environment`, `Tool` or `Reward`, name the class in `pyproject.toml`, and build with
`python -m gymkhana_sdk.build DIR --out FILE`. The file is a complete plugin, including its manifest.

    [project]
    name = "consent"
    version = "0.1.0"
    description = "A yes-or-no question"
    license = "Apache-2.0"

    [tool.gymkhana]
    namespace = "your-name"
    environment = "consent:Consent"   # module:class; also `tool` and `reward`
    capabilities = []                 # any of "assets", "model", "tools", "http" (default: empty)
    deterministic = true              # equal inputs give equal output bytes (default: true)
    thoughts = false                  # whether a reward reads the thoughts of seats (default: false)

`gymkhana_sdk.testing` runs the same classes natively in tests. The modules `log`, `random`, `clock`, `assets`, `model`,
`tools` and `http` call the host.
"""

from . import assets, clock, http, log, model, random, tools
from .content import (
    Audio,
    Call,
    Content,
    Function,
    Image,
    Json,
    Media,
    OtherMedia,
    Parameter,
    Part,
    Task,
    Text,
    Value,
    Video,
    text_of,
)
from .environment import Action, Environment, ResetResult, Split, StepResult, Svg
from .errors import BadSnapshot, Denied, Error, Invalid, Mistake, NotFound
from .options import Options, option
from .reward import Ending, Evidence, LastMessage, Reward, Score, Trajectory, Turn, TurnKind
from .rng import Rng, hash64
from .tool import Answer, Tool

__all__ = [
    "Action",
    "Answer",
    "Audio",
    "BadSnapshot",
    "Call",
    "Content",
    "Denied",
    "Ending",
    "Environment",
    "Error",
    "Evidence",
    "Function",
    "Image",
    "Invalid",
    "Json",
    "LastMessage",
    "Media",
    "Mistake",
    "NotFound",
    "Options",
    "OtherMedia",
    "Parameter",
    "Part",
    "ResetResult",
    "Reward",
    "Rng",
    "Score",
    "Split",
    "StepResult",
    "Svg",
    "Task",
    "Text",
    "Tool",
    "Trajectory",
    "Turn",
    "TurnKind",
    "Value",
    "Video",
    "assets",
    "clock",
    "hash64",
    "http",
    "log",
    "model",
    "option",
    "random",
    "text_of",
    "tools",
]
