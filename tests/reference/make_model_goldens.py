#!/usr/bin/env python3
"""Writes tiny random checkpoints of each family with transformers, and the outputs of transformers for them.

make_model_goldens.py FOLDER writes FOLDER/NAME for each of MODELS: a Hugging Face folder with `golden.json` (prompts and
greedy continuations) and `golden.safetensors` (the logits of every position); and FOLDER/rope.json: the frequencies
of rotary positions for several `config.json`."""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

PROMPTS = [[5], [10, 20, 30, 40, 50], list(range(65, 90)), [257, 97, 98, 99, 258, 257] * 3]
CONTINUATION = 12
QWEN2 = (Qwen2Config, Qwen2ForCausalLM)
QWEN3 = (Qwen3Config, Qwen3ForCausalLM)
LLAMA = (LlamaConfig, LlamaForCausalLM)


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


# Name, family, seed, form of the weight files, and differences from SIZES.
MODELS = [
    ("qwen2-tied", QWEN2, 7, {}, dict(num_key_value_heads=4, rope_parameters=rope("default", 1e4),
                                      tie_word_embeddings=True)),
    ("qwen2-untied", QWEN2, 8, {}, dict(rope_parameters=rope("default", 1e6))),
    ("qwen3-tied", QWEN3, 9, {"shards": "60KB"},
     dict(head_dim=16, rope_parameters=rope("linear", 1e4, factor=2.5), tie_word_embeddings=True)),
    ("qwen3-untied", QWEN3, 10, {"dtype": torch.bfloat16},
     dict(head_dim=16, attention_bias=True, max_position_embeddings=16,
          rope_parameters=rope("yarn", 1e4, factor=4.0, original_max_position_embeddings=16))),
    ("llama-tied", LLAMA, 11, {},
     dict(head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
          rope_parameters=rope("llama3", 100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=32))),
    ("llama-untied", LLAMA, 12, {"dtype": torch.float16},
     dict(rope_parameters=rope("dynamic", 1e4, factor=2.0))),
]
SIZES = dict(vocab_size=264, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=256,
             bos_token_id=None, eos_token_id=263)

# `config.json`s of published models, reduced to the keys of their rotary positions.
ROPES = [
    dict(head_dim=128, rope_theta=5e5, max_position_embeddings=131072,
         rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=8192)),
    dict(head_dim=64, rope_theta=5e5, max_position_embeddings=131072,
         rope_scaling=dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=8192)),
    dict(head_dim=128, rope_theta=1e6, max_position_embeddings=32768,
         rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=128, max_position_embeddings=40960,
         rope_parameters=rope("yarn", 1e6, factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=16.0, original_max_position_embeddings=1024, beta_fast=24.0,
                              beta_slow=2.0, truncate=False)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=40.0, original_max_position_embeddings=4096, mscale=1.0,
                              mscale_all_dim=0.8)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=None, original_max_position_embeddings=512, attention_factor=1.25)),
    dict(head_dim=64, max_position_embeddings=4096, rope_scaling=dict(type="linear", factor=3.0)),
    dict(head_dim=64, rope_theta=2e4, max_position_embeddings=4096, rope_scaling=dict(type="dynamic", factor=2.0)),
    dict(head_dim=80, max_position_embeddings=4096),
]


def tokenizer():
    """Bytes as tokens, through the tokenizers library's own byte table."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def make(folder, family, seed, how, differs):
    torch.manual_seed(seed)
    config, kind = family
    model = kind(config(**{**SIZES, **differs})).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Biases of 0 and norms of 1 would hide mistakes; larger matrices make logits differ clearly.
            if name.endswith("norm.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.3)
            else:
                parameter.mul_(8.0)
    folder.mkdir(parents=True, exist_ok=True)
    sharded = {"max_shard_size": how["shards"]} if "shards" in how else {}
    model.to(how.get("dtype", torch.float32)).save_pretrained(folder, **sharded)
    tokenizer().save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    continuations, logits = [], {}
    with torch.no_grad():
        for index, prompt in enumerate(PROMPTS):
            logits[f"logits.{index}"] = model(torch.tensor([prompt])).logits[0].contiguous()
            tokens = list(prompt)
            for _ in range(CONTINUATION):
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
            continuations.append(tokens[len(prompt):])
    (folder / "golden.json").write_text(json.dumps({"prompts": PROMPTS, "continuations": continuations}) + "\n")
    save_file(logits, folder / "golden.safetensors")


def frequencies(source):
    config = LlamaConfig(**json.loads(json.dumps(source)), hidden_size=256, num_attention_heads=2)
    kind = config.rope_parameters["rope_type"]
    compute = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
    values, attention = compute(config)
    return {"config": source, "frequencies": [float(value) for value in values], "attention": attention}


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    for name, *how in MODELS:
        make(root / name, *how)
    ropes = [frequencies(source) for source in ROPES]
    (root / "rope.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in ropes) + "\n]\n")
