"""Rollouts with classes in place of plugins: the same rules, tokens and records as with the plugins built from them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from gymkhana_sdk import StepResult

import gymkhana_rl as gk
import sdk_classes as classes
from model_server import replies_in
from sdk_classes import Brief, Guess, Notes
from test_local import comparable

CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression": "100/2"}}\n</tool_call>'
SAID = [CALL, "a half", "50", "25"]


def guess(prompt: str) -> str:
    return SAID[replies_in(prompt)]


def played(plugins, url: str, **arguments):
    return gk.play(
        plugins, model=url, episodes=4, group_size=2, max_turns=4, max_tokens=99, tool_format="hermes", seed=2, **arguments
    )


def test_a_mixed_rollout_is_that_of_its_plugins(load, serve):
    """A class as environment, a plugin as tool, a class as reward."""
    url = serve(guess).url
    names = "guest-python-environment", "guest-python-reward"
    own = played([Guess, load("calculator"), gk.local(Brief).reward(free=3)], url, options={"guess": {"guesses": 5}})
    other = played(
        [load(names[0]), load("calculator"), load(names[1]).reward(free=3)], url, options={names[0]: {"guesses": 5}}
    )
    assert [comparable(one.record()) for one in own] == [comparable(one.record()) for one in other]
    assert {tuple(one.record()["unsandboxed"]) for one in own} == {("local/guess", "local/brief")}
    assert all("unsandboxed" not in one.record() for one in other)
    for one, same in zip(own, other):
        assert one.messages() == same.messages() and one.ending == "turn-limit" and one.failures == []
        assert [segment.tokens.tolist() for segment in one.segments] == [s.tokens.tolist() for s in same.segments]
        told = [message["content"] for message in one.messages() if message["role"] == "tool"]
        assert told == ["50"], "the plugin's answer"
        # The last message is `25`: 2 characters are free, so the score is 1 for the right answer and else 0.
        secret = {field["name"]: field["value"] for field in one.record()["privileged"]}["answer"]["text"]
        assert one.components()["brief.right"] == float(secret in "25") == one.components()["brief"]


def test_a_record_of_a_class_is_that_of_the_same_steps(serve):
    (episode,) = gk.play([Guess, Notes], model=serve(lambda _: "50").url, episodes=1, max_turns=2, tool_format="hermes")
    env = gk.local(Guess).env(tools=[Notes])
    env.reset(seed=episode.seed, task=episode.task, split=episode.split)
    env.step("50")
    if not env.done:
        env.step("50")
    own, other = env.record(), episode.record()
    for key in ("task", "seed", "opening", "turns", "environment_rewards", "extras", "views", "failures", "unsandboxed"):
        assert other[key] == own[key], key


# A failure before the first reply is not the model's: the episode does not count.
FAILURES = [
    (classes.BrokenStart, "dropped", "trap", "RuntimeError: it is broken"),
    (classes.WrongSeat, "dropped", "malformed", "seat 3 does not exist"),
    (classes.BrokenStep, "environment-failed", "trap", "RuntimeError: it is broken"),
    (classes.WrongType, "environment-failed", "trap", "TypeError"),
    (classes.NotANumber, "environment-failed", "malformed", "seat 0 earned NaN"),
]


@pytest.mark.parametrize(("kind", "ending", "failure", "said"), FAILURES)
def test_a_class_that_fails_fails_its_episodes(serve, kind, ending, failure, said):
    runs = gk.play(kind, model=serve(lambda _: "x").url, episodes=2, max_turns=1)
    for episode in runs:
        assert episode.ending == ending and said in episode.failures[0]
        assert [one["kind"] for one in episode.record()["failures"]] == [failure]


def test_a_reward_that_fails_fails_its_episode(serve):
    url = serve(lambda _: "raise").url
    plugins = [type("Fine", (classes.Ending,), {"stepped": classes.StepResult("Done.", terminated=True)}), classes.Yes]
    (episode,) = gk.play(plugins, model=url, episodes=1, success="yes.total")
    assert episode.ending == "terminated" and "RuntimeError: it is broken" in episode.failures[0]
    assert [one["kind"] for one in episode.record()["failures"]] == ["trap"]


def test_a_folder_shows_classes_and_is_not_replayed(serve, tmp_path):
    out = tmp_path / "out"
    (episode,) = gk.play(Guess, model=serve(lambda _: "1").url, episodes=1, max_turns=1, out=out)
    assert gk.runs.open(out).config["success"] == "environment.success"

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        program = f"import gymkhana_rl._native as native, sys; sys.exit(native.command_line({list(words)!r}))"
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "without sandbox  local/guess\n" in command("show", str(out), "--episode", episode.id).stdout
    refused = command("replay", str(out))
    assert refused.returncode == 2, refused.stderr
    assert "the episodes cannot be played again: `local/guess` ran without a sandbox" in refused.stderr
    assert "hint: build the component with `gymkhana plugin build`" in refused.stderr


def test_two_plugins_of_one_short_name_are_named(serve):
    other = type("Guess", (classes.Crashing,), {})
    with pytest.raises(gk.PlayError, match="share the short name `guess`"):
        gk.play([Guess, other], model=serve(lambda _: "1").url, episodes=1)


class Waiting(classes.Ending):
    """Each step waits until the other episode steps."""

    both = threading.Barrier(2)
    stepped = classes.StepResult("Done.", terminated=True, extras={"success": True})

    def step(self, action):
        self.both.wait(60)
        return self.stepped


def test_episodes_step_side_by_side(serve):
    runs = gk.play(Waiting, model=serve(lambda _: "x").url, episodes=2)
    assert runs.columns()["ending"] == ["terminated", "terminated"]


class Endless(classes.Ending):
    """Steps until it is interrupted."""

    began, ended = threading.Event(), threading.Event()

    def step(self, action):
        self.began.set()
        try:
            while True:
                pass
        finally:
            self.ended.set()


def test_a_cancelled_task_ends_code_of_a_class(serve):
    async def main():
        task = asyncio.create_task(gk.play_async(Endless, model=serve(lambda _: "x").url, episodes=1))
        while not Endless.began.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert Endless.ended.wait(60), "the code that ran was interrupted"


INTERRUPTED = """
import os, signal, threading
sys.path.insert(0, {tests!r})
import sdk_classes as classes
from model_server import Model, served, write_model
from pathlib import Path
began = threading.Event()
class Endless(classes.Ending):
    def step(self, action):
        began.set()
        while True:
            pass
