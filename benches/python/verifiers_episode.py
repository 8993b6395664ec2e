"""Bench of an episode of verifiers in the package's harness, beside verifiers' own harness for chats.

`measure.py` starts it with the Python that has the adapters' frameworks. Both harnesses play the same tasks of FrozenLake
with the oracle's moves, one episode after the other, through verifiers' evaluation and a server on loopback. The time of
an episode is that from the first to the last moment of its trace. The harness of verifiers starts its program through
`uv` and reads the model's answers as a stream; a first turn, which installs the program's packages, is not counted.
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "host/python/tests/adapters"))

import verifiers_runs
from reference import CASES, Case, play
from scripted import Handler, Server, chat_completion

CASE = CASES["messages"]


class Streaming(Handler):
    """As the tests' server, and with streams for those who ask for one."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        payload = type(self).answer(request)
        streams = bool(request.get("stream"))
        data = stream(payload) if streams else json.dumps(payload).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def stream(completion: dict[str, Any]) -> bytes:
    """A completion as the events of a stream."""
    (choice,) = completion["choices"]
    whole = {"index": 0, "delta": choice["message"], "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks = [{**completion, "object": "chat.completion.chunk", "choices": [part]} for part in (whole, last)]
    return "".join(f"data: {text}\n\n" for text in [*map(json.dumps, chunks), "[DONE]"]).encode()


def answers(tasks: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A model that repeats the oracle's actions; the first observation tells the tasks apart."""
    plays = [play(Case(CASE.plugin, task=task, split=CASE.split, seed=CASE.seed)) for task in range(tasks)]
    scripts = {played.texts[0]: played for played in plays}

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        said = sum(message["role"] == "assistant" for message in request["messages"])
        action = scripts[request["messages"][0]["content"]].actions[said]
        return chat_completion({"role": "assistant", "content": action})

    return answer


def milliseconds(url: str, tasks: int, player: dict[str, Any]) -> list[float]:
    """Times of the episodes of the first tasks."""
    with tempfile.TemporaryDirectory() as out:
        episodes = verifiers_runs.episodes(url, CASE, Path(out), player=player, concurrent=1, tasks=tasks)
    traces = [trace for episode in episodes for trace in episode.traces]
    failed = [trace.errors for trace in traces if trace.errors]
    assert len(traces) == tasks and not failed, failed[:1]
    assert {trace.reward for trace in traces} == {1.0}
    return [(trace.timing.scoring.end - trace.timing.boot.start) * 1e3 for trace in traces]


def main() -> None:
    tasks = int(sys.argv[1])
    os.environ.update(SCRIPTED_KEY="none", PRIME_DISABLE_VERSION_CHECK="1")
    theirs = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    server = Server(("127.0.0.1", 0), type("Scripted", (Streaming,), {"answer": staticmethod(answers(tasks))}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for player in ({}, theirs):
        with tempfile.TemporaryDirectory() as out:
            verifiers_runs.episodes(url, CASE, Path(out), player={**player, "max_turns": 1}, concurrent=1, tasks=1)
    value, versus = median(milliseconds(url, tasks, {})), median(milliseconds(url, tasks, theirs))
    server.shutdown()
    line = {"bench": "python-verifiers-episode", "value": value, "unit": "ms", "versus": "verifiers' own harness"}
    print(json.dumps({**line, "versus_value": versus, "ratio": value / versus}), flush=True)


main()
