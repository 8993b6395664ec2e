"""Goals and a table of the results of check.sh: the project beside torch, and both beside the device's limits.

    python3 summary.py RESULTS TABLE

Appends a line per goal to the results, with `met` null where a figure is missing, and writes the table in Markdown.
"""

import json
import sys

# Layers and hidden size of the measured shapes, for the operations of attention.
LAYERS = {"qwen2-0.5b": (24, 896), "qwen2-1.5b": (28, 1536), "qwen2-small": (4, 128)}

# Least share of the operations of a large product, and least ratios to torch.
TRAINING_SHARE, TRAINING_RATIO, GENERATION_RATIO = 0.45, 1.0, 10.0


def main():
    results, table = sys.argv[1:]
    with open(results) as file:
        lines = [json.loads(line) for line in file]
    goals = list(goals_of(lines))
    with open(results, "a") as file:
        for goal in goals:
            print(json.dumps(goal), file=file)
            print(json.dumps(goal), flush=True)
    with open(table, "w") as file:
        file.writelines(f"{line}\n" for line in [*checks(lines), *figures(lines), *uses(lines), *marks(goals)])


def own_figures(lines):
    return [line for line in lines if line.get("program") == "gymkhana" and "figure" in line]


def beside_torch(lines, own):
    """Torch's figure of the same kind and model; None if it was skipped or failed."""
    for line in lines:
        same = line.get("program") == "torch" and line.get("figure") == own["figure"] and line.get("model") == own["model"]
        if same and "skipped" not in line:
            return line["tokens_per_second"]
    return None


def limit(lines, own):
    """Share of the device's limit; None if the limit was not measured. Training: operations beside those of a large
    product, 6 per weight and token. Generation: a reading of all weights per step, beside a copy's bytes."""
    peak = next((line for line in lines if line.get("figure") == "peak" and "skipped" not in line), None)
    if peak is None:
        return None
    if own["figure"] == "training":
        layers, width = LAYERS[own["model"]]
        attention = 6 * layers * width * own["sequence_tokens"]
        operations = own["tokens_per_second"] * (6 * own["parameters"] + attention)
        return operations / peak["operations_per_second"]
    bound = peak["bytes_per_second"] / (2 * own["parameters"]) * own["conversations"]
    return own["tokens_per_second"] / bound


def goals_of(lines):
    """Goals of the runs with default settings."""
    for own in own_figures(lines):
        if own["logits_chunk_mib"] is not None or not own["kernels"]:
            continue
        torch = beside_torch(lines, own)
        ratio = own["tokens_per_second"] / torch if torch else None
        if own["figure"] == "training":
            yield goal("training: share of a product's operations", own, limit(lines, own), TRAINING_SHARE)
            yield goal("training: ratio to torch", own, ratio, TRAINING_RATIO)
        else:
            yield goal("generation: ratio to torch", own, ratio, GENERATION_RATIO)


def goal(name, own, value, least):
    return {"goal": name, "model": own["model"], "value": value, "least": least, "met": None if value is None else value >= least}


def checks(lines):
    yield from ["| check | model | precision | result |", "| --- | --- | --- | --- |"]
    for line in lines:
        if "check" in line:
            passed = "passed" if line["passed"] else "FAILED"
            if "greedy_tokens" in line:
                equal = f"{line['greedy_tokens_equal']} of {line['greedy_tokens']} greedy tokens"
                margin = line["greedy_margin"]
                equal += "" if margin is None else f" (margin {margin:.2g})"
                equal += f" and {line['sampled_tokens_equal']} sampled ones"
                passed += f": {equal}, log-probabilities within {line['log_prob']:.2g}"
            else:
                passed += f" in {line['seconds']:.1f} s"
            name = line["check"] + ("" if line.get("kernels", True) else ", libtorch's operations alone")
            yield f"| {name} | {line.get('model') or ''} | {line.get('precision') or ''} | {passed} |"
        elif "failed" in line:
            yield f"| {line['step']} | | | FAILED: {line['failed']} |"


def figures(lines):
    yield from ["", "| figure | model | ours, tokens/s | torch, tokens/s | ratio | share of the device's limit |"]
    yield "| --- | --- | --- | --- | --- | --- |"
    for own in own_figures(lines):
        rate, torch, share = own["tokens_per_second"], beside_torch(lines, own), limit(lines, own)
        chunk = own["logits_chunk_mib"]
        name = own["figure"] + (f", logits in chunks of {chunk} MiB" if chunk else "")
        name += "" if own["kernels"] else ", libtorch's operations alone"
        beside = f"{torch:.0f} | {rate / torch:.2f}" if torch else " | "
        yield f"| {name} | {own['model']} | {rate:.0f} | {beside} | {'' if share is None else f'{share:.2%}'} |"


def uses(lines):
    """Memory of the whole GPU for our steps, of torch's tensors for torch's."""
    yield from ["", "| step | memory, MB | share of the time in which the GPU computes |", "| --- | --- | --- |"]
    for line in lines:
        if line.get("figure") == "use":
            yield f"| {line['step']} | {line['memory_mb']} | {line['share']:.0%} |"
        elif line.get("program") == "torch" and "memory_mb" in line:
            yield f"| torch, {line['figure']} {line.get('model') or ''} | {line['memory_mb']:.0f} | |"


def marks(goals):
    yield from ["", "| goal | model | found | least | |", "| --- | --- | --- | --- | --- |"]
    for line in goals:
        found = "not measured" if line["value"] is None else f"{line['value']:.2f}"
        met = {None: "", True: "met", False: "MISSED"}[line["met"]]
        yield f"| {line['goal']} | {line['model']} | {found} | {line['least']} | {met} |"


main()
