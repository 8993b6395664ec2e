"""Plays a run in one process, then by four workers of which random ones are killed, and compares both.

    python3 studies/workers.py HOST PLUGINS [--seed N] > transcript.txt

HOST is the program `host`, PLUGINS the folder with its plugins (`target/plugins`). Needs `nats-server` and nothing but
the standard library. Prints the commands, their output, each kill, and what both runs recorded; exits with 1 if they
differ.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

RUN = """\
seed = 1
deterministic = true
success = "answer-match.correct"
limits = { turns = 3, reply_tokens = 32 }
evaluation = { tasks = 4 }

[policy]
max_concurrent_sequences = 16
tiny = { layers = 1, width = 32, heads = 2, kv_heads = 2, mlp = 96, context = 320 }

[plugins.answer-match]
options = { per-call-cost = 0.5 }

[[stages]]
kind = "sft"
steps = 4
batch = 8

[[stages]]
kind = "rl"
steps = 20
groups = 8
group_size = 4
optimizer = { learning_rate = 1e-3 }
"""
PLUGINS = ["word-problems", "calculator", "answer-match"]
WORKERS = 4
KILLS = 8
# Training steps of both stages.
STEPS = 24


def say(line: str = "") -> None:
    print(line, flush=True)


class Desk:
    """A working folder with a run file, and the program."""

    def __init__(self, folder: pathlib.Path, host: str, plugins: pathlib.Path) -> None:
        self.folder = folder
        self.host = host
        (folder / "run.toml").write_text(RUN)
        (folder / "plugins").symlink_to(plugins)
        self.plugins = ",".join(f"plugins/{name}.wasm" for name in PLUGINS)

    def start(self, arguments: list[str], log: str, *, shown: bool = True) -> subprocess.Popen[bytes]:
        if shown:
            say(f"$ {shlex.join(['host', *arguments])}")
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(
                [self.host, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def show(self, log: str) -> None:
        say((self.folder / log).read_text().rstrip())

    def run(self, out: str, *more: str) -> list[str]:
        return ["run", "run.toml", "--plugins", self.plugins, "--out", out, *more]

    def steps(self, out: str) -> int:
        try:
            return len((self.folder / out / "metrics.jsonl").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def counts(self, out: str) -> dict[str, object]:
        """What a run recorded: all that does not depend on the clock."""
        folder = self.folder / out
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            del line["time"]
            line["values"] = {k: v for k, v in line["values"].items() if not k.startswith("seconds")}
        weights = hashlib.sha256()
        for path in sorted((folder / "checkpoints").rglob("*.safetensors")):
            weights.update(path.read_bytes())
        summary = json.loads((folder / "summary.json").read_text())
        replayed = subprocess.run([self.host, "replay", out], cwd=self.folder, capture_output=True, text=True)
        return {
            "episodes trained on": sum(stage["episodes"] for stage in summary["stages"]),
            "tokens trained on": sum(stage["tokens"] for stage in summary["stages"]),
            "training steps": len(lines),
            "metrics (SHA-256)": hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16],
            "weights (SHA-256)": weights.hexdigest()[:16],
            "host replay": (replayed.stdout or replayed.stderr).strip(),
        }


def start_bus(folder: pathlib.Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("nats-server", path=f".tools/servers:{os.environ.get('PATH', '')}")
    if program is None:
        sys.exit("nats-server is missing\nhint: run `cargo xtask setup`, which fetches it, and start in the repository")
    say(f"$ nats-server --jetstream --addr 127.0.0.1 --port {port} --store_dir bus")
    arguments = ["--jetstream", "--addr", "127.0.0.1", "--port", str(port), "--store_dir", str(folder / "bus")]
    bus = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return bus, f"nats://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.02)


def play_with_kills(desk: Desk, url: str, stream: random.Random) -> int:
    """Plays the run by workers; returns the exit status of the trainer."""
    since = time.monotonic()
    worker = ["worker", url, "--once", "--groups", "2", "--cache", "cache"]
    workers = [desk.start(worker, f"worker-{number}.log") for number in range(WORKERS)]
    trainer = desk.start(desk.run("by-workers", "--workers", url, "--lease", "2"), "trainer.log")
    moments = sorted(stream.sample(range(1, STEPS), KILLS))
    for number, step in enumerate(moments, start=1):
        while trainer.poll() is None and desk.steps("by-workers") < step:
            time.sleep(0.005)
        # Somewhere within the step.
        time.sleep(stream.uniform(0, 0.3))
        if trainer.poll() is not None:
            break
        chosen = stream.randrange(WORKERS)
        workers[chosen].kill()
        workers[chosen].wait()
        at = f"{time.monotonic() - since:.1f} s, after {desk.steps('by-workers')} steps"
        say(f"# {at}: worker {chosen} is killed with SIGKILL, and another one started in its place")
        workers[chosen] = desk.start(worker, f"worker-{chosen}-{number}.log", shown=False)
    status = trainer.wait()
    desk.show("trainer.log")
    for process in workers:
        process.wait()
    for log in sorted(desk.folder.glob("worker-*.log")):
        played = [line for line in log.read_text().splitlines() if line.startswith("played ")]
        say(f"# {log.stem}: {played[0] if played else 'killed'}")
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", type=pathlib.Path)
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        desk = Desk(pathlib.Path(name), str(arguments.host.resolve()), arguments.plugins.resolve())
        say("$ cat run.toml")
        say(RUN)
        alone = desk.start(desk.run("alone"), "alone.log")
        if alone.wait() != 0:
            desk.show("alone.log")
            sys.exit("the run in one process failed")
        desk.show("alone.log")
        say()
        bus, url = start_bus(desk.folder)
        try:
            status = play_with_kills(desk, url, random.Random(arguments.seed))
        finally:
            bus.kill()
            bus.wait()
        if status != 0:
            sys.exit(f"the trainer failed with status {status}")
        say()
        one, other = desk.counts("alone"), desk.counts("by-workers")
        say("| recorded | in one process | by workers with kills |")
        say("| --- | --- | --- |")
        for key, value in one.items():
            say(f"| {key} | {value} | {other[key]} |")
        sys.exit(0 if one == other else 1)


if __name__ == "__main__":
    main()
