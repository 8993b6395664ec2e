"""Runs and episodes in notebooks: figures, conversations, and text that would be HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

import gymkhana_rl as gk
from gymkhana_rl import runs

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    """The names of the elements, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


def test_an_episode_shows_its_conversation_and_escapes_it(lake, serve, tmp_path):
    pytest.importorskip("polars")
    out = tmp_path / "out"
    (played,) = gk.play(lake, model=serve(lambda _: HOSTILE).url, episodes=1, max_turns=2, out=out)
    stored = runs.open(out).episode(played.id)
    assert stored.record_bytes() == played.record_bytes()
    for episode in (played, stored):
        page = Tags(episode._repr_html_())
        assert page.tags == {"table", "caption", "tr", "th", "td"}
        assert HOSTILE in page.text and f"{played.id}: turn-limit, reward 0, not solved" in page.text
    with pytest.raises(runs.RunError, match=r"no stored episode `1\.train\.9\.9\.9\.9`"):
        runs.open(out).episode("1.train.9.9.9.9")


def test_a_fork_has_the_beginning_of_its_parent(tmp_path):
    """A parent of two segments, and a fork that shares the first three tokens and the first entry of the transcript."""
    polars = pytest.importorskip("polars")

    def turn(text):
        return {"turn": "message", "seat": 0, "content": [{"text": text}]}

    def row(own_id, parent, shared, tokens, ends, texts):
        columns = {name: [0.5] * len(tokens) for name in ("log_probs", "entropies")}
        columns |= {name: [0] * len(tokens) for name in ("versions", "turns", "seats")}
        return columns | {
            "id": own_id, "parent": parent, "shared_tokens": shared, "shared_turns": 1 if parent else 0, "tokens": tokens,
            "sampled": [True] * len(tokens), "segment_ends": ends, "transcript": json.dumps([turn(text) for text in texts]),
            "record": "{}",
        }  # fmt: skip

    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.toml").write_text("")
    rows = [row("1", None, 0, [1, 2, 3, 4, 5], [2, 5], ["a", "b"]), row("2", "1", 3, [9], [2, 4], ["c"])]
    polars.DataFrame(rows).write_parquet(tmp_path / "episodes" / "part-000001.parquet")
    fork = runs.open(tmp_path)._row("2")
    assert [entry["content"][0]["text"] for entry in fork["transcript"]] == ["a", "c"]
    assert [segment["tokens"] for segment in runs._segments(fork)] == [[1, 2], [3, 9]]


def test_a_run_shows_its_results(tmp_path):
    (tmp_path / "episodes").mkdir()
    (tmp_path / "run.toml").write_text("")
    trained = runs.open(tmp_path)
    assert "in progress or stopped" in Tags(trained._repr_html_()).text
    (trained.path / "summary.json").write_text(json.dumps({"stages": [{"name": HOSTILE, "success_after": 0.75}]}))
    page = Tags(trained._repr_html_())
    assert HOSTILE in page.text and "success_after 0.75" in page.text and "finished" in page.text
    assert page.tags <= {"table", "caption", "tr", "th", "td"}
