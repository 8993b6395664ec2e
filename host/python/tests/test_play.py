"""Whole rollouts: a scripted server plays, and the expected tokens, masks and rewards are written out here."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

import gymkhana_rl as gk
from model_server import LOG_PROB, replies_in, text_of, tokens_of

LAKE = {"frozen-lake": {"map": "4x4"}}
# Gymnasium's map SFFF, FHFH, FFFH, HFFG: its shortest safe path.
PATH = ["down", "down", "right", "right", "down", "right"]


def walk(prompt: str) -> str:
    """The next step of the path, by the number of replies so far."""
    return PATH[replies_in(prompt)]


def test_tokens_masks_and_rewards_of_an_episode(lake, serve):
    runs = gk.play(lake, model=serve(walk).url + "/v1", episodes=1, options=LAKE, seed=3)
    assert isinstance(runs, gk.Rollouts) and len(runs) == 1
    episode = runs[0]
    assert (episode.ending, episode.success, episode.reward, episode.turns) == ("terminated", True, 1.0, 6)
    assert episode.rewards == (1.0,) and episode.components() == {"environment": 1.0}
    assert episode.failures == [] and episode.facts["success"] is True
    # The same episode, stepped from Python: the seed and the actions determine it.
    env = lake.env(options=LAKE["frozen-lake"])
    seen = [env.reset(seed=episode.seed, task=episode.task, split=episode.split)[0]]
    for move in PATH:
        seen.append(env.step(move)[0])
    expected = "".join(
        f"<|start|>user\n{observation}<|end|>\n<|start|>assistant\n{move}<|end|>"
        + "\n" * (place < len(PATH) - 1)
        for place, (observation, move) in enumerate(zip(seen, PATH))
    )
    (segment,) = episode.segments
    assert segment.seat == 0 and text_of(segment.tokens.tolist()) == expected
    assert segment.tokens.tolist() == tokens_of(expected)
    assert segment.tokens.dtype == np.int64 and segment.log_probs.dtype == np.float32 and segment.mask.dtype == bool
    sampled = [tokens_of(f"{move}<|end|>") for move in PATH]
    assert segment.tokens[segment.mask].tolist() == [token for reply in sampled for token in reply]
    assert (segment.log_probs == np.where(segment.mask, np.float32(LOG_PROB), 0)).all()
    turns = segment.turns[segment.mask].tolist()
    assert turns == [place for place, reply in enumerate(sampled) for _ in reply]
    # The last observation came after the last reply.
    messages = [{"role": "user", "content": seen[0]}]
    for move, observation in zip(PATH, seen[1:]):
        messages += [{"role": "assistant", "content": move}, {"role": "user", "content": observation}]
    assert [message for message in episode.messages() if message["content"]] == [m for m in messages if m["content"]]


def test_a_record_is_that_of_the_same_steps(lake, serve):
    episode = gk.play(lake, model=serve(walk).url, episodes=1, options=LAKE)[0]
    env = lake.env(options=LAKE["frozen-lake"])
    env.reset(seed=episode.seed, task=episode.task, split=episode.split)
    for move in PATH:
        env.step(move)
    own, other = env.record(), episode.record()
    for key in ("schema", "task", "seed", "opening", "turns", "ending", "rewards", "environment_rewards", "extras",
                "privileged", "views", "failures", "exchanges"):
        assert other[key] == own[key], key
    assert isinstance(episode.record_bytes(), bytes)
    again = pickle.loads(pickle.dumps(episode))
    assert again.record_bytes() == episode.record_bytes()
    assert (again.segments[0].tokens == episode.segments[0].tokens).all()


def test_groups_play_one_task_and_columns_hold_all_episodes(lake, serve):
    runs = gk.play(lake, model=serve(lambda _: "right").url, episodes=6, group_size=3, tasks=[5, 2], max_turns=2)
    assert runs.task.tolist() == [5, 5, 5, 2, 2, 2] and runs.group.tolist() == [0, 0, 0, 1, 1, 1]
    assert [episode.member for episode in runs] == [0, 1, 2, 0, 1, 2]
    assert len({episode.seed for episode in runs}) == 6
    assert runs.reward.shape == (6,) and runs.reward.dtype == np.float64 and runs.success.dtype == bool
    columns = runs.columns()
    assert {len(column) for column in columns.values()} == {6}
    assert columns["ending"] == [episode.ending for episode in runs] and columns["environment"] == runs.reward.tolist()
    assert isinstance(runs[1:3], gk.Rollouts) and runs[1:3].task.tolist() == [5, 5]


def test_the_seed_determines_tasks_and_episodes(lake, serve):
    url = serve(lambda _: "down").url
    one, same, other = (gk.play(lake, model=url, episodes=4, seed=seed, max_turns=2) for seed in (1, 1, 2))
    assert [episode.seed for episode in one] == [episode.seed for episode in same]
    assert [episode.messages() for episode in one] == [episode.messages() for episode in same]
    assert [episode.seed for episode in one] != [episode.seed for episode in other]


def test_requests_carry_the_arguments(lake, serve, monkeypatch):
    monkeypatch.setenv("PLAY_KEY", "secret words")
    model = serve(lambda _: "d", name="other")
    gk.play(
        lake, model=model.url, episodes=1, served_model="other", key_env="PLAY_KEY", temperature=0.5, max_tokens=3,
        max_turns=1, system="Walk.", settings={"limits": {"stop": ["!"]}},
    )
    request = model.requests[-1]
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("other", 0.5, 3)
    assert request["stop"] == ["!"] and text_of(request["prompt"]).startswith("<|start|>system\nWalk.<|end|>\n")
    assert model.headers[-1]["authorization"] == "Bearer secret words"


def test_tools_and_rewards_take_part(load, serve):
    """The model calls the calculator and then answers: first wrong, and with the same seed again right."""
    said = ["nothing"]

    def answer(prompt: str) -> str:
        if replies_in(prompt) == 0:
            return '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
        return said[-1]

    plugins = [load("word-problems"), load("calculator").tool(), load("answer-match")]
    url = serve(answer).url
    for correct in (0.0, 1.0):
        (episode,) = gk.play(
            plugins, model=url, episodes=1, seed=6, success="answer-match.correct", tool_format="hermes", max_tokens=99
        )
        call, told, final = [message for message in episode.messages() if message["role"] in ("assistant", "tool")]
        function = call["tool_calls"][0]["function"]
        assert (function["name"], json.loads(function["arguments"])) == ("calculate", {"expression": "6*7"})
        assert told == {"role": "tool", "content": "42", "tool_call_id": call["tool_calls"][0]["id"]}
        assert final == {"role": "assistant", "content": said[-1]}
        assert episode.components()["answer-match.correct"] == correct and episode.success is bool(correct)
        assert episode.reward == episode.components()["answer-match"] + episode.components()["environment"]
        (right,) = [field["value"] for field in episode.record()["privileged"] if field["name"] == "answer"]
        said.append(str(next(iter(right.values()))))


def test_a_folder_is_read_as_that_of_a_run(lake, serve, tmp_path, program):
    out = tmp_path / "out"
    runs = gk.play(lake, model=serve(walk).url, episodes=2, options=LAKE, out=out)
    run = gk.runs.open(out)
    assert run.config["success"] == "environment.success" and run.config["policy"]["server"]["name"] == "tiny"
    frames = pytest.importorskip("polars")
    frame = run.episodes().select("id", "reward", "tokens").collect()
    assert isinstance(frame, frames.DataFrame)
    assert sorted(frame["id"]) == sorted(episode.id for episode in runs) and set(frame["reward"]) == {1.0}
    command = "import gymkhana_rl._native as native; sys.exit(native.command_line({}))"
    assert "2 episodes replayed, every byte equal: 2" in program(command.format(["replay", str(out)]))
    assert runs[0].id in program(command.format(["show", str(out), "--episode", runs[0].id]))
    with pytest.raises(gk.PlayError, match="holds another run") as taken:
        gk.play(lake, model=serve(walk).url, episodes=1, out=out)
    assert taken.value.hint == "choose another `out`"


def test_the_async_twin_gives_the_same_episodes(lake, serve):
    url = serve(walk).url

    async def main():
        return await gk.play_async(lake, model=url, episodes=2, options=LAKE, seed=4)

    runs = asyncio.run(main())
    assert [one.messages() for one in runs] == [
        one.messages() for one in gk.play(lake, model=url, episodes=2, options=LAKE, seed=4)
    ]


def test_a_cancelled_task_ends_its_rollout(lake, serve):
    asked: list[float] = []

    def slow(_: str) -> str:
        asked.append(time.monotonic())
        time.sleep(0.2)
        return "left"

    async def main():
        # Walking left against the edge never ends an episode.
        task = asyncio.create_task(gk.play_async(lake, model=serve(slow).url, episodes=1, max_turns=1000))
        while not asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(1)
        after = len(asked)
        await asyncio.sleep(1)
        assert len(asked) == after

    asyncio.run(main())


INTERRUPTED = """
import os, signal, threading, time
sys.path.insert(0, {tests!r})
from model_server import Model, served, write_model
from pathlib import Path
began = threading.Event()
def slow(prompt):
    began.set()
    time.sleep(30)
    return "left"
