"""SFT and RL on word problems with the calculator: resume, replay, and an export that transformers opens."""
import pathlib
import signal
import time

import generation
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer


PLUGINS = pathlib.Path(__file__).parents[3] / "target/plugins"
NAMES = ["word-problems", "calculator", "answer-match"]
SFT = """
[[stages]]
kind = "sft"
steps = 8
batch = 4
checkpoint_every = 4
optimizer = { learning_rate = 1e-4, warmup_steps = 0 }
"""
RL = """
[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 4
optimizer = { learning_rate = 1e-5, warmup_steps = 0 }
"""
RUN = """seed = 1
threads = 2
success = "answer-match.correct"

[policy]
checkpoint = "model"
max_concurrent_sequences = 8

[environment]
options = {{ difficulty = 1 }}

# Calls cost points, so that rewards of failed episodes vary.
[plugins.answer-match]
options = {{ per-call-cost = 0.5 }}

[limits]
turns = 3
reply_tokens = 48
context_tokens = 640

[evaluation]
tasks = 2
{stages}"""
# Two threads add in another order than one would.
TOLERANCE = 1e-6
SECONDS = 900


def plugins():
    return ["--plugins", ",".join(str(PLUGINS / f"{name}.wasm") for name in NAMES)]


def interrupted(host, out):
    """A run that is stopped after its first checkpoint, and resumed."""
    process = host.start("run", "both.toml", "--out", out, *plugins())
    try:
        for _ in range(SECONDS):
            assert process.poll() is None, process.stderr.read()
            if (out / "checkpoints/0-000004").is_dir():
                break
            time.sleep(1)
        process.send_signal(signal.SIGINT)
        talk = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 130, talk
    finally:
        process.kill()
    assert not (out / "checkpoints/1-000002").exists(), "the run was not interrupted"
    host.run("run", "--resume", out, *plugins())


def check(host, folder):
    """A run in one piece, and one in two."""
    for name, stages in [("sft", SFT), ("both", SFT + RL)]:
        (host.folder / f"{name}.toml").write_text(RUN.format(stages=stages))
    whole, resumed = host.folder / "whole", host.folder / "resumed"
    host.run("run", "sft.toml", "--out", whole, *plugins())
    interrupted(host, resumed)
    begun = load_file(folder / "model.safetensors")
    one, two = (load_file(out / "checkpoints/0-000008/model.safetensors") for out in (whole, resumed))
    moved = max((one[name] - begun[name]).abs().max().item() for name in one)
    difference = max((one[name] - two[name]).abs().max().item() for name in one)
    assert moved > 10 * TOLERANCE and difference <= TOLERANCE, f"weights moved by {moved}, and differ by {difference}"
    print(f"training: SFT moved weights by up to {moved:.1e}; a resumed run differs by up to {difference:.1e}")
    host.run("replay", resumed)
    exported = host.folder / "exported"
    host.run("export", resumed / "checkpoints/1-000002", exported)
    model, info = AutoModelForCausalLM.from_pretrained(exported, output_loading_info=True, dtype=torch.float32)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    trained = load_file(exported / "model.safetensors")
    assert max((trained[name] - two[name]).abs().max().item() for name in two) > 0, "RL changed nothing"
    generation.compare(host, exported, model.eval(), AutoTokenizer.from_pretrained(exported), "What is 6*7?")
    print("training: replay, resume and export agree")
