"""Imported weights beside the package gguf, and beside transformers' own import of the file."""
import gguf
import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM


def check(file, folder):
    """Every tensor has the bits that transformers' import has, whose values the package gguf dequantises. Returns that
    model."""
    theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    expected, found = dict(theirs.named_parameters()), load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, tensor in found.items():
        assert tensor.dtype == np.float32
        assert np.array_equal(tensor.view(np.uint32), expected[name].detach().numpy().view(np.uint32)), name
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    assert len(stored) == len(found), "the file has other tensors"
    for own, name in [("token_embd.weight", "model.embed_tokens.weight"),
                      ("blk.29.ffn_down.weight", "model.layers.29.mlp.down_proj.weight")]:
        values = gguf.dequantize(stored[own].data, stored[own].tensor_type)
        assert np.array_equal(values.view(np.uint32), found[name].view(np.uint32)), name
    print(f"weights: {len(found)} tensors have the bits of transformers' import")
    ours = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(ours[1][key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), ours[1]
    for key in ("rope_parameters", "rms_norm_eps", "max_position_embeddings", "eos_token_id", "bos_token_id"):
        own, other = getattr(ours[0].config, key), getattr(theirs.config, key)
        assert own == other or np.isclose(own, other, rtol=1e-6), f"{key}: {own} is not {other}"
    return ours[0].eval()
