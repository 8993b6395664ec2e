"""Trains as studies/holding.py does, with the updates in plain PyTorch and transformers.

    python3 studies/holding_torch.py HOST PLUGINS OUT WORLD SEED --loss grpo|loop|ppo [--rate R] [--steps N]

The host only plays: each step it starts from the current weights, takes one step of a learning rate of 1e-30, and
leaves its episodes. This program reads them and updates the weights. OUT holds the starts of studies/holding.py. Needs
torch, transformers, safetensors and pyarrow. Prints one line per step, and success on held-out tasks before and after.

`loop` is REINFORCE with a leave-one-out baseline and the mean over all tokens. `grpo` divides by the group's deviation,
takes the mean of means over episodes, and adds 0.04 of the k3 divergence from the start. `ppo` has a critic with its
own weights, GAE with lambda 0.95, whitened advantages and four minibatches. All clip ratios to 0.8 and 1.2.
"""

import argparse
import json
import pathlib
import shutil

import pyarrow.parquet
import torch
from holding import Study, rate
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]


def episodes(run: pathlib.Path) -> list[dict]:
    """Training episodes of a run, all of one seat."""
    columns = ["phase", "group", "reward", "tokens", "sampled", "log_probs", "segment_ends"]
    rows = [row for part in sorted(run.glob("episodes/part-*.parquet"))
            for row in pyarrow.parquet.read_table(part, columns=columns).to_pylist()]
    return [row for row in rows if row["phase"] == "train"]


def segments(rows: list[dict]) -> list[dict]:
    """Sequences of the episodes, each with the index of its episode."""
    found = []
    for episode, row in enumerate(rows):
        for begin, end in zip([0, *row["segment_ends"]], row["segment_ends"], strict=False):
            columns = {key: row[key][begin:end] for key in ("tokens", "sampled", "log_probs")}
            found.append(columns | {"episode": episode})
    return found


