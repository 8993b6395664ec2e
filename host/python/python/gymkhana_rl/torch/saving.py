"""Saving: weights for transformers, and the state from which training resumes with any number of ranks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from huggingface_hub import save_torch_state_dict
from transformers.core_model_loading import revert_weight_conversion

from .network import POLICY
from .training import Training

_EMBEDDING, _OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
_FORMATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def save(training: Training, weights: str, state: str | None, untied: bool, versions: torch.Tensor) -> None:
    """Writes the weights to an existing folder, and the state, if it is wanted, to a new one.

    The weights have the names and number formats of the model's folder, and include the policy's adapter. The state
    holds the trained parameters, the optimizer's state, the reference policy, and `versions`. Reading it unpickles its
    index, so it must come from a trusted folder. With `untied`, an output layer that shares the embedding's weights is
    written as a layer of its own.
    """
    training.network.keep_whole(False)
    merged = _merged(training)
    if training.ranks.rank == 0:
        found = revert_weight_conversion(training.network.causal, merged)
        for name, part in found.items():
            if not part.is_contiguous() or part.untyped_storage().nbytes() != part.nbytes:
                # A part of a larger tensor cannot be written.
                found[name] = part.clone(memory_format=torch.contiguous_format)
        if untied and _OUTPUT not in found:
            found[_OUTPUT] = found[_EMBEDDING].clone()
        save_torch_state_dict(found, weights, max_shard_size="5GB", metadata={"format": "pt"})
        for name in ("config.json", "generation_config.json"):
            source, target = Path(training.loader.folder) / name, Path(weights) / name
            if source.exists() and not target.exists():
                shutil.copyfile(source, target)
    if state is None:
        return
    if not training.optimizer.state:
        training.allocate_optimizer()
    dcp.save(_entries(training, versions), checkpoint_id=state, process_group=training.ranks.control)


def resume(training: Training, state: str, reference: bool) -> torch.Tensor:
    """Reads a state of `save`, and returns its `versions`."""
    names = dcp.FileSystemReader(state).read_metadata().state_dict_metadata
    if reference and any(name.startswith("reference.") for name in names):
        training.move_reference(1.0)
    training.allocate_optimizer()
    versions = torch.zeros(2, dtype=torch.int64)
    dcp.load(_entries(training, versions), checkpoint_id=state, process_group=training.ranks.control)
    return versions


def _entries(training: Training, versions: torch.Tensor) -> dict[str, Any]:
    """Tensors of a state, which are read and written in place."""
    entries: dict[str, Any] = {"versions": versions}
    for name, parameter in training.trained().items():
        entries[f"policy.{name}"] = parameter.detach()
        for key, held in training.optimizer.state[parameter].items():
            entries[f"optimizer.{name}.{key}"] = held
    if training.has_reference:
        entries |= {f"reference.{name}": held.detach() for name, held in training.reference_parameters().items()}
    return entries


@torch.no_grad()
def _merged(training: Training) -> dict[str, torch.Tensor]:
    """Whole weights with the policy's adapter, on rank 0. All ranks take part."""
    loader, causal = training.loader, training.network.causal
    formats, saved = _formats(Path(loader.folder)), causal.state_dict()
    scaling = float(loader.lora["alpha"]) / int(loader.lora["rank"]) if loader.lora else 0.0
    held = dict(causal.named_parameters())
    adapters = {name: part.full_tensor().cpu() for name, part in held.items() if f".{POLICY}.weight" in name}
    found = {name: part.cpu() for name, part in causal.named_buffers() if name in saved}
    for name, parameter in held.items():
        whole = parameter.full_tensor() if ".lora_" not in name else None
        if whole is None or training.ranks.rank > 0:
            continue
        stem = name.removesuffix(".base_layer.weight")
        if f"{stem}.lora_A.{POLICY}.weight" in adapters:
            down, up = (adapters[f"{stem}.lora_{half}.{POLICY}.weight"] for half in "AB")
            whole = whole.cpu().to(up.dtype) + scaling * (up @ down)
        plain = name.replace(".base_layer.", ".")
        found[plain] = whole.cpu().to(formats.get(plain, loader.stored))
    return found


def _formats(folder: Path) -> dict[str, torch.dtype]:
    """Number formats of the tensors in a model's folder."""
    found: dict[str, torch.dtype] = {}
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        found |= {name: _FORMATS[part["dtype"]] for name, part in header.items() if part["dtype"] in _FORMATS}
    return found
