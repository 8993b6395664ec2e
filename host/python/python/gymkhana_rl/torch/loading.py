"""Loading: a folder of transformers, adapters, and a second copy of the weights."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from transformers import AutoConfig, AutoModelForCausalLM

from .network import POLICY, REFERENCE, Network
from .ranks import Ranks

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


class Loader:
    """Models of the request `open`."""

    def __init__(self, request: dict[str, Any], ranks: Ranks) -> None:
        self._ranks = ranks
        self._checkpointing, self._seed = bool(request["checkpointing"]), int(request["seed"])
        self.folder = str(request["model"])
        self.dtype = DTYPES[request["dtype"]]
        self.lora: dict[str, Any] | None = request["lora"]
        self._config = AutoConfig.from_pretrained(self.folder, local_files_only=True)
        stored = getattr(self._config, "dtype", None)
        self.stored = stored if isinstance(stored, torch.dtype) else torch.float32
        """Number format of most weights in the folder."""
        # Weights are float32 where passes are bfloat16, unless they are frozen and stored so.
        same = self.dtype != torch.bfloat16 or (self.lora and self.stored == torch.bfloat16)
        self._held = self.dtype if same else torch.float32

    def policy(self) -> Network:
        """The policy, sharded. Rank 0 alone reads the weights; they reach the other ranks one tensor at a time."""
        torch.manual_seed(self._seed)
        network = Network(self._causal(whole=self._ranks.rank == 0))
        if self.lora:
            self._add_adapters(network, self.lora)
        if self._checkpointing:
            network.recompute_layers()
        network.shard(self._ranks, self.dtype, broadcast=True)
        return network

    def twin(self, network: Network) -> Network:
        """Second copy of a network without adapters, frozen and sharded alike."""
        copy = Network(self._causal(whole=False))
        copy.requires_grad_(False)
        copy.shard(self._ranks, self.dtype, broadcast=False)
        copy.copy_from(network)
        return copy

    def _causal(self, whole: bool) -> Any:
        """The model with the weights of its folder, or without memory for weights."""
        settings = {"config": self._config, "dtype": self._held, "attn_implementation": self._attention()}
        if self.dtype == torch.float64:
            # The grouped product of experts has no double precision.
            settings["experts_implementation"] = "eager"
        if whole:
            return AutoModelForCausalLM.from_pretrained(self.folder, local_files_only=True, **settings)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(**settings)

    def _attention(self) -> str:
        """Flash attention where it is installed and can be used. It reads packed sequences without a mask in memory."""
        if self._ranks.device.type == "cuda" and self.dtype == torch.bfloat16:
            if find_spec("flash_attn_interface") and torch.cuda.get_device_capability()[0] == 9:
                return "flash_attention_3"
            if find_spec("flash_attn"):
                return "flash_attention_2"
        return "sdpa"

    def _add_adapters(self, network: Network, lora: dict[str, Any]) -> None:
        """Adds the policy's adapter and that of the reference policy. Both begin as no change."""
        for name in (POLICY, REFERENCE):
            torch.manual_seed(int(lora["seed"]))
            config = LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], target_modules="all-linear")
            inject_adapter_in_model(config, network.causal, adapter_name=name)
        for name, parameter in network.named_parameters():
            adapter = ".lora_" in name
            parameter.requires_grad_(adapter and f".{POLICY}." in name)
            if adapter:
                parameter.data = parameter.data.to(torch.promote_types(self.dtype, torch.float32))
