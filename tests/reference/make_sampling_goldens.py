#!/usr/bin/env python3
"""Tokens that transformers' sampling keeps: make_sampling_goldens.py FOLDER writes FOLDER/sampling.json.

Each case has logits, sampling settings, and the tokens that can be sampled."""
import json
import pathlib
import sys

import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

# Vocabulary, width of the logits, and filters: temperature, top_k, top_p, min_p.
CASES = [
    (40, 3.0, dict(temperature=1.0, top_k=5, top_p=1.0, min_p=0.0)),
    (40, 3.0, dict(temperature=1.0, top_k=0, top_p=0.8, min_p=0.0)),
    (40, 3.0, dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.1)),
    (40, 3.0, dict(temperature=0.6, top_k=12, top_p=0.9, min_p=0.02)),
    (40, 3.0, dict(temperature=1.5, top_k=12, top_p=0.5, min_p=0.2)),
    (40, 0.5, dict(temperature=2.0, top_k=30, top_p=0.95, min_p=0.3)),
    (40, 9.0, dict(temperature=1.0, top_k=50, top_p=0.999, min_p=0.0)),
]


def kept(logits, temperature, top_k, top_p, min_p):
    """Filters in the order in which `generate` applies them, each only if it has an effect."""
    warpers = [TemperatureLogitsWarper(temperature)]
    if top_k > 0:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p > 0.0:
        warpers.append(MinPLogitsWarper(min_p))
    scores = logits.unsqueeze(0)
    for warper in warpers:
        scores = warper(None, scores)
    return torch.isfinite(scores[0]).nonzero().flatten().tolist()


if __name__ == "__main__":
    torch.manual_seed(5)
    cases = []
    for vocabulary, width, how in CASES:
        # Rounded, so that the file holds the exact numbers.
        logits = (torch.randn(vocabulary) * width * 1024).round() / 1024
        cases.append({"logits": logits.tolist(), **how, "kept": kept(logits, **how)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (pathlib.Path(sys.argv[1]) / "sampling.json").write_text(f"[\n{lines}\n]\n")
