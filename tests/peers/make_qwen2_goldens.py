#!/usr/bin/env python3
"""Makes tiny random Qwen2 checkpoints with transformers, and what transformers computes with them.

make_qwen2_goldens.py FOLDER writes FOLDER/qwen2-tied and FOLDER/qwen2-untied: a Hugging Face folder each, with
`golden.json` (prompts and greedy continuations) and `golden.safetensors` (the logits of every position)."""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PROMPTS = [[5], [10, 20, 30, 40, 50], list(range(65, 90)), [257, 97, 98, 99, 258, 257] * 3]
CONTINUATION = 12


def tokenizer():
    """Bytes as tokens, through the tokenizers library's own table of letters."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def make(folder, tied, kv_heads, theta):
    torch.manual_seed(7 if tied else 8)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=264, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=kv_heads, max_position_embeddings=64, rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied, pad_token_id=256, bos_token_id=None, eos_token_id=263)).float().eval()
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
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    make(root / "qwen2-tied", tied=True, kv_heads=4, theta=10000.0)
    make(root / "qwen2-untied", tied=False, kv_heads=2, theta=1000000.0)