def padded(rows: list[dict], key: str, kind: torch.dtype) -> torch.Tensor:
    columns = [torch.tensor(row[key], dtype=kind) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(columns, batch_first=True)


class Batch:
    def __init__(self, rows: list[dict]) -> None:
        own = segments(rows)
        self.tokens_BT = padded(own, "tokens", torch.long)
        self.mask_BT = padded(own, "sampled", torch.float)[:, 1:]
        self.old_BT = padded(own, "log_probs", torch.float)[:, 1:]
        self.count(rows)
        # Figures of an episode belong to each of its sequences.
        episode_B = torch.tensor([segment["episode"] for segment in own])
        for key in ("rewards_B", "mean_B", "leave_one_out_B", "std_B"):
            setattr(self, key, getattr(self, key)[episode_B])

    def count(self, rows: list[dict]) -> None:
        """Statistics of each episode's group."""
        self.rewards_B = torch.tensor([row["reward"] for row in rows])
        groups = torch.tensor([row["group"] for row in rows])
        same_BB = (groups[:, None] == groups[None, :]).float()
        count_B = same_BB.sum(1)
        self.mean_B = same_BB @ self.rewards_B / count_B
        self.leave_one_out_B = (same_BB @ self.rewards_B - self.rewards_B) / (count_B - 1)
        self.signal = self.rewards_B.ne(self.mean_B).float().mean().item()
        deviations_BB = same_BB * (self.rewards_B[None, :] - self.mean_B[:, None]) ** 2
        self.std_B = (deviations_BB.sum(1) / (count_B - 1)).sqrt()

    def part(self, rows: torch.Tensor) -> "Batch":
        part = object.__new__(Batch)
        part.__dict__ = {key: value if key == "signal" else value[rows] for key, value in self.__dict__.items()}
        return part


def log_probs(model: torch.nn.Module, tokens_BT: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=tokens_BT).logits[:, :-1]
    return torch.log_softmax(logits, -1).gather(-1, tokens_BT[:, 1:, None])[..., 0]


def load(folder: pathlib.Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


class Trainer:
    def __init__(
        self, folder: pathlib.Path, loss: str, learning_rate: float, warmup: int, by_signal: bool, max_kl: float
    ) -> None:
        self.model, self.loss, self.learning_rate, self.warmup = load(folder), loss, learning_rate, warmup
        parameters = self.model.parameters()
        self.optimizer = torch.optim.AdamW(parameters, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.reference = load(folder) if loss == "grpo" else None
        self.updates, self.steps, self.by_signal, self.max_kl = 0, 0, by_signal, max_kl
        self.moved: list[float] = []
        if loss == "ppo":
            self.critic = load(folder)
            self.critic.lm_head = torch.nn.Linear(self.critic.config.hidden_size, 1)
            torch.nn.init.zeros_(self.critic.lm_head.weight)
            self.critic_optimizer = torch.optim.AdamW(self.critic.parameters(), lr=1e-4, weight_decay=0.0)

    def step(self, batch: Batch) -> dict[str, float]:
        """One training step; returns the gradient's norm and the k3 divergence from the policy before it."""
        if self.loss == "ppo":
            norm = self.ppo(batch)
        elif self.loss == "grpo":
            advantages_B = (batch.rewards_B - batch.mean_B) / (batch.std_B + 1e-6)
            norm = self.update(batch, advantages_B[:, None].expand_as(batch.mask_BT))
        else:
            advantages_B = batch.rewards_B - batch.leave_one_out_B
            norm = self.update(batch, advantages_B[:, None].expand_as(batch.mask_BT))
        with torch.no_grad():
            moved_BT = log_probs(self.model, batch.tokens_BT) - batch.old_BT
        k3 = (((-moved_BT).exp() + moved_BT - 1) * batch.mask_BT).sum() / batch.mask_BT.sum()
        return {"gradient_norm": norm, "moved_kl": k3.item()}

    def update(self, batch: Batch, advantages_BT: torch.Tensor) -> float:
        new_BT = log_probs(self.model, batch.tokens_BT)
        ratio_BT = (new_BT - batch.old_BT).exp()
        losses_BT = -torch.minimum(ratio_BT * advantages_BT, ratio_BT.clamp(0.8, 1.2) * advantages_BT)
        if self.reference is not None:
            with torch.no_grad():
                difference_BT = log_probs(self.reference, batch.tokens_BT)
            difference_BT = difference_BT - new_BT
            losses_BT = losses_BT + 0.04 * (difference_BT.exp() - difference_BT - 1)
            loss = ((losses_BT * batch.mask_BT).sum(1) / batch.mask_BT.sum(1)).mean()
        else:
            loss = (losses_BT * batch.mask_BT).sum() / batch.mask_BT.sum()
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item()
        self.updates += 1
        share = batch.signal if self.by_signal else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = share * self.learning_rate * min(1.0, self.updates / max(1, self.warmup))
        if batch.signal > 0.0:
            before = [parameter.detach().clone() for parameter in self.model.parameters()]
            self.optimizer.step()
            self.shorten(batch, new_BT.detach(), before)
        return norm

    def shorten(self, batch: Batch, old_BT: torch.Tensor, before: list[torch.Tensor]) -> None:
        """Shortens the last step to `max_kl`, the mean of half the squared log-ratio over all tokens of the batch."""
        for _ in range(3):
            with torch.no_grad():
                moved_BT = log_probs(self.model, batch.tokens_BT) - old_BT
            kl = (moved_BT**2 / 2 * batch.mask_BT).sum().item() / batch.mask_BT.sum().item()
            self.moved.append(kl)
            if kl <= self.max_kl * 1.1:
                return
            for parameter, old in zip(self.model.parameters(), before, strict=True):
                parameter.data = old + (self.max_kl / kl) ** 0.5 * (parameter.data - old)

    def ppo(self, batch: Batch) -> float:
        with torch.no_grad():
            values_BT = self.values(batch)
        advantages_BT, targets_BT = self.gae(batch, values_BT)
        norms = []
        for rows in torch.randperm(len(batch.rewards_B)).chunk(4):
            part = batch.part(rows)
            errors_BT = (self.values(part) - targets_BT[rows]) ** 2 * part.mask_BT
            self.critic_optimizer.zero_grad()
            (errors_BT.sum() / part.mask_BT.sum()).backward()
            self.critic_optimizer.step()
            if self.steps >= 10:
                norms.append(self.update(part, advantages_BT[rows]))
        self.steps += 1
        return sum(norms) / max(1, len(norms))

    def values(self, batch: Batch) -> torch.Tensor:
        """Value before each token."""
        return self.critic(input_ids=batch.tokens_BT).logits[:, :-1, 0]

    @staticmethod
    def gae(batch: Batch, values_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        advantages_BT = torch.zeros_like(values_BT)
        for row, mask_T in enumerate(batch.mask_BT):
            later, value = 0.0, 0.0
            for place, token in enumerate(reversed(mask_T.nonzero()[:, 0].tolist())):
                reward = batch.rewards_B[row].item() if place == 0 else 0.0
                error = reward + value - values_BT[row, token].item()
                later = error + 0.95 * later
                advantages_BT[row, token], value = later, values_BT[row, token].item()
        targets_BT = advantages_BT + values_BT
        own = advantages_BT[batch.mask_BT.bool()]
        return (advantages_BT - own.mean()) / (own.std() + 1e-8), targets_BT


def save(trainer: Trainer, start: pathlib.Path, folder: pathlib.Path) -> None:
    """A model folder for the host: the start's files with other weights."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copy(start / name, folder)
    weights = {name: tensor.contiguous() for name, tensor in trainer.model.state_dict().items()}
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host")
    for name in ("plugins", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("world")
    parser.add_argument("seed", type=int)
    parser.add_argument("--loss", choices=["loop", "grpo", "ppo"], required=True)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--by-signal", action="store_true", help="scale the rate by the share of informative groups")
    parser.add_argument("--max-kl", type=float, default=float("inf"), help="divergence of a step, nats per token")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    study = Study(argparse.Namespace(**vars(arguments) | {"steps": 1}))
    start = study.start(arguments.world, arguments.seed)
    trainer = Trainer(
        start, arguments.loss, arguments.rate, arguments.warmup, arguments.by_signal, arguments.max_kl)
    scaled = ("-by-signal" if arguments.by_signal else "") + f"-{arguments.max_kl:g}".removesuffix("-inf")
    name = f"torch-{arguments.loss}-{arguments.rate:g}-{arguments.warmup}{scaled}-{arguments.seed}"
    folder = arguments.out / arguments.world / name
    shutil.rmtree(folder, ignore_errors=True)
    for step in range(arguments.steps):
        save(trainer, start, folder / "model")
        run, seed = folder / f"step-{step}", 1000 * arguments.seed + step
        study.play(arguments.world, folder / "model", run, seed, rate(1e-30))
        batch = Batch(episodes(run))
        row = {"step": step, "success": batch.rewards_B.mean().item()} | trainer.step(batch)
        row["moved"], trainer.moved = trainer.moved, []
        print(json.dumps(row), flush=True)
        shutil.rmtree(run)
    save(trainer, start, folder / "model")
    log = arguments.out / arguments.world
    before = study.success(arguments.world, start, log / f"start-{arguments.seed}.eval.json")
    (log / f"{name}.eval.json").unlink(missing_ok=True)
    after = study.success(arguments.world, folder / "model", log / f"{name}.eval.json")
    print(json.dumps({"arm": name, "world": arguments.world, "seed": arguments.seed, "before": before, "after": after}))


main()
