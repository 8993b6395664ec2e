"""Results of presets with overridden keys: flags that no preset uses, and the readings of released implementations."""
import torch

from algorithm_batch import (
    Update, by_trajectory, centre, clip, first_tokens, k1, k2, k3, leave_one_out, normalise, normalise_population, over_turns,
    penalise_divergence, pools, returns, seat_weights, sequence_weights, token_ratios, token_weights, turn_gae,
    turn_ratios, within)
from algorithm_constants import CONSTANTS
from algorithm_presets import (
    PRESETS, arpo, bounds, compared, drift, epo, gigpo, igpo, mars, mt_grpo, over_batch_std, ppo, rise)


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


def grpo_stale(batch, s):
    """GRPO without tokens that are more than one step old; the step begins with version 5."""
    advantages, trained = compared(batch, normalise), batch.version >= 5 - s["off_policy"]["stale_steps"]
    weights = torch.exp(batch.proximal - batch.behaviour).clamp(max=s["off_policy"]["cap"])
    losses = weights * clip(torch.exp(batch.current - batch.proximal), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def grpo_all_seats(batch, s):
    """GRPO that compares all seats of a group together."""
    advantages = batch.from_trajectories(within(batch.all_rivals(), batch.rewards, normalise))
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, batch.everything, (sequence_weights(batch, batch.everything) * losses).sum())


def ppo_reward_penalty(batch, s):
    """PPO whose reward contains the divergence of the whole episode."""
    penalise_divergence(batch, s["kl"]["beta"])
    return ppo(batch, s)


def ppo_token_penalty(batch, s):
    """PPO whose token rewards contain the divergence of each token."""
    return ppo(batch, s, s["kl"]["beta"] * k1(batch.behaviour, batch.reference))


def vl_dac_token_penalty(batch, s):
    """VL-DAC whose turn rewards contain the divergence of the turn's tokens."""
    divergence = k1(batch.behaviour, batch.reference)
    for trajectory in batch.trajectories:
        costs = [s["kl"]["beta"] * divergence[turn.tokens].sum().item() for turn in trajectory.turns]
        trajectory.turn_rewards = [reward - cost for reward, cost in zip(trajectory.turn_rewards, costs)]
        trajectory.reward -= sum(costs)
    advantages, values = turn_gae(batch, s["critic"])
    value_loss = 0.5 * ((batch.value_now[first_tokens(batch)] - (advantages + values)) ** 2).mean()
    advantages, trained = batch.from_turns(advantages), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum(), value_loss)


def with_clipped_rewards(preset):
    """A preset on rewards within bounds."""
    def clipped(batch, s):
        for trajectory in batch.trajectories:
            bound = s["reward_clip"]
            trajectory.reward = min(max(trajectory.reward, bound["low"]), bound["high"])
        return PRESETS[preset](batch, s)
    return clipped


def with_scaled_rewards(preset):
    """A preset on rewards divided by the deviation of their seat's rewards, those of turns included."""
    def scaled(batch, s):
        for seat in {trajectory.seat for trajectory in batch.trajectories}:
            own = [trajectory for trajectory in batch.trajectories if trajectory.seat == seat]
            deviation = torch.tensor([trajectory.reward for trajectory in own]).std().item()
            for trajectory in own:
                trajectory.reward /= deviation
                trajectory.turn_rewards = [reward / deviation for reward in trajectory.turn_rewards]
                trajectory.gains = [gain / deviation for gain in trajectory.gains]
        return PRESETS[preset](batch, s)
    return scaled


def loop_clipped(batch, s):
    """LOOP with advantages within bounds."""
    bound, trained = s["advantage_clip"], batch.everything
    advantages = compared(batch, leave_one_out).clamp(bound["low"], bound["high"])
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


