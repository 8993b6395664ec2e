"""Trains SmolLM2-135M-Instruct on word problems with a calculator, and on maps of frozen lakes.

    python3 studies/pretrained.py HOST PLUGINS OUT [--seeds 1,2,3] [--arms A,..]

HOST is the program `host`, PLUGINS the folder with its plugins (`target/plugins`), OUT a folder for runs. The model is
expected in `out/models/smollm2-135m-instruct`, where `cargo xtask demo --pretrained` puts it. Finished runs are kept and
not repeated. Prints one line of JSON per run; needs the standard library only.
"""

import argparse
import json
import pathlib
import resource
import subprocess

HERE = pathlib.Path(__file__).parent
CALCULATOR = HERE.parent / "examples/runs/pretrained.toml"
LAKE = HERE / "pretrained/frozen-lake.toml"
STORIES = ["word-problems", "calculator", "answer-match"]
SHUFFLED = ["--set", "stages.rl.shuffle_rewards=true"]
# Run file, plugins and overrides, by arm.
ARMS: dict[str, tuple[pathlib.Path, list[str], list[str]]] = {
    "calculator": (CALCULATOR, STORIES, []),
    "calculator, rewards shuffled": (CALCULATOR, STORIES, SHUFFLED),
    "no calculator": (CALCULATOR, ["word-problems", "answer-match"], ["--set", "plugins.calculator.use=off"]),
    "frozen-lake": (LAKE, ["frozen-lake"], []),
    "frozen-lake, rewards shuffled": (LAKE, ["frozen-lake"], SHUFFLED),
}


def successes(folder: pathlib.Path) -> dict[str, list[float]]:
    """Greedy and sampled success at the start and after each stage."""
    stages = json.loads((folder / "summary.json").read_text())["stages"]
    return {
        kind: [stages[0][f"success_before{suffix}"], *(stage[f"success_after{suffix}"] for stage in stages)]
        for kind, suffix in (("greedy", ""), ("sampled", "_sampled"))
    }


def run(arguments: argparse.Namespace, name: str, seed: int) -> dict[str, object]:
    file, plugins, overrides = ARMS[name]
    folder = arguments.out / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    if not (folder / "summary.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = ",".join(str(arguments.plugins / f"{plugin}.wasm") for plugin in plugins)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ["run", file, "--plugins", files, "--out", folder, "--set", f"seed={seed}", *overrides]
        with folder.with_name(folder.name + ".log").open("w") as log:
            subprocess.run([arguments.host, *map(str, words)], stderr=log, stdout=log, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        costs = {"processor_seconds": round(seconds), "peak_mib": after.ru_maxrss // 1024}
        folder.with_name(folder.name + ".costs.json").write_text(json.dumps(costs))
    costs = json.loads(folder.with_name(folder.name + ".costs.json").read_text())
    return {"arm": name, "seed": seed} | successes(folder) | costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--arms", default=None, help="separated by semicolons; by default all")
    arguments = parser.parse_args()
    for name in arguments.arms.split(";") if arguments.arms else ARMS:
        for seed in map(int, arguments.seeds.split(",")):
            print(json.dumps(run(arguments, name, seed)), flush=True)


main()
