"""Writes models of published shapes with random weights, in the Hugging Face layout, with the standard library alone.

    python3 models.py TOKENIZER_FOLDER OUT NAME…

Weights are bfloat16. Their size varies within a factor of two around a typical initialisation; those of embeddings are
larger, so that the distributions of the next token are not flat.
"""

import json
import os
import shutil
import struct
import sys
from pathlib import Path

# layers, hidden size, heads, key-value heads, head size, feed-forward size, vocabulary, tied
SHAPES = {
    "qwen2-small": ("qwen2", 4, 128, 4, 2, 32, 384, 512, True),
    "qwen3-small": ("qwen3", 4, 128, 4, 2, 32, 384, 512, True),
    "llama-small": ("llama", 4, 128, 4, 2, 32, 384, 512, False),
    "qwen2-0.5b": ("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, True),
    "qwen2-1.5b": ("qwen2", 28, 1536, 12, 2, 128, 8960, 151_936, True),
}
ARCHITECTURES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}
# Numbers of the random block that fills all matrices. A prime: no two rows of a matrix are equal, whatever its width.
BLOCK = (1 << 24) - 3

# bfloat16 has a sign, eight bits of exponent and seven of mantissa. The first byte of a pair holds one bit of the
# exponent and the mantissa, the second one the sign and the rest of the exponent.
LOW = bytes(byte & 0x7F for byte in range(256))
SMALL = bytes(byte & 0x80 | 0x3C for byte in range(256))  # 2**-7 to 2**-6
MEDIUM = bytes(byte & 0x80 | 0x3D for byte in range(256))  # 2**-5 to 2**-4
LARGE = bytes(byte & 0x80 | 0x3E for byte in range(256))  # 2**-3 to 2**-2


def tensors(family, layers, hidden, heads, kv_heads, head, mlp, vocabulary, tied):
    """Names and shapes, in their order in the file."""
    yield "model.embed_tokens.weight", [vocabulary, hidden]
    for layer in range(layers):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", [hidden]
        for part, size in (("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)):
            yield f"{name}self_attn.{part}_proj.weight", [size, hidden]
            if family == "qwen2":
                yield f"{name}self_attn.{part}_proj.bias", [size]
        if family == "qwen3":
            yield name + "self_attn.q_norm.weight", [head]
            yield name + "self_attn.k_norm.weight", [head]
        yield name + "self_attn.o_proj.weight", [hidden, heads * head]
        yield name + "post_attention_layernorm.weight", [hidden]
        yield name + "mlp.gate_proj.weight", [mlp, hidden]
        yield name + "mlp.up_proj.weight", [mlp, hidden]
        yield name + "mlp.down_proj.weight", [hidden, mlp]
    yield "model.norm.weight", [hidden]
    if not tied:
        yield "lm_head.weight", [vocabulary, hidden]


def block(high):
    """Bytes of BLOCK random numbers."""
    random = bytearray(os.urandom(2 * BLOCK))
    random[0::2], random[1::2] = random[0::2].translate(LOW), random[1::2].translate(high)
    return memoryview(bytes(random))


def numbers(blocks, name, count, start):
    """Bytes of a tensor, in pieces: norms are 1, a matrix is its block, repeated from number `start` on."""
    if name.endswith("norm.weight"):
        yield b"\x80\x3f" * count
        return
    own = blocks[name in ("model.embed_tokens.weight", "lm_head.weight")]
    start %= BLOCK
    while count > 0:
        part = min(count, BLOCK - start)
        yield own[2 * start : 2 * (start + part)]
        count, start = count - part, 0


def write(tokenizer, out, name):
    family, layers, hidden, heads, kv_heads, head, mlp, vocabulary, tied = SHAPES[name]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in tokenizer.iterdir():
        if file.name not in ("config.json", "SHA256SUMS") and file.suffix in (".json", ".jinja") and "trainer" not in file.name:
            shutil.copy(file, folder)
    config = {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "hidden_act": "silu",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": tied,
        "use_sliding_window": False,
        "attention_bias": False,
        "torch_dtype": "bfloat16",
        "eos_token_id": 1,
        "bos_token_id": 0,
    }
    if family == "qwen2":
        del config["attention_bias"]
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    header, end, listed = {}, 0, list(tensors(*SHAPES[name]))
    for tensor, shape in listed:
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # A tied model repeats its last token with near certainty if its embeddings are large.
    blocks = [block(SMALL), block(MEDIUM if tied else LARGE)]
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor, shape in listed:
            count, start = shape[0] * (shape[1] if len(shape) > 1 else 1), header[tensor]["data_offsets"][0] // 2
            for piece in numbers(blocks, tensor, count, start):
                file.write(piece)


def main():
    tokenizer, out, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    for name in names:
        write(tokenizer, out, name)


main()
