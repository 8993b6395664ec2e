"""Runs of the host whose policy the processes sample and train."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

REPO = pathlib.Path(__file__).parents[3]
PYTHON = REPO / "tests/reference/torch/python"
PAGE = REPO / "docs/how-to/train-on-many-gpus.md"
PLUGINS = ",".join(str(REPO / f"target/plugins/{name}.wasm") for name in ("frozen-lake", "turn-cost"))
LAKE = """
[environment]
options = { size = 4, slippery = false }
wrap = [{ plugin = "turn-cost", per = "token", price = 0.01 }]

[limits]
turns = 8
reply_tokens = 8

[evaluation]
tasks = 4

[[stages]]
kind = "sft"
steps = 12
batch = 8
optimizer = { learning_rate = 5e-3 }

[[stages]]
kind = "rl"
steps = 3
groups = 4
group_size = 4
optimizer = { learning_rate = 1e-3 }
"""
HEAD = 'seed = 1\nsuccess = "environment.success"\n[policy]\ncheckpoint = "{model}"\n'
TORCH = '[trainer]\nkind = "torch"\npython = "{python}"\nprocesses = {processes}\nstart_seconds = 300\n'


def host(folder, *arguments):
    command = [os.environ["GYMKHANA_HOST"], *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def write(folder, model, trainer):
    folder.mkdir(exist_ok=True)
    (folder / "run.toml").write_text(HEAD.format(model=model) + trainer + LAKE)
    return folder


def run(folder, *more):
    return host(folder, "run", "--plugins", PLUGINS, "run.toml", "--out", "out", *more)


def metrics(folder, stage):
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return [line["values"] for line in lines if line["stage"] == stage]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A byte-level model with random weights, as the host writes it."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "run.toml").write_text(
        'success = "environment.success"\n[policy]\ntiny = { layers = 2, width = 64, heads = 4, kv_heads = 2, mlp = 128, '
        'context = 512 }\n[evaluation]\ntasks = 1\n[[stages]]\nkind = "sft"\nsteps = 1\nbatch = 1\n'
    )
    plugin = REPO / "target/plugins/frozen-lake.wasm"
    host(folder, "run", "--plugins", str(plugin), "run.toml", "--out", "out").check_returncode()
    return folder / "out/checkpoints/0-000001"


def torch(processes):
    return TORCH.format(python=PYTHON, processes=processes)


@pytest.fixture(scope="session")
def runs(tmp_path_factory, model):
    """The same run by the built-in trainer, and by one and two processes of PyTorch."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for name, trainer in {"own": "", "one": torch(1), "two": torch(2)}.items():
        found[name] = write(folder / name, model, trainer)
        finished = run(found[name])
        assert finished.returncode == 0, finished.stderr
    return found


def test_supervised_steps_are_those_of_the_built_in_trainer(runs):
    own = metrics(runs["own"], 0)
    for name in ("one", "two"):
        for expected, step in zip(own, metrics(runs[name], 0), strict=True):
            assert step["tokens"] == expected["tokens"]
            for key in ("loss", "gradient_norm"):
                assert abs(step[key] - expected[key]) < 1e-3 * expected[key], (name, key, expected, step)
    assert own[-1]["loss"] < 0.7 * own[0]["loss"], own


def test_what_the_processes_sample_is_what_they_train_on(runs):
    for name in ("one", "two"):
        learnt = metrics(runs[name], 1)
        assert sum(step["updates"] for step in learnt) >= 2, learnt
        assert all(step["on_policy_divergence"] < 1e-8 for step in learnt if step["updates"]), learnt
        # The bound on a step holds, as in the built-in trainer.
        assert all(step["step_divergence"] > 0 for step in learnt if step["updates"]), learnt
        replayed = host(runs[name], "replay", "out")
        assert replayed.returncode == 0 and "every byte equal" in replayed.stdout, replayed


def test_a_checkpoint_opens_in_transformers_and_in_the_built_in_trainer(runs):
    import transformers

    folder = runs["two"] / "out/checkpoints/1-000003"
    transformers.AutoModelForCausalLM.from_pretrained(folder)
    own = write(runs["two"] / "own", folder, "")
    again = run(own, "--set", "stages.sft.steps=1", "--set", "stages.rl.steps=1")
    assert again.returncode == 0, again.stderr
    # The first supervised loss is that of a trained model.
    assert metrics(own, 0)[0]["loss"] < metrics(runs["two"], 0)[0]["loss"], metrics(own, 0)


def ranks(program):
    """Process numbers of the ranks below a process."""
    children = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in children.splitlines()[1:]]
    below, found = {str(program)}, []
    for _ in range(4):
        below |= {pid for pid, parent, _ in rows if parent in below}
    for pid, _, arguments in rows:
        if pid in below and "launch.py" in arguments and "torch.distributed.run" not in arguments:
            found.append(int(pid))
    return found


def test_a_killed_rank_ends_the_run_which_goes_on_with_another_number(tmp_path, model, runs):
    folder = write(tmp_path / "killed", model, torch(2))
    command = [os.environ["GYMKHANA_HOST"], "run", "--plugins", PLUGINS, "run.toml", "--out", "out"]
    command += ["--set", "stages.sft.steps=40", "--set", "stages.sft.checkpoint_every=5"]
    started = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not list(folder.glob("out/checkpoints/0-0000*")):
        assert time.monotonic() < deadline and started.poll() is None, started.communicate()
        time.sleep(0.2)
    found = ranks(started.pid)
    assert len(found) == 2, found
    os.kill(found[-1], signal.SIGKILL)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 2 and "PyTorch cannot go on" in said and "--resume" in said, said
    assert not ranks(started.pid)
    resumed = host(folder, "run", "--resume", "out", "--set", "trainer.processes=1")
    assert resumed.returncode == 0, resumed.stderr
    assert len(metrics(folder, 1)) == 3


def test_the_pages_file_runs_on_two_processes_of_the_cpu(tmp_path, model):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for old, new in {
        '"models/Qwen3-8B"': f'"{model}"', '"cuda"': '"cpu"', '"bfloat16"': '"float32"',
        "processes = 8": f'processes = 2\npython = "{PYTHON}"',
    }.items():
        assert old in text, text
        text = text.replace(old, new)
    (tmp_path / "run.toml").write_text('success = "environment.success"\n' + text + LAKE)
    finished = run(tmp_path, "--set", "stages.sft.steps=2", "--set", "stages.rl.steps=1")
    assert finished.returncode == 0, finished.stderr
