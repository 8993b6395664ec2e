"""Loading: a folder of transformers, adapters, and a second copy of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from transformers import AutoConfig, AutoModelForCausalLM

from .network import POLICY, REFERENCE, Network
from .ranks import Ranks

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


@dataclass(frozen=True)
class Settings:
    """What the request `open` names."""

    model: str
    dtype: torch.dtype
    checkpointing: bool
    lora: dict[str, Any] | None
    seed: int

    @staticmethod
    def of(request: dict[str, Any]) -> Settings:
        """Settings of a request that was checked."""
        return Settings(
            model=str(request["model"]),
            dtype=DTYPES[request["dtype"]],
            checkpointing=bool(request["checkpointing"]),
            lora=request["lora"],
            seed=int(request["seed"]),
        )

    @property
    def scaling(self) -> float:
        """Factor of the adapters' term."""
        return float(self.lora["alpha"]) / int(self.lora["rank"]) if self.lora else 0.0


def load(settings: Settings, ranks: Ranks) -> Network:
    """Policy, sharded. Rank 0 alone reads the weights; they reach the other ranks one tensor at a time."""
    torch.manual_seed(settings.seed)
    network = Network(_causal(settings, ranks, whole=ranks.rank == 0))
    if settings.lora:
        _add_adapters(network, settings)
    if settings.checkpointing:
        network.recompute_layers()
    network.shard(ranks, settings.dtype, broadcast=True)
    return network


def twin(network: Network, settings: Settings, ranks: Ranks) -> Network:
    """Second copy of a network without adapters, frozen and sharded alike."""
    copy = Network(_causal(settings, ranks, whole=False))
    copy.requires_grad_(False)
    copy.shard(ranks, settings.dtype, broadcast=False)
    copy.copy_from(network)
    return copy


def stored_dtype(settings: Settings) -> torch.dtype:
    """Number format of most weights in the model's folder."""
    found = getattr(AutoConfig.from_pretrained(settings.model, local_files_only=True), "dtype", None)
    return found if isinstance(found, torch.dtype) else torch.float32


def _causal(settings: Settings, ranks: Ranks, whole: bool) -> Any:
    """The model with the weights of its folder, or without memory for weights."""
    config = AutoConfig.from_pretrained(settings.model, local_files_only=True)
    kinds = {"dtype": _master(settings), "attn_implementation": _attention(ranks, settings.dtype)}
    if settings.dtype == torch.float64:
        # The grouped product of experts has no double precision.
        kinds["experts_implementation"] = "eager"
    if whole:
        return AutoModelForCausalLM.from_pretrained(settings.model, config=config, local_files_only=True, **kinds)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, **kinds)


def _master(settings: Settings) -> torch.dtype:
    """Number format of the weights: float32 where passes are bfloat16, unless they are frozen and stored so."""
    if settings.dtype != torch.bfloat16:
        return settings.dtype
    frozen = settings.lora is not None and stored_dtype(settings) == torch.bfloat16
    return torch.bfloat16 if frozen else torch.float32


def _attention(ranks: Ranks, dtype: torch.dtype) -> str:
    """Flash attention where it is installed and can be used. It reads packed sequences without a mask in memory."""
    if ranks.device.type == "cuda" and dtype == torch.bfloat16:
        if find_spec("flash_attn_interface") and torch.cuda.get_device_capability()[0] == 9:
            return "flash_attention_3"
        if find_spec("flash_attn"):
            return "flash_attention_2"
    return "sdpa"


def _add_adapters(network: Network, settings: Settings) -> None:
    """Adds the policy's adapter and that of the reference policy. Both begin as no change."""
    assert settings.lora
    for name in (POLICY, REFERENCE):
        torch.manual_seed(int(settings.lora["seed"]))
        config = LoraConfig(r=settings.lora["rank"], lora_alpha=settings.lora["alpha"], target_modules="all-linear")
        inject_adapter_in_model(config, network.causal, adapter_name=name)
    master = torch.float64 if settings.dtype == torch.float64 else torch.float32
    for name, parameter in network.named_parameters():
        adapter = ".lora_" in name
        parameter.requires_grad_(adapter and f".{POLICY}." in name)
        if adapter:
            parameter.data = parameter.data.to(master)
    with network.adapter(POLICY):
        pass
