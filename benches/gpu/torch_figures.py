"""The figures of PyTorch and transformers on the same device and models: one JSON line each.

    python3 torch_figures.py peak|train|generate MODEL --device cuda --bfloat16

Prints a line with `skipped` where torch or transformers is missing.
"""

import argparse
import json
import time


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("figure", choices=["peak", "train", "generate"])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--conversations", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--reply", type=int, default=128)
    parser.add_argument("--size", type=int, default=8192)
    return parser.parse_args()


def main():
    given = arguments()
    line = {"program": "torch", "figure": {"train": "training", "generate": "generation"}.get(given.figure, "peak")}
    line |= {"model": given.model and given.model.rstrip("/").rsplit("/", 1)[-1], "device": given.device}
    line["precision"] = "bfloat16" if given.bfloat16 else "float32"
    try:
        import torch

        if given.figure != "peak":
            import transformers  # noqa: F401
    except ImportError as error:
        print(json.dumps(line | {"skipped": f"{error.name} is not installed"}), flush=True)
        return
    line["torch"] = torch.__version__
    figures = {"peak": peak, "train": train, "generate": generate}[given.figure](torch, given)
    if given.device == "cuda":
        figures["gpu"] = torch.cuda.get_device_name()
        figures["memory_mb"] = torch.cuda.max_memory_allocated() / 1e6
    print(json.dumps(line | figures), flush=True)


def wait(torch, given):
    if given.device == "cuda":
        torch.cuda.synchronize()


def peak(torch, given):
    """Operations per second of a large product, and bytes per second of a copy."""
    kind = torch.bfloat16 if given.bfloat16 else torch.float32
    one, other = (torch.randn(given.size, given.size, device=given.device, dtype=kind) for _ in range(2))
    for _ in range(3):
        one @ other
    wait(torch, given)
    since = time.perf_counter()
    for _ in range(given.steps):
        one @ other
    wait(torch, given)
    product = (time.perf_counter() - since) / given.steps
    target = torch.empty_like(one)
    target.copy_(one)
    wait(torch, given)
    since = time.perf_counter()
    for _ in range(10 * given.steps):
        target.copy_(one)
    wait(torch, given)
    copied = (time.perf_counter() - since) / (10 * given.steps)
    moved = 2 * one.numel() * one.element_size()
    return {"operations_per_second": 2 * given.size**3 / product, "bytes_per_second": moved / copied}


def load(torch, given):
    import transformers

    kind = torch.bfloat16 if given.bfloat16 else torch.float32
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, attn_implementation="sdpa")
    return model.to(given.device), kind


def train(torch, given):
    """Steps of AdamW on float32 weights, with passes in the number format, as the project's trainer computes them."""
    model, kind = load(torch, given)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=given.device == "cuda")
    count = max(given.tokens // given.length, 1)
    tokens = torch.randint(0, 256, (count, given.length), device=given.device)

    def step():
        with torch.autocast(given.device, dtype=kind, enabled=given.bfloat16):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    step()
    wait(torch, given)
    since = time.perf_counter()
    for _ in range(given.steps):
        step().item()
    wait(torch, given)
    rate = given.steps * tokens.numel() / (time.perf_counter() - since)
    return {"tokens_per_second": rate, "pass_tokens": given.tokens, "sequence_tokens": given.length}


def generate(torch, given):
    model, kind = load(torch, given)
    model = model.to(kind).eval()
    tokens = torch.randint(0, 256, (given.conversations, given.prompt), device=given.device)
    settings = {"do_sample": True, "pad_token_id": 0, "eos_token_id": None}

    def reply(length):
        with torch.inference_mode():
            model.generate(tokens, min_new_tokens=length, max_new_tokens=length, **settings)
        wait(torch, given)

    reply(2)
    since = time.perf_counter()
    reply(given.reply)
    rate = given.conversations * given.reply / (time.perf_counter() - since)
    shape = {"conversations": given.conversations, "prompt_tokens": given.prompt, "reply_tokens": given.reply}
    return {"tokens_per_second": rate, **shape}


main()
