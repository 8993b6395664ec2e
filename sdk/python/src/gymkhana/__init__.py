"""Write environments, tools and rewards for Gymkhana.

Subclass `Environment`, `Tool` or `Reward`, name the class in `pyproject.toml`, and build with
`python -m gymkhana.build DIR --out FILE`: the file is a complete plugin, manifest included.

    [project]
    name = "consent"
    version = "0.1.0"
    description = "Say yes"
    license = "Apache-2.0"

    [tool.gymkhana]
    namespace = "your-name"
    environment = "consent:Consent"   # module:class; `tool` and `reward` likewise
    capabilities = []                 # of "assets", "model", "tools", "http"; empty by default
    deterministic = true              # the default: the same inputs give the same bytes

The same classes are tested natively with `gymkhana.testing`. What the host offers stands in the modules `log`,
`random`, `clock`, `assets`, `model`, `tools` and `http`.
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
from .environment import Action, Environment, Split, Started, Stepped, Svg
from .errors import BadSnapshot, Denied, Error, Invalid, Mistake, NotFound
from .options import Option, Options
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
    "Option",
    "Options",
    "OtherMedia",
    "Parameter",
    "Part",
    "Reward",
    "Rng",
    "Score",
    "Split",
    "Started",
    "Stepped",
    "Svg",
    "Task",
    "Text",
    "Tool",
    "Trajectory",
    "Turn",
    "TurnKind",
    "Value",
    "Video",
    "hash64",
    "text_of",
    "assets",
    "clock",
    "http",
    "log",
    "model",
    "random",
    "tools",
]
