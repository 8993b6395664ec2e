"""Results of presets with overridden keys, for flags that no preset uses."""
import torch

from algorithm_batch import (
    Update, clip, k1, k2, k3, normalise, sequence_weights, token_ratios, turn_ratios)
from algorithm_presets import bounds, compared, drift, epo, over_batch_std


def grpo_with(batch, s, ratios, divergence):
    """GRPO with other ratios or another divergence."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(ratios, advantages, **bounds(s)) + s["kl"]["beta"] * divergence(batch.current, batch.reference)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def grpo_k1(batch, s):
    """GRPO with the plain difference in the loss."""
    return grpo_with(batch, s, token_ratios(batch), k1)


def grpo_k2(batch, s):
    """GRPO with half the squared difference in the loss."""
    return grpo_with(batch, s, token_ratios(batch), k2)


def grpo_turn_ratio(batch, s):
    """GRPO with one ratio per turn."""
    return grpo_with(batch, s, turn_ratios(batch, batch.everything), k3)


def grpo_importance(batch, s):
    """GRPO without a clip."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = -token_ratios(batch) * advantages + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def grpo_batch_std(batch, s):
    """GRPO with the batch's standard deviation."""
    advantages, trained = over_batch_std(batch), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def grpo_off_policy(batch, s):
    """GRPO on older weights: a truncated weight per trajectory, and a veto of the least probable ones."""
    advantages, off_policy, older = compared(batch, normalise), s["off_policy"], batch.proximal - batch.behaviour
    trained = batch.where(lambda each: older[each.tokens].exp().min() >= off_policy.get("veto", 0.0))
    sums = torch.stack([older[[place for place in each.tokens if trained[place]]].sum() for each in batch.trajectories])
    weights = torch.exp(batch.from_trajectories(sums))
    ratios = torch.exp(batch.current - batch.proximal)
    losses = weights.clamp(max=off_policy["cap"]) * clip(ratios, advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def extra_cases():
    """Preset, overrides and the function that computes them."""
    band = {"low": 0.8, "high": 1.2, "weight": 0.1, "mode": "literal"}
    off_policy = {"cap": 1.05, "level": "sequence"}
    return [("epo", {"entropy_band": band}, epo),
            ("grpo", {"ratio": "turn"}, grpo_turn_ratio),
            ("grpo", {"kl": {"beta": 0.04, "estimator": "k1", "place": "loss"}}, grpo_k1),
            ("grpo", {"kl": {"beta": 0.04, "estimator": "k2", "place": "loss"}}, grpo_k2),
            ("grpo", {"surrogate": {"kind": "importance"}}, grpo_importance),
            ("grpo", {"scale": "batch-std"}, grpo_batch_std),
            ("grpo", {"off_policy": off_policy}, grpo_off_policy),
            ("grpo", {"off_policy": off_policy | {"veto": 0.5}}, grpo_off_policy)]