with served(Model(slow, write_model(Path({folder!r})))) as model:
    def interrupt():
        began.wait()
        global since
        since = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        gk.play(load("frozen-lake"), model=model.url, episodes=4)
    except KeyboardInterrupt:
        print(time.monotonic() - since < 1)
    os._exit(0 if sys.stdout.flush() is None else 1)
"""


def test_ctrl_c_ends_a_rollout_within_a_second(program, tmp_path):
    assert program(INTERRUPTED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))) == "True\n"


FORKED = """
import os
sys.path.insert(0, {tests!r})
from model_server import Model, served, write_model
from pathlib import Path
def reward():
    plugin = load("frozen-lake")
    options = {{"frozen-lake": {{"map": "4x4"}}}}
    return gk.play(plugin, model=url, episodes=1, options=options, max_turns=1)[0].ending
url = {url!r}
print(reward(), flush=True)
pid = os.fork()
if pid == 0:
    print(reward(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


def test_a_forked_child_plays(program, serve):
    url = serve(lambda _: "left").url
    assert program(FORKED.format(tests=str(Path(__file__).parent), url=url)) == "turn-limit\nturn-limit\n"


def test_a_server_that_fails_is_named(lake, serve):
    model = serve(walk, refuse=400)
    with pytest.raises(gk.PlayError) as refused:
        gk.play(lake, model=model.url, episodes=1)
    assert f"the policy server at {model.url}/" in str(refused.value) and "400" in str(refused.value)
    assert refused.value.hint == "check the server's log, and play again"


def test_a_server_that_does_not_answer_is_named(lake):
    settings = {"policy": {"server": {"retries": 0}}}
    with pytest.raises(gk.PlayError) as unreachable:
        gk.play(lake, model="http://127.0.0.1:9/v1", episodes=1, settings=settings)
    assert "the policy server at http://127.0.0.1:9/ cannot be reached" in str(unreachable.value)
    assert unreachable.value.hint == "start it, or correct model, which ends before `/v1`"


def test_a_server_without_tokens_is_refused(lake, serve):
    with pytest.raises(gk.PlayError, match="text without token ids and log-probabilities") as no_tokens:
        gk.play(lake, model=serve(walk, with_tokens=False).url, episodes=1)
    assert no_tokens.value.hint is not None and "start a vLLM or SGLang server" in no_tokens.value.hint


def test_an_unknown_model_is_named(lake, serve):
    model = serve(walk)
    with pytest.raises(gk.PlayError, match="has no model `large`") as unknown:
        gk.play(lake, model=model.url, episodes=1, served_model="large")
    assert unknown.value.hint == "set served_model to one of `tiny`"
    with pytest.raises(gk.PlayError, match="the tokenizer of model `tiny` is unknown") as unknown:
        gk.play(lake, model=serve(walk, root="/not/here").url, episodes=1)
    assert unknown.value.hint == "set checkpoint to the model's folder, or to OWNER/NAME on a hub"


def test_plugins_that_do_not_fit_are_named(lake, load, serve):
    url = serve(walk).url
    with pytest.raises(gk.PlayError, match="no plugin is an environment") as none:
        gk.play(load("calculator"), model=url, episodes=1)
    assert none.value.hint == "add one to plugins, such as word-problems.wasm"
    with pytest.raises(gk.PlayError, match=r"`kuhn-poker` and `frozen-lake`|`frozen-lake` and `kuhn-poker`") as two:
        gk.play([lake, load("kuhn-poker")], model=url, episodes=1)
    assert two.value.hint == "remove one of them, or list them in [[environments]] of a run file"
    with pytest.raises(gk.OptionError, match="`options` names `lake`") as wrong:
        gk.play(lake, model=url, episodes=1, options={"lake": {}})
    assert wrong.value.hint == "use `frozen-lake`"
    with pytest.raises(gk.PlayError, match="has no option `siz`"):
        gk.play(lake, model=url, episodes=1, options={"frozen-lake": {"siz": 4}})
    with pytest.raises(gk.PlayError, match="has no split `trian`"):
        gk.play(lake, model=url, episodes=1, split="trian")


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        ({"episodes": 0}, "`episodes` is 0", "give a number from 1 on"),
        ({"episodes": 5, "group_size": 2}, "5 episodes are not a whole number of groups of 2", "give 6 episodes"),
        ({"episodes": 2, "tasks": [1]}, "`tasks` has 1 tasks for 2 groups", None),
        ({"episodes": 1, "max_turns": 200_000}, "`max_turns` is 200000; it must be 100000 or less", None),
        ({"episodes": 1, "temperature": 0.0}, "temperature", None),
        ({"episodes": 1, "tool_format": "hermse"}, "hermse", None),
        ({"episodes": 1, "settings": {"limts": {}}}, "limts", None),
        ({"episodes": 1, "settings": {"plugins": {"lake": {"http": []}}}}, "cannot hold `plugins.lake.http`", None),
    ],
)
def test_arguments_out_of_range_are_refused(lake, arguments, said, hint):
    with pytest.raises(gk.OptionError) as refused:
        gk.play(lake, model="http://127.0.0.1:9", **arguments)
    assert said in str(refused.value), refused.value
    assert hint is None or refused.value.hint == hint
