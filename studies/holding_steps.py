"""Prints what each step of a run of studies/holding.py had to learn from, as a table.

    python3 studies/holding_steps.py RUN...

Needs pyarrow. A group is informative if its rewards differ. Negative tokens are those of episodes below the mean of
their group, as a share of all sampled tokens of informative groups. Lengths are means of sampled tokens per episode.
"""

import json
import pathlib
import statistics
import sys

import pyarrow.parquet

COLUMNS = ["phase", "step", "group", "reward", "success", "sampled_tokens"]
METRICS = ["entropy", "gradient_norm", "reference_divergence", "clip_fraction", "malformed_calls", "cut_replies"]


def episodes(run: pathlib.Path) -> list[dict]:
    rows = [row for part in sorted(run.glob("episodes/part-*.parquet"))
            for row in pyarrow.parquet.read_table(part, columns=COLUMNS).to_pylist()]
    return [row for row in rows if row["phase"] == "train"]


def mean_length(rows: list[dict]) -> str:
    return f"{statistics.fmean(row['sampled_tokens'] for row in rows):.0f}" if rows else ""


def of_step(rows: list[dict]) -> list[str]:
    groups: dict[int, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    informative = [group for group in groups.values() if len({row["reward"] for row in group}) > 1]
    negative = every = 0
    for group in informative:
        mean = statistics.fmean(row["reward"] for row in group)
        every += sum(row["sampled_tokens"] for row in group)
        negative += sum(row["sampled_tokens"] for row in group if row["reward"] < mean)
    lengths = [mean_length([row for row in rows if row["success"] is solved]) for solved in (True, False)]
    success = statistics.fmean(row["success"] for row in rows)
    share = f"{negative / every:.2f}" if every else ""
    return [f"{success:.3f}", f"{len(informative)} of {len(groups)}", share, *lengths]


def main() -> None:
    for run in map(pathlib.Path, sys.argv[1:]):
        rows = episodes(run)
        print(f"\n{run.name}\n")
        print("| step | success | informative groups | negative tokens | length solved | length failed | "
              + " | ".join(METRICS) + " |")
        print("| --- " * (6 + len(METRICS)) + "|")
        for line in (run / "metrics.jsonl").read_text().splitlines():
            step, values = json.loads(line)["step"], json.loads(line)["values"]
            cells = of_step([row for row in rows if row["step"] == step])
            cells += [f"{values.get(key) or 0.0:.4f}" for key in METRICS]
            print(f"| {step} | " + " | ".join(cells) + " |")


main()
