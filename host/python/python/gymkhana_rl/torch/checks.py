"""Checks of requests on rank 0, before the other ranks receive them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from .loading import DTYPES
from .messages import InvalidRequest, Message
from .training import Training

_NUMBER = (int, float)
_OPTIONAL = (int, float, type(None))
_FIELDS: dict[str, dict[str, Any]] = {
    "open": {"model": str, "state": (str, type(None)), "reference": bool, "dtype": str, "checkpointing": bool,
             "lora": (dict, type(None)), "optimizer": str, "seed": int},
    "forward": {"scorer": str, "temperature": _NUMBER, "entropies": bool, "keep": bool},
    "backward": {},
    "begin_stage": {},
    "begin_update": {},
    "step": {"learning_rate": _NUMBER, "beta1": _NUMBER, "beta2": _NUMBER, "epsilon": _NUMBER, "weight_decay": _NUMBER,
             "max_norm": _OPTIONAL, "keep": bool},
    "shorten": {"share": _NUMBER},
    "publish": {"version": int},
    "reference": {"share": _OPTIONAL},
    "generate": {"max_tokens": int, "stop": list, "temperature": _NUMBER, "top_k": int, "top_p": _NUMBER,
                 "min_p": _NUMBER, "seed": int},
    "save": {"weights": str, "state": (str, type(None)), "untied": bool},
    "close": {},
}  # fmt: skip


def check(message: Message, training: Training | None) -> None:
    """Raises `InvalidRequest` if a request is malformed, or cannot be followed with the loaded model."""
    kind, request = message.kind, message.request
    _require(kind in _FIELDS, "the request is unknown")
    for name, types in _FIELDS[kind].items():
        value = request.get(name)
        typed = isinstance(value, types) and (types is bool or not isinstance(value, bool))
        _require(name in request and typed, f"`{name}` is missing or has another type")
        _require(not isinstance(value, float) or math.isfinite(value), f"`{name}` is not finite")
    if kind == "open":
        _check_open(request)
    elif kind != "close":
        if training is None:
            raise InvalidRequest("no model is open")
        if kind in _CHECKS:
            _CHECKS[kind](message, training)


def _require(met: bool, text: str) -> None:
    if not met:
        raise InvalidRequest(text)


def _check_open(request: dict[str, Any]) -> None:
    _require((Path(request["model"]) / "config.json").is_file(), f"`{request['model']}` has no config.json")
    state, lora = request["state"], request["lora"]
    _require(state is None or (Path(state) / ".metadata").is_file(), f"`{state}` is not a saved state")
    _require(request["dtype"] in DTYPES, f"`dtype` is none of {', '.join(DTYPES)}")
    _require(request["optimizer"] in ("adamw", "adamw8bit"), "`optimizer` is none of adamw, adamw8bit")
    if lora is not None:
        typed = all(isinstance(lora.get(name), _NUMBER) for name in ("rank", "alpha", "seed"))
        _require(typed and type(lora["rank"]) is int and lora["rank"] > 0, "`lora` is malformed")


def _tensor(message: Message, name: str, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    tensor = message.tensors.get(name)
    if tensor is None or tensor.dtype != dtype or tensor.ndim != 1:
        raise InvalidRequest(f"the tensor `{name}` is missing, or is not of one axis and {dtype}")
    return tensor


def _check_tokens(tokens: torch.Tensor, training: Training) -> None:
    vocabulary = training.network.vocabulary
    inside = bool(((tokens >= 0) & (tokens < vocabulary)).all())
    _require(inside, f"a token is outside of the vocabulary of {vocabulary}")


def _check_forward(message: Message, training: Training) -> None:
    request, context = message.request, training.network.context
    _require(request["scorer"] in ("policy", "reference"), "`scorer` is none of policy, reference")
    reference = request["scorer"] == "reference"
    _require(not reference or training.has_reference, "there is no reference policy")
    _require(not (reference and request["keep"]), "the reference policy has no gradients to keep")
    _require(request["temperature"] > 0, "`temperature` is not positive")
    tokens, lengths, targets, counts = (_tensor(message, name) for name in ("tokens", "lengths", "targets", "counts"))
    _require(len(lengths) == len(counts), "`lengths` and `counts` differ in length")
    _require(bool((lengths >= 1).all()) and int(lengths.sum()) == len(tokens), "`lengths` do not add up to `tokens`")
    _require(bool((counts >= 0).all()) and int(counts.sum()) == len(targets), "`counts` do not add up to `targets`")
    _require(bool((lengths <= context).all()), f"a sequence is longer than the context of {context}")
    _check_tokens(tokens, training)
    sequence = torch.arange(len(counts)).repeat_interleave(counts)
    _require(bool(((targets >= 1) & (targets < lengths[sequence])).all()), "a target is outside of its sequence")
    rises = (targets.diff() > 0) | (sequence.diff() > 0)
    _require(bool(rises.all()), "the targets of a sequence do not ascend")


def _check_backward(message: Message, training: Training) -> None:
    count = training.kept_targets
    _require(count is not None, "no forward pass was kept")
    names = [name for name in ("by_log_probs", "by_entropies") if name == "by_log_probs" or name in message.tensors]
    _require(training.kept_entropies or len(names) == 1, "the kept forward pass has no entropies")
    equal = all(len(_tensor(message, name, torch.float64)) == count for name in names)
    _require(equal, f"the kept forward pass has {count} targets")


def _check_step(message: Message, _: Training) -> None:
    request = message.request
    _require(0 <= request["beta1"] < 1 and 0 <= request["beta2"] < 1, "`beta1` or `beta2` is outside of [0, 1)")
    positive = all(request[name] >= 0 for name in ("learning_rate", "epsilon", "weight_decay"))
    _require(positive and (request["max_norm"] is None or request["max_norm"] > 0), "a number of the step is negative")


def _check_reference(message: Message, training: Training) -> None:
    share = message.request["share"]
    _require(share is None or 0 < share <= 1, "`share` is outside of (0, 1]")
    _require(share in (None, 1) or training.has_reference, "there is no reference policy to move")


def _check_generate(message: Message, training: Training) -> None:
    request, context = message.request, training.network.context
    tokens = _tensor(message, "tokens")
    _require(0 < len(tokens) < context, f"the prompt has {len(tokens)} tokens: 1 to {context - 1} are possible")
    _check_tokens(tokens, training)
    _require(request["max_tokens"] >= 1, "`max_tokens` is not positive")
    _require(all(type(token) is int for token in request["stop"]), "`stop` is not a list of tokens")
    _require(request["temperature"] >= 0 and request["top_k"] >= 0, "`temperature` or `top_k` is negative")
    _require(0 < request["top_p"] <= 1 and 0 <= request["min_p"] <= 1, "`top_p` or `min_p` is not a probability")
    _require(0 <= request["seed"] < 1 << 64, "`seed` is not an unsigned number of 64 bits")


def _check_save(message: Message, _: Training) -> None:
    weights, state = message.request["weights"], message.request["state"]
    _require(Path(weights).is_dir(), f"`{weights}` is not a folder")
    _require(state is None or not Path(state).exists(), f"`{state}` exists already")


def _check_shorten(message: Message, training: Training) -> None:
    _require(training.keeps_step, "no step was kept")
    _require(0 <= message.request["share"] < 1, "`share` is outside of [0, 1)")


_CHECKS = {
    "forward": _check_forward, "backward": _check_backward, "step": _check_step, "shorten": _check_shorten,
    "reference": _check_reference, "generate": _check_generate, "save": _check_save,
}  # fmt: skip
