#!/usr/bin/env python3
"""Loads a checkpoint of the trainer in transformers and compares keys and logits. For the tiny model it also checks the
byte tokenizer and the chat template; for a checkpoint with adapters, that PEFT on the original model gives the same
logits.

check_checkpoint.py FOLDER LOGITS.safetensors [tiny | BEGUN], the second with `tokens` and `logits`"""
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

CONVERSATION = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "calculate", "arguments": {"expression": "2+2"}}}]},
    {"role": "tool", "content": "4"},
]
RENDERED = ('<|im_start|>u2+2?<|im_end|><|im_start|>a<tool_call>\n{"name": "calculate", "arguments": '
            '{"expression": "2+2"}}\n</tool_call><|im_end|><|im_start|>t4<|im_end|><|im_start|>a')


def check_texts(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Ann has 37 boxes. \x00\n\u00e9\u4e2d <|im_end|>"
    tokens = tokenizer(text)["input_ids"]
    assert tokens[:-1] == list(text.removesuffix("<|im_end|>").encode()) and tokens[-1] == 258, tokens
    assert tokenizer.decode(tokens) == text
    rendered = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    assert rendered == RENDERED, rendered


def check_adapter(folder, begun, expected):
    from peft import PeftModel
    base = AutoModelForCausalLM.from_pretrained(begun, dtype=torch.float32)
    tokens = expected["tokens"].long().unsqueeze(0)
    with torch.no_grad():
        moved = (base(tokens).logits[0] - expected["logits"]).abs().max().item()
        logits = PeftModel.from_pretrained(base, f"{folder}/adapter")(tokens).logits[0]
    difference = (logits - expected["logits"]).abs().max().item()
    assert difference <= 2e-5 and moved > 1e-2, f"largest difference of logits: {difference}; without adapters {moved}"
    print(f"{folder}: PEFT loads its adapters; largest difference of logits {difference:.1e}")


def check(folder, logits_file, kind=None):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    for keys in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[keys], f"{keys}: {info[keys]}"
    assert model.dtype == torch.float32, model.dtype
    if kind == "tiny":
        check_texts(folder)
    expected = load_file(logits_file)
    with torch.no_grad():
        logits = model(expected["tokens"].long().unsqueeze(0)).logits[0]
    difference = (logits - expected["logits"]).abs().max().item()
    assert difference <= 2e-5, f"largest difference of logits: {difference}"
    print(f"{folder}: loads in transformers; largest difference of logits {difference:.1e}")
    if kind not in (None, "tiny"):
        check_adapter(folder, kind, expected)


if __name__ == "__main__":
    check(*sys.argv[1:])
