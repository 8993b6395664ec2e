"""Measures how much reinforcement learning loses or gains on worlds that a policy has nearly solved.

    python3 studies/holding.py HOST PLUGINS OUT [--worlds W,..] [--seeds N] [--arms A,..] [--steps N]

HOST is the program `host`, PLUGINS the folder with its plugins (`target/plugins`), OUT a folder for runs. A supervised
stage for each world and seed makes the start; every arm trains from it. Finished runs are kept and not repeated.
Success is sampled at temperature 1 on held-out tasks. Prints one line per run and a table; needs the standard library
only.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent / "holding"
WORLDS = {
    "word-problems": ["word-problems", "calculator", "answer-match"],
    "booking": ["booking"],
    "frozen-lake": ["frozen-lake"],
}
TASKS, SAMPLES = 200, 3
GRPO_KL = '{ beta = BETA, estimator = "k3", place = "loss" }'


def rl_stage(steps: int, groups: int = 8) -> str:
    return (
        f'[[stages]]\nkind = "rl"\nalgorithm = "loop"\nsteps = {steps}\ngroups = {groups}\ngroup_size = 8\n'
        f"checkpoint_every = {steps}\n"
    )


def rate(learning_rate: float, bound: float = 0.0, **more: object) -> dict[str, str]:
    """Overrides of the optimiser, and of the bound on the divergence of a step; 0 for none."""
    keys = {"learning_rate": learning_rate, "warmup_steps": 0, "beta2": 0.95} | more
    of_optimizer = {f"stages.rl.optimizer.{key}": str(value) for key, value in keys.items()}
    return of_optimizer | {"stages.rl.step_divergence": str(bound)}


def flags(**values: str) -> dict[str, str]:
    return {f"stages.rl.settings.{key}": value for key, value in values.items()}


def kl(beta: float) -> dict[str, str]:
    return flags(kl=GRPO_KL.replace("BETA", str(beta)))


def algorithm(name: str) -> dict[str, str]:
    return {"stages.rl.algorithm": f'"{name}"'}


CLIP_HIGHER = flags(surrogate='{ kind = "clip", low = 0.2, high = 0.28 }')
SEQUENCE = flags(aggregation='"sequence"')
# The RL stage of the demo, with twice the groups of the other arms.
DEMO: dict[str, object] = {
    "warmup_steps": 4,
    "schedule": '"cosine"',
    "total_steps": 22,
    "beta2": 0.98,
    "groups": '[{ of = ["embeddings"], rate = 0.2 }, { of = ["norms", "biases"], rate = 3.0 }]',
}
# Overrides of the RL stage, by arm. "4e-4" is the stage of the tutorials.
ARMS: dict[str, dict[str, str]] = {
    "4e-4": rate(4e-4),
    "2e-4": rate(2e-4),
    "1e-4": rate(1e-4),
    "5e-5": rate(5e-5),
    "4e-4 warmup 10": rate(4e-4, warmup_steps=10),
    "1e-4 warmup 10": rate(1e-4, warmup_steps=10),
    "4e-4 beta2 0.999": rate(4e-4, beta2=0.999),
    "4e-4 clip 0.05": rate(4e-4, gradient_clip=0.05),
    "4e-4 kl 0.04": rate(4e-4) | kl(0.04),
    "4e-4 kl 0.2": rate(4e-4) | kl(0.2),
    "4e-4 kl 1": rate(4e-4) | kl(1.0),
    "4e-4 sequence": rate(4e-4) | SEQUENCE,
    "4e-4 constant": rate(4e-4) | flags(aggregation='"constant"', constant_tokens="64"),
    "4e-4 group-std": rate(4e-4) | flags(scale='"group-std"'),
    "4e-4 clip-higher 4 minibatches": rate(4e-4) | CLIP_HIGHER | flags(minibatches="4"),
    "4e-4 positive only": rate(4e-4) | flags(advantage_clip="{ low = 0.0, high = 10.0 }"),
    "4e-4 half negative": rate(4e-4) | flags(advantage_clip="{ low = -0.25, high = 10.0 }"),
    "4e-4 no malformed": rate(4e-4) | {"limits.early_stop.failed_calls": "1"},
    "4e-4 32 groups": rate(4e-4) | {"stages.rl.groups": "32", "stages.rl.steps": "5"},
    "4e-4 dynamic": rate(4e-4) | {"stages.rl.dynamic_sampling.max_rounds": "3"},
    "4e-4 shuffled": rate(4e-4) | {"stages.rl.shuffle_rewards": "true"},
    "1e-4 shuffled": rate(1e-4) | {"stages.rl.shuffle_rewards": "true"},
    # A weight too small to matter, so that the divergence from the start is measured.
    "4e-4 bound 3e-4": rate(4e-4, bound=3e-4),
    "1e-4 bound 3e-4": rate(1e-4, bound=3e-4),
    "4e-4 bound 1e-4": rate(4e-4, bound=1e-4),
    "4e-4 bound 4e-5": rate(4e-4, bound=4e-5),
    "4e-4 bound 1e-3": rate(4e-4, bound=1e-3),
    "demo": rate(6e-4, **DEMO) | {"stages.rl.groups": "16"},
    "demo bound 3e-4": rate(6e-4, bound=3e-4, **DEMO) | {"stages.rl.groups": "16"},
    "4e-4 measured": rate(4e-4) | kl(1e-9),
    "1e-4 measured": rate(1e-4) | kl(1e-9),
    "4e-4 simpletir": rate(4e-4) | algorithm("simpletir"),
    "4e-4 grpo": rate(4e-4) | algorithm("grpo"),
    "4e-4 ppo": rate(4e-4) | algorithm("ppo"),
}


def beside(path: pathlib.Path, suffix: str) -> pathlib.Path:
    return path.with_name(path.name + suffix)


class Study:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.host, self.out, self.steps = arguments.host, arguments.out, arguments.steps
        self.plugins = arguments.plugins

    def call(self, *words: object, log: pathlib.Path) -> str:
        found = subprocess.run([self.host, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        log.write_text(found.stdout + found.stderr)
        if found.returncode:
            raise SystemExit(f"`host {' '.join(map(str, words))}` failed: see {log}")
        return found.stdout

    def start(self, world: str, seed: int) -> pathlib.Path:
        """Folder of the checkpoint after the supervised stage."""
        folder = self.out / world / f"start-{seed}"
        if not (folder / "summary.json").exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            self.call("run", HERE / f"{world}.toml", *self.plugins_of(world), "--out", folder, "--set", f"seed={seed}",
                      log=beside(folder, ".log"))
        return sorted((folder / "checkpoints").iterdir())[-1]

    def plugins_of(self, world: str) -> list[str]:
        return ["--plugins", ",".join(str(self.plugins / f"{name}.wasm") for name in WORLDS[world])]

    def success(self, world: str, model: pathlib.Path, log: pathlib.Path) -> float:
        """Sampled success on held-out tasks, from 0 to 1; measured once."""
        if not log.exists():
            of_tasks = ["--tasks", TASKS, "--samples", SAMPLES, "--json"]
            text = self.call(
                "eval", model, HERE / f"{world}.toml", *self.plugins_of(world), *of_tasks, log=beside(log, ".log")
            )
            log.write_text(text)
        return json.loads(log.read_text())["success"]

    def arm(self, world: str, seed: int, name: str, overrides: dict[str, str]) -> dict[str, object]:
        model = self.start(world, seed)
        before = self.success(world, model, self.out / world / f"start-{seed}.eval.json")
        folder = self.play(world, model, self.out / world / f"{name.replace(' ', '_')}-{seed}", seed + 100, overrides)
        end = sorted((folder / "checkpoints").iterdir())[-1]
        after = self.success(world, end, beside(folder, ".eval.json"))
        return {"world": world, "seed": seed, "arm": name, "before": before, "after": after} | figures(folder)

    def play(
        self, world: str, model: pathlib.Path, folder: pathlib.Path, seed: int, overrides: dict[str, str]
    ) -> pathlib.Path:
        """Folder of a run of the RL stage that starts from a model."""
        if not (folder / "summary.json").exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            file = beside(folder, ".toml")
            head = (HERE / f"{world}.toml").read_text().split("[[stages]]")[0].splitlines()
            lines = [f'checkpoint = "{model}"' if line.startswith("tiny = ") else line for line in head]
            file.write_text("\n".join(lines) + "\n" + rl_stage(self.steps))
            sets = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
            self.call("run", file, *self.plugins_of(world), "--out", folder, "--set", f"seed={seed}", *sets,
                      log=beside(folder, ".log"))
        return folder


def figures(folder: pathlib.Path) -> dict[str, float]:
    """Means of a run's metrics over its steps, and the lowest success of a step."""
    rows = [json.loads(line)["values"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    keys = ("entropy", "gradient_norm", "clip_fraction", "updates", "malformed_calls")
    means = {key: statistics.fmean(row.get(key) or 0.0 for row in rows) for key in keys}
    return means | {"lowest": min(row["success"] for row in rows)}


def table(rows: list[dict[str, object]]) -> None:
    print("\n| world | arm | before, by seed | after, by seed | mean change |\n| --- | --- | --- | --- | --- |")
    for world, arm in dict.fromkeys((row["world"], row["arm"]) for row in rows):
        own = [row for row in rows if (row["world"], row["arm"]) == (world, arm)]
        shown = [", ".join(f"{100 * row[key]:.1f}" for row in own) for key in ("before", "after")]
        change = statistics.fmean(100 * (row["after"] - row["before"]) for row in own)
        print(f"| {world} | {arm} | {shown[0]} | {shown[1]} | {change:+.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host")
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", default="1", help="seeds, such as 1,2,3")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    study, rows = Study(arguments), []
    for seed in map(int, arguments.seeds.split(",")):
        for world in arguments.worlds.split(","):
            for name in filter(None, arguments.arms.split(",")):
                rows.append(study.arm(world, seed, name, ARMS[name]))
                print(json.dumps(rows[-1]), flush=True)
    table(rows)


if __name__ == "__main__":
    main()
