"""Bench of the Python package: prints one JSON line per result, each with a comparison of the same run.

`cargo xtask bench python` starts it. Times are CPU times of the process, except for those of calls to another process,
of batches (which use all cores) and of imports.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import answer_match
import gymkhana_rl as gk
import gymnasium
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = Path(os.environ["GYMKHANA_PLUGINS"])
# Gymnasium's numbers of these words, and the moves of all environments.
WORDS = ("left", "down", "right", "up")
MOVES = random.Random(1).choices(range(4), k=997)
# Gymnasium's default: the map 4x4, slippery, at most 100 turns.
LAKE = {"map": "4x4", "slippery": True}
LINE = "print(6*7)"
LIMIT_OF_IMPORTS_MS = 150.0


def load(name: str) -> gk.Plugin:
    return gk.load(PLUGINS / f"{name}.wasm", timeout_s=10, memory_mib=136)


def show(bench: str, value: float, unit: str, versus: str, versus_value: float) -> None:
    ratio = value / versus_value
    line = {"bench": bench, "value": value, "unit": unit, "versus": versus, "versus_value": versus_value, "ratio": ratio}
    print(json.dumps(line), flush=True)


def cost(run: Callable[[], int], rounds: int, clock: Callable[[], float] = time.process_time) -> float:
    """Microseconds of one of the things that `run` does and counts: the median of some rounds."""
    measured = []
    for _ in range(rounds):
        since = clock()
        count = run()
        measured.append((clock() - since) / count * 1e6)
    return median(measured)


def our_steps(env: gk.Env, count: int) -> int:
    env.reset()
    for number in range(count):
        _, _, terminated, truncated, _ = env.step(WORDS[MOVES[number % len(MOVES)]])
        if terminated or truncated:
            env.reset()
    return count


def their_steps(env: gymnasium.Env, count: int) -> int:
    env.reset()
    for number in range(count):
        _, _, terminated, truncated, _ = env.step(MOVES[number % len(MOVES)])
        if terminated or truncated:
            env.reset()
    return count


def steps(rounds: int, count: int) -> None:
    """Steps of FrozenLake with the same map, rules and moves, resets included."""
    lake, theirs = load("frozen-lake"), gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    env = lake.env(seed=1, options=LAKE)
    ours_us, theirs_us = [], []
    for _ in range(rounds):
        ours_us.append(cost(lambda: our_steps(env, count), 1))
        theirs_us.append(cost(lambda: their_steps(theirs, count), 1))
    show("python-step", median(ours_us), "µs", "Gymnasium's FrozenLake", median(theirs_us))
    places = 512
    turns = [[WORDS[MOVES[(number + 31 * place) % len(MOVES)]] for place in range(places)] for number in range(8)]
    their_wall = cost(lambda: their_steps(theirs, count), rounds, time.perf_counter)
    for bench, shared in (("python-vector-step", 1), ("python-shared-vector-step", 64)):
        vector = lake.vector_env(places, seed=1, shared_episodes=shared, options=LAKE)
        vector.reset()
        wall = cost(lambda: batch(vector, turns), rounds, time.perf_counter)
        show(bench, wall, "µs", "Gymnasium's FrozenLake", their_wall)


def batch(vector: gk.VectorEnv, turns: list[list[str]]) -> int:
    for actions in turns:
        vector.step(actions)
    return sum(map(len, turns))


def execute(line: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(line, {})
    return output.getvalue()


def tools(rounds: int, count: int) -> None:
    """Calls of the Python tool in a warm session, beside the same line in this process and in ipykernel."""
    tool = load("python").tool(seed=1)
    name, argument = tool.schemas[0]["name"], next(iter(tool.schemas[0]["parameters"]["properties"]))
    assert "42" in tool.call(name, {argument: LINE}).content

    def ours() -> int:
        for _ in range(count):
            tool.call(name, {argument: LINE})
        return count

    def here() -> int:
        for _ in range(count):
            execute(LINE)
        return count

    value = cost(ours, rounds, time.perf_counter)
    show("python-tool", value, "µs", "exec in this process", cost(here, rounds, time.perf_counter))
    manager, client = start_new_kernel(kernel_name="python3")

    def kernel() -> int:
        for _ in range(5):
            client.execute_interactive(LINE, output_hook=lambda _message: None)
        return 5

    kernel()
    show("python-tool-kernel", value, "µs", "ipykernel", cost(kernel, rounds, time.perf_counter))
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def rewards(rounds: int) -> None:
    """512 completions, scored by a plugin and by the same function in Python."""
    reward = load("answer-match").reward()
    messages, wanted, matches = zip(*answer_match.CASES, strict=True)
    assert reward(completions=messages, answer=wanted) == list(matches)
    assert [answer_match.score(*pair) for pair in zip(messages, wanted, strict=True)] == list(matches)
    prompts, answers = ["2+2?"] * 512, [str(number) for number in range(512)]
    completions = [f"The answer is {number % 300}." for number in range(512)]
    pairs = list(zip(completions, answers, strict=True))
    expected = [answer_match.score(*pair) for pair in pairs]
    assert reward(prompts=prompts, completions=completions, answer=answers) == expected

    def ours() -> int:
        reward(prompts=prompts, completions=completions, answer=answers)
        return 512

    def function() -> int:
        for completion, answer in pairs:
            answer_match.score(completion, answer)
        return 512

    value = cost(ours, rounds, time.perf_counter)
    show("python-reward", value, "µs", "the same function in Python", cost(function, rounds, time.perf_counter))


def resident_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1000


def memory(count: int) -> None:
    """Memory of live environments."""
    lake, their_before = load("frozen-lake"), resident_kb()
    theirs = [gymnasium.make("FrozenLake-v1") for _ in range(count)]
    for their in theirs:
        their.reset()
    before = resident_kb()
    envs = [lake.env(seed=seed) for seed in range(count)]
    for env in envs:
        env.reset()
    value = (resident_kb() - before) / count
    show("python-live-environment", value, "KB", "Gymnasium's FrozenLake", max((before - their_before) / count, 0.001))


def imports(rounds: int) -> None:
    """Time of `import gymkhana_rl` in a new process."""
    program = "import time; since = time.perf_counter(); import gymkhana_rl; print(time.perf_counter() - since)"
    run = [sys.executable, "-c", program]
    measured = [float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(rounds)]
    show("python-import", median(measured) * 1e3, "ms", "the limit", LIMIT_OF_IMPORTS_MS)


def verifiers(tasks: int) -> None:
    """An episode of verifiers in the package's harness, beside verifiers' own; skipped without its environment or `uv`."""
    python = ROOT / ".tools/adapters/bin/python"
    if not python.exists():
        print("bench python-verifiers-episode: skipped: the adapters' frameworks are not installed", file=sys.stderr)
        print("hint: run `cargo xtask test --reference python`, which installs them", file=sys.stderr)
        return
    if shutil.which("uv") is None:
        print("bench python-verifiers-episode: skipped: `uv`, which starts verifiers' harness, is missing", file=sys.stderr)
        print("hint: run `pip install uv`", file=sys.stderr)
        return
    program = [python, Path(__file__).with_name("verifiers_episode.py"), str(tasks)]
    # The package that this program imports.
    subprocess.run(program, check=True, env={**os.environ, "PYTHONPATH": str(Path(gk.__file__).parents[1])})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="run one round only")
    smoke = parser.parse_args().smoke
    rounds, count = (1, 20) if smoke else (11, 2000)
    memory(10 if smoke else 1000)
    steps(rounds, count)
    tools(rounds, 5 if smoke else 50)
    rewards(rounds)
    imports(rounds)
    verifiers(1 if smoke else 3)


main()
