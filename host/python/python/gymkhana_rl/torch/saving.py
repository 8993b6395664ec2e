"""Saving: weights for transformers, and the state from which training resumes with any number of ranks."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from huggingface_hub import save_torch_state_dict
from transformers.core_model_loading import revert_weight_conversion

from .loading import stored_dtype
from .network import POLICY
from .training import Training

_SHARD = "5GB"
_HEADERS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def save(training: Training, weights: str, state: str, versions: torch.Tensor) -> None:
    """Writes the weights to an existing folder, and the state to a new one.

    The weights have the names and number formats of the model's folder, and include the policy's adapter. The state
    holds the trained parameters, the optimizer's state, the reference policy, and `versions`.
    """
    training.network.keep_whole(False)
    merged = _merged(training)
    if training.ranks.rank == 0:
        model = training.network.causal
        source = Path(training.settings.model)
        save_torch_state_dict(_stored(revert_weight_conversion(model, merged), source), weights, max_shard_size=_SHARD)
        for name in ("config.json", "generation_config.json"):
            if (source / name).exists() and not (Path(weights) / name).exists():
                shutil.copyfile(source / name, Path(weights) / name)
    if not training.optimizer.state:
        training.allocate_optimizer()
    entries = _entries(training, training.has_reference) | {"versions": versions}
    dcp.save(entries, checkpoint_id=state, process_group=training.ranks.control)


def resume(training: Training, state: str, reference: bool) -> torch.Tensor:
    """Reads a state of `save`, and returns its `versions`."""
    if reference and has_reference(state):
        training.move_reference(1.0)
    training.allocate_optimizer()
    versions = torch.zeros(2, dtype=torch.int64)
    entries = _entries(training, training.has_reference) | {"versions": versions}
    dcp.load(entries, checkpoint_id=state, process_group=training.ranks.control)
    return versions


def has_reference(state: str) -> bool:
    """Whether a state holds a reference policy."""
    names = dcp.FileSystemReader(state).read_metadata().state_dict_metadata
    return any(name.startswith("reference.") for name in names)


def _entries(training: Training, reference: bool) -> dict[str, Any]:
    """Tensors of a state, which are read and written in place."""
    entries: dict[str, Any] = {}
    for name, parameter in training.trained().items():
        entries[f"policy.{name}"] = parameter.detach()
        for key, held in training.optimizer.state[parameter].items():
            entries[f"optimizer.{name}.{key}"] = held
    if reference:
        entries |= {f"reference.{name}": held.detach() for name, held in training.reference_parameters().items()}
    return entries


@torch.no_grad()
def _merged(training: Training) -> dict[str, torch.Tensor]:
    """Whole weights with the policy's adapter, on rank 0. All ranks take part."""
    first = training.ranks.rank == 0
    held = dict(training.network.causal.named_parameters())
    adapters = {name: part.full_tensor().cpu() for name, part in held.items() if f".{POLICY}.weight" in name}
    dtype = stored_dtype(training.settings)
    found = {}
    for name, parameter in held.items():
        if ".lora_" in name:
            continue
        whole = parameter.full_tensor()
        if not first:
            continue
        whole = whole.cpu()
        stem = name.removesuffix(".base_layer.weight")
        if f"{stem}.lora_A.{POLICY}.weight" in adapters:
            down, up = (adapters[f"{stem}.lora_{half}.{POLICY}.weight"] for half in "AB")
            whole = whole.to(up.dtype) + training.settings.scaling * (up @ down)
        found[name.replace(".base_layer.", ".")] = whole if dtype == torch.float32 else whole.to(dtype)
    if first:
        saved = training.network.causal.state_dict()
        found |= {name: part.cpu() for name, part in training.network.causal.named_buffers() if name in saved}
    return found


def _stored(weights: dict[str, torch.Tensor], source: Path) -> dict[str, torch.Tensor]:
    """Weights in the number formats in which the model's folder holds them."""
    dtypes: dict[str, str] = {}
    for path in source.glob("*.safetensors"):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        dtypes |= {name: entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
    kinds = {name: _HEADERS.get(dtypes.get(name, ""), part.dtype) for name, part in weights.items()}
    return {name: _alone(part.to(kinds[name])) for name, part in weights.items()}


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with memory of its own: parts of larger ones cannot be written."""
    alone = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if alone else tensor.clone(memory_format=torch.contiguous_format)
