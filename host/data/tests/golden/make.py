"""Writes the files of this folder with the libraries of other projects: `pip install datasets`, then run it here."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict

HERE = Path(__file__).parent

verl = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{number} + 1?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"split": "train", "index": number, "weights": [0.5, None], "easy": True},
    }
    for number in range(3)
]
Dataset.from_list(verl).to_parquet(HERE / "verl.parquet")

questions = Dataset.from_dict({"question": ["1 + 2?", "2 + 2?"], "answer": ["Sum.\n#### 3", "Sum.\n#### 4"]})
held_out = Dataset.from_dict({"question": ["3 + 3?"], "answer": ["Sum.\n#### 6"]})
shutil.rmtree(HERE / "saved", ignore_errors=True)
DatasetDict({"train": questions, "test": held_out}).save_to_disk(HERE / "saved")

asked = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say it."}]
answered = lambda text: [*asked, {"role": "assistant", "content": text}]
pairs = [{"chosen": answered(f"yes {number}"), "rejected": answered("no")} for number in range(4)]
Dataset.from_list(pairs).to_parquet(HERE / "pairs.parquet")

labels = {"prompt": ["Say it."] * 4, "completion": ["yes", "no", "yes 2", "no 2"], "label": [True, False] * 2}
shutil.rmtree(HERE / "labels", ignore_errors=True)
Dataset.from_dict(labels).save_to_disk(HERE / "labels")

table = pa.table(
    {
        "prompt": pa.array(["a", "b"], pa.large_string()),
        "answer": pa.array([1, None], pa.int8()),
        "facts": pa.array([[1.5], []], pa.large_list(pa.float32())),
        "when": pa.array([0, 1], pa.timestamp("s")),
    }
)
pq.write_table(table, HERE / "types.parquet", compression="zstd")
pq.write_table(table.drop_columns(["when"]), HERE / "large.parquet", compression="zstd")
compressed = pa.table({"question": ["1 + 2? " * 40], "answer": ["3"]})
zstd = pa.ipc.IpcWriteOptions(compression="zstd")
with pa.ipc.new_stream(HERE / "compressed.arrow", compressed.schema, options=zstd) as writer:
    writer.write_table(compressed)

(HERE / "versions.json").write_text(json.dumps({"pyarrow": pa.__version__, "datasets": __import__("datasets").__version__}) + "\n")