def interrupt():
    began.wait()
    os.kill(os.getpid(), signal.SIGINT)
def interrupted(call):
    began.clear()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
env = gk.local(Endless).env()
env.reset()
interrupted(lambda: env.step("x"))
print(env.record()["ending"])
with served(Model(lambda _: "x", write_model(Path({folder!r})))) as model:
    interrupted(lambda: gk.play(Endless, model=model.url, episodes=2))
"""


def test_ctrl_c_ends_code_of_a_class(program, tmp_path):
    text = INTERRUPTED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    assert program(text).split("\n") == ["interrupted", "environment-failed", "interrupted", ""]


STUCK = """
import threading, time
sys.path.insert(0, {tests!r})
import sdk_classes as classes
began = threading.Event()
class Stubborn(classes.Ending):
    def step(self, action):
        began.set()
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                pass
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1)
env = gk.local(Stubborn).env()
env.reset()
threading.Thread(target=env.step, args=("x",), daemon=True).start()
began.wait()
slow = Slow()
print("end", flush=True)
"""


def test_the_interpreter_ends_while_code_of_a_class_does_not(program):
    # The thread wants the interpreter back while it ends, in the second that the last object takes.
    assert program(STUCK.format(tests=str(Path(__file__).parent))) == "end\n"


class Gated(classes.Ending):
    """Steps once its gate is open."""

    gate = threading.Event()
    stepped = StepResult("Done.", terminated=True, extras={"success": True})

    def step(self, action):
        while not self.gate.is_set():
            pass
        return super().step(action)


def test_a_class_whose_rollout_was_ended_plays_again(serve):
    plugin = gk.local(Gated)
    model = serve(lambda _: "1").url
    with pytest.raises(gk.GymkhanaError, match="interrupted"):
        gk.play(plugin, model=model, episodes=1, max_turns=1, interrupted=lambda: True)
    Gated.gate.set()
    (episode,) = gk.play(plugin, model=model, episodes=1, max_turns=1)
    assert episode.failures == []


def test_a_record_keeps_its_classes_as_bytes(serve):
    (episode,) = gk.play(Guess, model=serve(lambda _: "1").url, episodes=1, max_turns=1)
    again = gk.Episode.from_bytes(episode.record_bytes())
    assert json.loads(again.record_bytes()) == episode.record() and again.record()["unsandboxed"] == ["local/guess"]