def grpo_importance_weights(batch, s):
    """GRPO on older weights: weights per token, trajectory or their geometric mean; above the cap, the cap or 0."""
    off_policy, older, trained = s["off_policy"], batch.proximal - batch.behaviour, batch.everything
    logs = older
    if off_policy["level"] != "token":
        mean = off_policy["level"] == "geometric"
        sums = [older[each.tokens].mean() if mean else older[each.tokens].sum() for each in batch.trajectories]
        logs = batch.from_trajectories(torch.stack(sums))
    weights, cap = torch.exp(logs), off_policy["cap"]
    weights = torch.where(weights > cap, 0.0, weights) if off_policy.get("mode") == "mask" else weights.clamp(max=cap)
    advantages = compared(batch, normalise)
    losses = weights * clip(torch.exp(batch.current - batch.proximal), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def grpo_without_cut(batch, s):
    """GRPO without the replies that a limit cut, or without the episodes that have one."""
    advantages, trained = compared(batch, normalise), batch.everything.clone()
    for turn in batch.turns:
        if turn.cut:
            places = turn.tokens if s["masks"] == ["cut-reply"] else turn.trajectory.tokens
            trained[places] = False
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


# The readings of released implementations.

def gigpo_means(batch, s):
    """GiGPO that subtracts means without dividing."""
    return gigpo(batch, s, centre)


def igpo_separate(batch, s):
    """IGPO that normalises last turns and earlier turns separately."""
    return igpo_pools(batch, s, normalise, lambda turn, step: turn.is_last)


def igpo_script(batch, s):
    """As `igpo_separate`, without n - 1 and without turns that gained nothing."""
    return igpo_pools(batch, s, normalise_population, lambda turn, step: turn.is_last or (None if step == 0 else False))


def igpo_pools(batch, s, rule, pool):
    """IGPO whose turns are compared with those of the same pool; without a pool they count as 0."""
    steps = over_turns(batch, list)
    keys = [pool(turn, step.item()) for turn, step in zip(batch.turns, steps)]
    of_pools = {}
    for place, (turn, key) in enumerate(zip(batch.turns, keys)):
        if key is not None:
            of_pools.setdefault((turn.trajectory.group, turn.trajectory.seat, key), []).append(place)
    normal = within(of_pools.values(), steps, rule)
    sums = [returns(own, s["credit"]["discount"]) for own in by_trajectory(batch, normal)]
    advantages, trained = batch.from_turns(torch.tensor(sum(sums, []))), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def epo_units(batch, s):
    """EPO whose band holds the mean entropy of each turn of an episode, or the entropy of each token."""
    band, penalty = s["entropy_band"], 0.0
    by_token = band["unit"] == "token"
    for turn in batch.turns:
        low, high = (band[end] * batch.history[turn.index] for end in ("low", "high"))
        for places in [[place] for place in turn.tokens] if by_token else [turn.tokens]:
            mean = batch.entropy_now[places].mean()
            hinge = torch.relu(low - mean) + torch.relu(mean - high)
            step = 0.1 if mean < low or mean > high else 0.0
            penalty += len(places) / len(batch.everything) * (step if band["mode"] == "literal" else hinge)
    update = arpo(batch, s)
    bonus = (token_weights(batch, batch.everything) * batch.entropy_now).sum() - band["weight"] * penalty
    return Update(update.advantages, update.trained, update.loss - s["entropy_bonus"] * bonus)


def grpo_per_seat(batch, s):
    """GRPO with each seat's part of an episode as a sequence."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (seat_weights(batch, trained) * losses).sum())


def mars_batch_mean(batch, s):
    """MARS with one mean for each player over the batch."""
    return mars(batch, s, pools(turn.trajectory.seat for turn in batch.turns))


def extra_cases():
    """Preset, fixture, overrides and the function that computes them."""
    band = {"low": 0.8, "high": 1.2, "weight": 0.1, "mode": "literal"}
    off_policy = {"cap": 1.05, "level": "sequence"}
    k1_loss, k2_loss, k1_reward, k1_tokens = (
        {"kl": {"beta": 0.04, "estimator": estimator, "place": place}}
        for estimator, place in (("k1", "loss"), ("k2", "loss"), ("k1", "reward"), ("k1", "tokens")))
    turns = {"kind": "turns", "turn_weight": 0.3, "outcome_weight": 0.6}
    igpo_apart = {"kind": "rewards", "discount": 0.8, "jointly": False}
    return [("epo", "solo", {"entropy_band": band}, epo),
            ("grpo", "solo", {"ratio": "turn"}, grpo_turn_ratio),
            ("grpo", "solo", k1_loss, grpo_k1),
            ("grpo", "solo", k2_loss, grpo_k2),
            ("grpo", "solo", {"surrogate": {"kind": "importance"}}, grpo_importance),
            ("grpo", "solo", {"scale": "batch-std"}, grpo_batch_std),
            ("grpo", "solo", {"off_policy": off_policy}, grpo_off_policy),
            ("grpo", "solo", {"off_policy": off_policy | {"veto": 0.5}}, grpo_off_policy),
            ("grpo", "solo", {"off_policy": {"cap": 1.05, "level": "token", "stale_steps": 1}}, grpo_stale),
            ("grpo", "duo", {"group_by": "all"}, grpo_all_seats),
            ("ppo", "solo", k1_reward, ppo_reward_penalty),
            ("ppo", "solo", k1_tokens, ppo_token_penalty),
            ("vl-dac", "solo", k1_tokens, vl_dac_token_penalty),
            # Bounds and scale of rewards and advantages.
            *((name, fixture, {"reward_clip": {"low": -0.1, "high": 0.8}}, with_clipped_rewards(name))
              for name, fixture in (("grpo", "solo"), ("igpo", "solo"), ("mars", "duo"))),
            *((name, fixture, {"reward_scale": "running"}, with_scaled_rewards(name))
              for name, fixture in (("loop", "solo"), ("igpo", "solo"), ("loop", "duo"))),
            ("loop", "solo", {"advantage_clip": {"low": -0.4, "high": 0.5}}, loop_clipped),
            # Importance weights at every level, truncated and masked.
            *(("grpo", "solo", {"off_policy": {"cap": 1.05, "level": level} | mode}, grpo_importance_weights)
              for level, mode in (("token", {}), ("token", {"mode": "mask"}), ("sequence", {"mode": "mask"}),
                                  ("geometric", {}), ("geometric", {"mode": "mask"}))),
            ("grpo", "cut", {"masks": ["cut-reply"]}, grpo_without_cut),
            ("grpo", "cut", {"masks": ["cut-episode"]}, grpo_without_cut),
            # Weights, discounts and temperatures other than the neutral ones.
            ("gigpo", "solo", {"credit": {"kind": "anchors", "discount": 0.7, "weight": 0.4}}, gigpo),
            ("igpo", "solo", {"credit": {"kind": "rewards", "discount": 0.8, "jointly": True}}, igpo),
            ("mars", "duo", {"credit": {"kind": "returns", "discount": 0.8}}, mars),
            ("mt-grpo", "solo", {"credit": turns}, mt_grpo),
            ("rise", "solo", {"reward_temperature": 0.4}, rise),
            ("ppo", "solo", {"critic": {"level": "token", "discount": 0.9, "lambda": 0.7, "learning_rate": 1e-4,
                                        "warmup_steps": 0, "clip": 0.1}}, ppo),
            # The readings of released implementations.
            ("gigpo", "solo", {"scale": "none"}, gigpo_means),
            ("mt-grpo", "solo", {"aggregation": "token"}, mt_grpo),
            ("igpo", "solo", {"credit": igpo_apart}, igpo_separate),
            ("igpo", "zeros", {"credit": igpo_apart | {"skip_zero_gains": True}, "scale": "group-population-std"},
             igpo_script),
            ("epo", "solo", {"entropy_band": band | {"mode": "hinge", "unit": "turn"}}, epo_units),
            ("epo", "solo", {"entropy_band": band | {"mode": "hinge", "unit": "token"}}, epo_units),
            ("epo", "solo", {"entropy_band": band | {"unit": "turn"}}, epo_units),
            ("epo", "solo", {"entropy_band": band | {"unit": "token"}}, epo_units),
            ("grpo", "duo", {"aggregation": "sequence-per-seat"}, grpo_per_seat),
            ("mars", "duo", {"baseline": "batch-mean"}, mars_batch_mean),
            # A lone member, an equal group with episodes of unequal length, and an episode that was cut short.
            *((name, "mixed", {}, PRESETS[name])
              for name in ("grpo", "loop", "gspo", "mini-o3", "lite-ppo", "reinforce++", "mars", "gigpo")),
            # With the flag, the return of an episode that was cut short goes on with the critic's value at its end.
            *((name, "mixed", {"critic": CONSTANTS[name]["critic"] | {"level": level, "bootstrap": True}}, PRESETS[name])
              for name, level in (("ppo", "token"), ("vl-dac", "turn"))),
            ("dapo", "mixed", {"length_penalty": {"tokens": 6, "buffer": 4}}, PRESETS["dapo"]),
            # Only the divergence differs between the tokens, which the floor keeps small.
            ("reinforce++", "equal", {}, PRESETS["reinforce++"]),
            ("gspo", "contexts", {}, PRESETS["gspo"]),
            ("grpo", "contexts", {}, PRESETS["grpo"])]


def minibatch_cases():
    """As `extra_cases`, with the numbers of the episodes of one of several minibatches."""
    return [(name, "solo", {}, PRESETS[name], episodes)
            for name in ("grpo", "loop", "dr-grpo") for episodes in ([0, 3, 5], [1, 2, 4, 6, 7, 8])]
