"""VerlTool's agent loop against the VerlTool endpoint, with a stub in the place of its inference servers.

VerlTool is not published as a package. The loop below follows `verl_tool/agent_loop/verltool_agent_loop.py` of its
repository: what is sent, how answers are read, when a request is repeated, and how a trajectory ends.
"""

import asyncio
import re
import uuid
from dataclasses import dataclass, field

import aiohttp
import pytest
from served import serving

CONTROL = re.compile(r"[\x00-\x08\x0B\x0C\x0E-\x1F]")
MOVES = ("down", "down", "right", "down", "right", "right")
MAX_OBSERVATION = 512


@dataclass
class Output:
    """What an inference server gives for one turn."""

    text: str
    stop_reason: str | None = None

    @property
    def token_ids(self):
        return [ord(letter) for letter in self.text]


class StubServerManager:
    """Gives the texts of a script, and stops each at the first stop text as an inference server does."""

    def __init__(self, script):
        self.script = list(script)

    async def generate(self, sampling_params):
        text = self.script.pop(0)
        for stop in sampling_params["stop"]:
            if stop in text:
                return Output(text[: text.index(stop) + len(stop)], stop)
        return Output(text)


@dataclass
class Trajectory:
    """What the loop hands to the trainer."""

    response_ids: list = field(default_factory=list)
    mask: list = field(default_factory=list)
    infos: list = field(default_factory=list)
    reason: str = ""


def sanitized(value):
    if isinstance(value, dict):
        return {sanitized(key): sanitized(own) for key, own in value.items()}
    if isinstance(value, list):
        return [sanitized(own) for own in value]
    return CONTROL.sub("", value) if isinstance(value, str) else value


class AgentLoop:
    def __init__(self, url, session, script, stops, max_turns=10, retries=1):
        self.url, self.session, self.stops = url, session, stops
        self.server_manager = StubServerManager(script)
        self.max_turns, self.retries = max_turns, retries
        self.closing = set()

    async def send(self, payload):
        answer = None
        for _ in range(self.retries + 1):
            try:
                async with self.session.post(self.url, json=sanitized(payload)) as response:
                    response.raise_for_status()
                    answer = await response.json()
                    answer["success"] = True
                    answer["X-Process-Time"] = float(response.headers.get("X-Process-Time", "0.0"))
                    return answer
            except Exception as error:
                text = f"Tool call error: {error}."
                answer = {"observations": [text], "dones": [1], "valids": [0], "success": False}
            await asyncio.sleep(1)
        return answer

    async def interact(self, trajectory, action, extra):
        payload = {"trajectory_ids": [trajectory], "actions": [action], "finish": [False], "is_last_step": [False]}
        answer = await self.send({**payload, "extra_fields": [extra]})
        observation = answer["observations"][0]
        info = dict(observation) if isinstance(observation, dict) else {"obs": observation}
        assert isinstance(info["obs"], str)
        assert isinstance(info.setdefault("reward", None), int | float | None)
        info |= {"done": int(answer["dones"][0]), "valid": int(answer["valids"][0]), "success": answer["success"]}
        info |= {key: value for key, value in answer.items() if isinstance(value, float)}
        return info

    async def close(self, trajectory):
        payload = {"trajectory_ids": [trajectory], "actions": [""], "finish": [True], "is_last_step": [True]}
        return await self.send(payload)

    async def run(self, extra_info):
        request_id, done = uuid.uuid4().hex, Trajectory()
        for step in range(self.max_turns + 1):
            output = await self.server_manager.generate({"n": 1, "stop": self.stops})
            done.response_ids += output.token_ids
            done.mask += [1] * len(output.token_ids)
            stop = next((stop for stop in self.stops if output.stop_reason and stop in output.stop_reason), None)
            if stop is None or step == self.max_turns:
                done.reason = "model_chose_to_finish" if stop is None else "max_turns_reached"
                break
            action = output.text.split(stop)[0] + stop
            info = await self.interact(request_id, action, dict(extra_info))
            done.infos.append(info)
            ids = [ord(letter) for letter in info["obs"]][:MAX_OBSERVATION]
            done.response_ids += ids
            done.mask += [0] * len(ids)
            if info["done"]:
                done.reason = "tool_signaled_done"
                break
        # The end is sent in the background.
        task = asyncio.create_task(self.close(request_id))
        self.closing.add(task)
        return done


