#!/usr/bin/env python3
"""All checks that need a large Python installation: run.py --repo ROOT. Stops with an error at the first failure."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-5


def near(left, right, where, scale=0.0):
    """Compares two JSON values. Numbers may differ by rounding errors between machines, relative to themselves or to the
    largest number of their list, `scale`: sums that cancel keep the errors of their terms."""
    assert type(left) is type(right), where
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            near(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list):
        assert len(left) == len(right), where
        scale = max((abs(item) for item in left if isinstance(item, float)), default=0.0)
        for index, (one, other) in enumerate(zip(left, right)):
            near(one, other, f"{where}[{index}]", scale)
    elif isinstance(left, float):
        assert abs(left - right) <= TOLERANCE * max(abs(left), scale), f"{where}: {left} is not {right}"
    else:
        assert left == right, f"{where}: {left!r} is not {right!r}"


def comparison_is_relative():
    """Checks `near` itself."""
    near([1e-4, 1.0], [1.0e-4 + 1e-6, 1.0], "small beside others")
    for left, right in [(1e-4, 1.001e-4), ([1e-4], [1.001e-4]), (2.0, 2.1), (0.0, 1e-9), ({"a": 1.0}, {"a": -1.0})]:
        try:
            near(left, right, "different")
        except AssertionError:
            continue
        raise AssertionError(f"{left} was taken for {right}")


def goldens_are_current(repo, scratch):
    """Checks that the programs in this folder reproduce the committed golden files."""
    comparison_is_relative()
    programs = ("make_training_goldens.py", "make_algorithm_goldens.py", "make_step_goldens.py", "make_model_goldens.py",
                "make_sampling_goldens.py", "make_chat_goldens.py", "make_kuhn_goldens.py", "make_reward_goldens.py",
                "make_math_goldens.py", "make_template_goldens.py", "make_gguf_goldens.py")
    for program in programs:
        subprocess.run([sys.executable, HERE / program, scratch], check=True)
    for made in sorted(scratch.rglob("*.json")):
        committed = repo / "tests" / "golden" / made.relative_to(scratch)
        if made.name.startswith("golden") or made.parent == scratch or made.name == "language.json":
            near(json.loads(committed.read_text()), json.loads(made.read_text()), str(made.relative_to(scratch)))
    for made in sorted((scratch / "gguf").glob("*.gguf")):
        assert made.read_bytes() == (repo / "tests" / "golden" / "gguf" / made.name).read_bytes(), made.name
    print("golden files are current")


def checkpoints_load(repo, scratch):
    """Checks that transformers loads the trainer's checkpoints of every family."""
    # The whole workspace, like the build of the tests, so that cargo unites the same features.
    build = ["cargo", "build", "--quiet", "--release", "--workspace", "--example", "write_checkpoint"]
    subprocess.run(build, check=True, cwd=repo)
    goldens = sorted(path.parent for path in (repo / "tests" / "golden").glob("*/golden.safetensors"))
    for number, begun in enumerate([None, *goldens]):
        folder, logits = scratch / f"checkpoint-{number}", scratch / f"logits-{number}.safetensors"
        write = [repo / "target" / "release" / "examples" / "write_checkpoint", folder, logits]
        subprocess.run(write + [begun] * (begun is not None), check=True, cwd=repo)
        check = [sys.executable, HERE / "check_checkpoint.py", folder, logits]
        subprocess.run(check + ["tiny"] * (begun is None), check=True)
    for number, begun in enumerate(goldens):
        folder, logits = scratch / f"adapted-{number}", scratch / f"adapted-logits-{number}.safetensors"
        write = [repo / "target" / "release" / "examples" / "write_checkpoint", folder, logits, begun, "adapted"]
        subprocess.run(write, check=True, cwd=repo)
        subprocess.run([sys.executable, HERE / "check_checkpoint.py", folder, logits, begun], check=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repo", type=pathlib.Path, default=HERE.parent.parent)
    repo = arguments.parse_args().repo.resolve()
    with tempfile.TemporaryDirectory() as folder:
        goldens_are_current(repo, pathlib.Path(folder) / "golden")
        checkpoints_load(repo, pathlib.Path(folder))
