#!/usr/bin/env python3
"""GGUF files with tensors of every type, as the package gguf writes and reads them.

make_gguf_goldens.py FOLDER writes FOLDER/gguf/NAME.gguf and FOLDER/gguf/golden.json: for each file the shape of every
tensor under its name in transformers, and the SHA-256 of its little-endian float32 values. Rows of queries and keys are
in the order of transformers."""
import hashlib
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

SEED = 11
HEADS, KEY_HEADS = 8, 4
# Types in which the package quantises.
QUANTISED = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
# Types that it only reads: bytes of a block of 256 weights, and the places of float16 scales among them.
BLOCKS = {Type.Q2_K: (84, [80, 82]), Type.Q3_K: (110, [108]), Type.Q4_K: (144, [0, 2]), Type.Q5_K: (176, [0, 2]),
          Type.Q6_K: (210, [208])}
TOKENS = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "abc"]


def blocks(kind, rows, width, random):
    """Random blocks of a type, `width` weights in each row."""
    size, scales = BLOCKS[kind]
    data = random.integers(0, 256, (rows * width // 256, size), dtype=np.uint8)
    for place in scales:
        values = random.uniform(-0.1, 0.1, len(data)).astype(np.float16)
        data[:, place:place + 2] = values.view(np.uint8).reshape(-1, 2)
    return data.reshape(rows, -1)


def interleaved(values, heads):
    """Rows as llama.cpp's conversion of the architecture llama orders them (`permute` in convert_hf_to_gguf.py)."""
    return values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


class File:
    """A file, and what is expected of it."""

    def __init__(self, path, architecture, width):
        self.width, self.expected = width, {}
        self.writer = gguf.GGUFWriter(path, architecture)
        self.random = np.random.default_rng(SEED)

    def settings(self, layers):
        writer = self.writer
        writer.add_context_length(64)
        writer.add_embedding_length(self.width)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(self.width)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KEY_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(10_000.0)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(TOKENS)
        writer.add_token_types([2, 3, 3, 1, 1, 1, 1, 1])
        writer.add_token_merges(["a b", "ab c"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_chat_template("{{ messages[0].content }}")

    def tensor(self, source, name, rows, kind=Type.F32, heads=None, vector=False):
        """A tensor of random values; `heads` of queries or keys are interleaved in the file."""
        if kind in BLOCKS:
            stored = blocks(kind, rows, self.width, self.random)
            values = gguf.dequantize(stored, kind)
        else:
            shape = (rows,) if vector else (rows, self.width)
            values = self.random.standard_normal(shape).astype(np.float32)
            if heads:
                stored = gguf.quantize(interleaved(values, heads), kind)
            else:
                stored = gguf.quantize(values, kind)
                values = gguf.dequantize(stored, kind).reshape(shape)
        self.writer.add_tensor(source, stored, raw_dtype=kind)
        values = np.ascontiguousarray(values, dtype="<f4")
        self.expected[name] = [list(values.shape), hashlib.sha256(values.tobytes()).hexdigest()]

    def layer(self, index, kind, biases, norms, order):
        width = self.width
        own, theirs = f"blk.{index}.", f"model.layers.{index}."
        for part, name, rows, heads in [
            ("attn_q", "self_attn.q_proj", width, HEADS), ("attn_k", "self_attn.k_proj", width // 2, KEY_HEADS),
            ("attn_v", "self_attn.v_proj", width // 2, None),
        ]:
            heads = heads if order else None
            self.tensor(f"{own}{part}.weight", f"{theirs}{name}.weight", rows, heads=heads)
            if biases:
                self.tensor(f"{own}{part}.bias", f"{theirs}{name}.bias", rows, heads=heads, vector=True)
        self.tensor(f"{own}attn_output.weight", f"{theirs}self_attn.o_proj.weight", width, kind)
        for part, name in [("ffn_gate", "gate_proj"), ("ffn_up", "up_proj"), ("ffn_down", "down_proj")]:
            self.tensor(f"{own}{part}.weight", f"{theirs}mlp.{name}.weight", width, kind)
        for part, name in [("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")]:
            self.tensor(f"{own}{part}.weight", f"{theirs}{name}.weight", width, vector=True)
        for part, name in [("attn_q_norm", "q_norm"), ("attn_k_norm", "k_norm")] if norms else []:
            self.tensor(f"{own}{part}.weight", f"{theirs}self_attn.{name}.weight", width // HEADS, vector=True)

    def close(self):
        for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
            getattr(self.writer, write)()
        return self.expected


def whole(path, architecture, biases, norms, order, tied):
    """A model of one layer."""
    file = File(path, architecture, 64)
    file.settings(1)
    file.tensor("token_embd.weight", "model.embed_tokens.weight", len(TOKENS), Type.Q8_0)
    file.tensor("output_norm.weight", "model.norm.weight", file.width, vector=True)
    if not tied:
        file.tensor("output.weight", "lm_head.weight", len(TOKENS), Type.Q5_1)
    file.layer(0, Type.Q4_0, biases, norms, order)
    return file.close()


def types(path):
    """A tensor of each type, under names of layers."""
    file = File(path, "qwen2", 256)
    kinds = QUANTISED + list(BLOCKS)
    file.settings(len(kinds))
    file.tensor("token_embd.weight", "model.embed_tokens.weight", len(TOKENS))
    for index, kind in enumerate(kinds):
        file.tensor(f"blk.{index}.ffn_up.weight", f"model.layers.{index}.mlp.up_proj.weight", 3, kind)
    return file.close()


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    golden = {
        "types": types(folder / "types.gguf"),
        "llama": whole(folder / "llama.gguf", "llama", biases=False, norms=False, order=True, tied=False),
        "qwen2": whole(folder / "qwen2.gguf", "qwen2", biases=True, norms=False, order=False, tied=True),
        "qwen3": whole(folder / "qwen3.gguf", "qwen3", biases=False, norms=True, order=False, tied=True),
    }
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
