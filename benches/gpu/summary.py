"""A table of the results of check.sh, in Markdown: the project beside torch, and both beside the device's limits."""

import json
import sys

# Weights and embedding size of the measured shapes, for operations per token: 6 per weight of a product in training.
LAYERS = {"qwen2-0.5b": (24, 896), "qwen2-1.5b": (28, 1536), "qwen2-small": (4, 128)}


def main():
    lines = [json.loads(line) for line in open(sys.argv[1])]
    peak = next((line for line in lines if line.get("figure") == "peak" and "skipped" not in line), {})
    print("| check | model | precision | result |\n| --- | --- | --- | --- |")
    for line in lines:
        if "check" in line:
            equal = f"{line['greedy_tokens_equal']} of {line['greedy_tokens']} greedy tokens"
            text = f"{'passed' if line['passed'] else 'FAILED'}: {equal}, log-probabilities within {line['log_prob']:.2g}"
            print(f"| agreement | {line['model']} | {line['precision']} | {text} |")
        elif "failed" in line:
            print(f"| {line['step']} | | | FAILED: {line['failed']} |")
    print("\n| figure | model | ours, tokens/s | torch, tokens/s | ratio | share of the device's limit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for own in (line for line in lines if line.get("program") == "gymkhana" and "figure" in line):
        same = [line for line in lines if line.get("program") == "torch" and line.get("figure") == own["figure"]]
        other = next((line for line in same if line.get("model") == own["model"] and "skipped" not in line), None)
        rate = own["tokens_per_second"]
        beside = f"{other['tokens_per_second']:.0f} | {rate / other['tokens_per_second']:.2f}" if other else " | "
        print(f"| {own['figure']} | {own['model']} | {rate:.0f} | {beside} | {limit(own, peak)} |")


def limit(own, peak):
    """Training: operations beside those of a large product. Generation: weights read once per step of all
    conversations, beside a copy's bytes."""
    if not peak:
        return ""
    if own["figure"] == "training":
        layers, width = LAYERS[own["model"]]
        attention = 6 * layers * width * own["sequence_tokens"]
        operations = own["tokens_per_second"] * (6 * own["parameters"] + attention)
        return f"{operations / peak['operations_per_second']:.1%} of a product's operations"
    bytes_per_step = 2 * own["parameters"]
    bound = peak["bytes_per_second"] / bytes_per_step * own["conversations"]
    return f"{own['tokens_per_second'] / bound:.2%} of the bound by memory"


main()
