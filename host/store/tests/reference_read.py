"""Reads a run's Parquet parts with pandas and prints what it finds, as JSON.

    python reference_read.py RUN_FOLDER

Fails when a column is missing, an id occurs twice, or the segments' columns differ in length.
"""

import json
import pathlib
import sys

import pandas

PLAIN = [
    "schema", "id", "stage", "phase", "step", "group", "member", "attempt", "task_split", "task_index", "ending",
    "success", "reward", "calls", "sampled_tokens", "total_ms", "transcript", "record",
]
LISTS = ["tokens", "sampled", "log_probs", "entropies", "versions", "seats", "turns"]


def main(folder):
    parts = sorted(pathlib.Path(folder, "episodes").glob("part-*.parquet"))
    if not parts:
        sys.exit(f"`{folder}` holds no Parquet part")
    frame = pandas.concat([pandas.read_parquet(part) for part in parts], ignore_index=True)
    missing = set(PLAIN + LISTS + ["segment_ends"]) - set(frame.columns)
    assert not missing, f"columns are missing: {sorted(missing)}"
    assert frame["id"].is_unique, "an episode occurs twice"
    for _, row in frame.iterrows():
        lengths = {len(row[name]) for name in LISTS}
        last = row["segment_ends"][-1] if len(row["segment_ends"]) else 0
        assert lengths == {last}, f"{row['id']}: lengths {lengths}, last end {last}"
        assert int(sum(row["sampled"])) == row["sampled_tokens"], row["id"]
        assert json.loads(row["record"])["schema"] == row["schema"], row["id"]
        calls = sum(turn["turn"] in ("call", "malformed-call") for turn in json.loads(row["transcript"]))
        assert calls == row["calls"], row["id"]
    print(json.dumps({
        "parts": len(parts),
        "episodes": len(frame),
        "tokens": int(frame["tokens"].map(len).sum()),
        "sampled_tokens": int(frame["sampled_tokens"].sum()),
        "mean_reward": float(frame["reward"].mean()),
        "success": {phase: float(share) for phase, share in frame.groupby("phase")["success"].mean().items()},
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
