"""Tasks as a Hugging Face data set."""

import pytest

pytest.importorskip("datasets", reason="datasets is not installed")

from gymkhana_rl.datasets import rows, tasks
from reference import Case, path, play


def test_each_task_is_a_row_with_its_first_observation() -> None:
    case = Case(path("frozen-lake"), task=0, split="test", seed=0)
    table = tasks(case.plugin, split="test", count=4)
    assert table.column_names == ["prompt", "task", "split", "seed"]
    assert table["task"][:] == [0, 1, 2, 3]
    assert table[0]["prompt"] == [{"role": "user", "content": play(case, []).texts[0]}]


def test_privileged_fields_are_columns_only_on_request() -> None:
    plugin = path("word-problems")
    assert "answer" not in tasks(plugin, count=2).column_names
    assert "answer" in tasks(plugin, count=2, privileged=True).column_names


def test_prompts_are_empty_for_trainers_whose_environment_observes() -> None:
    (row,) = rows(path("frozen-lake"), count=1, observe=False)
    assert row["prompt"] == [{"role": "user", "content": ""}]


def test_an_endless_split_needs_a_count_and_an_unknown_one_is_named() -> None:
    with pytest.raises(ValueError, match="endless"):
        tasks(path("frozen-lake"))
    with pytest.raises(ValueError, match="unknown split `exam`"):
        tasks(path("frozen-lake"), split="exam")