def play(url, scripts, stops, extra=None, **options):
    async def all_at_once():
        async with aiohttp.ClientSession() as session:
            loops = [AgentLoop(f"{url}/get_observation", session, script, stops, **options) for script in scripts]
            done = await asyncio.gather(*(loop.run(extra or {}) for loop in loops))
            closed = [await task for loop in loops for task in loop.closing]
            return done, closed

    return asyncio.run(all_at_once())


def test_tools_answer_and_the_end_closes_the_trajectory(url):
    script = ["I compute. <calculator>6*7</calculator> and so on", "<calculator>6*</calculator>", "It is 42."]
    (done,), (closed,) = play(url, [script], ["</calculator>"], {"index": 0, "question": "6*7?\x00"})
    assert [info["obs"] for info in done.infos][0] == "42"
    assert [info["valid"] for info in done.infos] == [1, 0]
    assert done.infos[1]["owner"] == "agent" and done.infos[1]["invalid_reason"]
    assert done.reason == "model_chose_to_finish"
    assert len(done.mask) == len(done.response_ids) and 0 in done.mask
    assert all(info["success"] and info["processing_time_ms"] >= 0.0 for info in done.infos)
    assert (closed["dones"], closed["success"]) == ([True], True)


def test_sixty_four_trajectories_do_not_mix(url):
    scripts = [[f"<calculator>{number}*1000+{turn}</calculator>" for turn in range(4)] + ["."] for number in range(64)]
    done, closed = play(url, scripts, ["</calculator>"])
    for number, one in enumerate(done):
        assert [info["obs"] for info in one.infos] == [str(number * 1000 + turn) for turn in range(4)]
    assert all(answer["dones"] == [True] for answer in closed)


def test_the_last_turn_is_not_sent(url):
    (done,), _ = play(url, [["<calculator>1</calculator>"] * 3], ["</calculator>"], max_turns=2)
    assert (done.reason, len(done.infos)) == ("max_turns_reached", 2)


def test_an_environment_pays_each_turn(tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text(
        '[verltool]\nenvironment = "frozen-lake"\n[environments.frozen-lake]\noptions = { map = "4x4" }\n'
    )
    with serving(("frozen-lake", "calculator"), config) as url:
        script = [f"{move}</go>" for move in MOVES]
        (done,), _ = play(url, [script], ["</go>"], {"seed": 3, "split": "train", "index": 0})
        assert [info["done"] for info in done.infos] == [0] * 5 + [1]
        assert (sum(info["reward"] for info in done.infos), done.reason) == (1.0, "tool_signaled_done")


def test_a_server_that_is_gone_ends_the_trajectory():
    (done,), (closed,) = play("http://127.0.0.1:9", [["<a>1</a>"]], ["</a>"], retries=0)
    assert (done.reason, done.infos[0]["success"]) == ("tool_signaled_done", False)
    assert closed["success"] is False


@pytest.mark.parametrize("ids", ["one-id", ["one-id"]])
def test_the_end_may_name_one_trajectory_without_a_list(url, ids):
    # As the loop did until 2025.
    async def send():
        async with aiohttp.ClientSession() as session:
            body = {"trajectory_ids": ids, "actions": [""], "finish": [True], "is_last_step": [True]}
            async with session.post(f"{url}/get_observation", json=body) as response:
                return await response.json()

    answer = asyncio.run(send())
    assert (answer["dones"], answer["valids"]) == ([True], [True])
