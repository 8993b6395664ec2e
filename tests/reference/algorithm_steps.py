"""Results that no function of one batch gives: trees of episodes, replayed episodes, and losses over pairs."""
import itertools
import math
import statistics

import torch

from algorithm_batch import Batch, Update, centre, clip, normalise, token_ratios, token_weights, within
from algorithm_constants import CONSTANTS
from algorithm_presets import bounds, ppo

REPLAY_STEP, REPLAY_VERSION = 30, 8


# Trees: tokens that several trajectories share.

def arpo_once(batch, s):
    """ARPO on a tree: a token has the mean of the advantages of the trajectories that share it, and enters once."""
    found = [[] for _ in batch.everything]
    for advantage, trajectory in zip(within(batch.rivals(), batch.rewards, normalise), batch.trajectories):
        for place in trajectory.tokens:
            found[place].append(advantage.item())
    advantages = torch.tensor([sum(each) / len(each) for each in found])
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, batch.everything, (token_weights(batch, batch.everything) * losses).sum())


def arpo_per_episode(fixture):
    """ARPO's objective on a tree: the mean over the tokens of all trajectories, shared ones once for each."""
    batch, s = Batch(fixture), CONSTANTS["arpo"]
    own = within(batch.rivals(), batch.rewards, normalise)
    ratios = token_ratios(batch)
    losses = [clip(ratios[each.tokens], advantage, **bounds(s)) for advantage, each in zip(own, batch.trajectories)]
    loss = torch.cat(losses).mean()
    (gradient,) = torch.autograd.grad(loss, batch.current)
    advantages = [[advantage.item()] * len(each.tokens) for advantage, each in zip(own, batch.trajectories)]
    return {"preset": "arpo", "fixture": "tree", "overrides": {"shared_turns": "per-episode"},
            "advantages": advantages, "loss": loss.item(), "gradient": gradient.tolist()}


def make_tree_cases(fixtures, make_case):
    """Both readings of ARPO, and PPO, on the tree."""
    cases = [make_case(fixtures, preset, "tree", {}, function) for preset, function in (("arpo", arpo_once), ("ppo", ppo))]
    return cases + [arpo_per_episode(fixtures["tree"])]


# Replay.

def make_replay(fixture):
    """SPEAR's replay of the episodes that were better than their group, at a later step with the same group means."""
    off_policy = {"cap": 1.2, "level": "token", "stale_steps": 4}
    band = {"low": 0.0, "high": 0.5, "share": 1.0}
    cases = [replay_case(fixture, overrides) for overrides in (
        {"covariance_clip": "off"},
        {"covariance_clip": "off", "off_policy": off_policy},
        {"covariance_clip": band, "off_policy": off_policy})]
    return {"step": REPLAY_STEP, "version": REPLAY_VERSION, "cases": cases}


def replay_case(fixture, overrides):
    """Loss of the replayed episodes, times the weight of replay."""
    batch, s = Batch(fixture), CONSTANTS["spear"]
    means = [batch.rewards[places].mean().item() for places in batch.rivals()]
    median = statistics.median(means + means)
    replayed = torch.zeros_like(batch.everything)
    advantages = batch.from_trajectories(batch.rewards - median)
    for trajectory in batch.trajectories:
        if trajectory.reward > means[trajectory.group] and trajectory.reward > median:
            replayed[trajectory.tokens] = True
    proximal, weights = batch.behaviour, torch.ones(len(replayed))
    if off_policy := overrides.get("off_policy"):
        proximal = batch.proximal
        weights = torch.exp(proximal - batch.behaviour).clamp(max=off_policy["cap"])
        replayed &= batch.version >= REPLAY_VERSION - off_policy["stale_steps"]
    if overrides["covariance_clip"] != "off":
        band = overrides["covariance_clip"]
        covariances = torch.zeros(len(replayed))
        covariances[replayed] = centre(advantages[replayed]) * centre(proximal[replayed])
        weights = weights * ~((covariances > band["low"]) & (covariances < band["high"]))
    ramp = 0.5 * (1 - math.cos(math.pi * REPLAY_STEP / s["replay"]["ramp_steps"]))
    losses = weights * clip(torch.exp(batch.current - proximal), advantages, **bounds(s))
    loss = ramp * (token_weights(batch, replayed) * losses).sum()
    (gradient,) = torch.autograd.grad(loss, batch.current)
    return {"overrides": overrides, "loss": loss.item(), "gradient": gradient.tolist()}


# Pairs.

def make_regression(random_tokens):
    """REBEL: the difference of two episodes' log-ratios, divided by eta, fits the difference of their rewards."""
    eta, losses, groups = 0.7, [], []
    for rewards in ([1.0, 0.2, -0.5], [0.3, 0.9]):
        group = [(reward, random_tokens(2 + place, "behaviour")) for place, reward in enumerate(rewards)]
        for (reward, tokens), (other_reward, others) in itertools.combinations(group, 2):
            difference = (tokens["current"] - tokens["behaviour"]).sum() - (others["current"] - others["behaviour"]).sum()
            losses.append((difference / eta - (reward - other_reward)) ** 2)
        groups.append(group)
    loss = torch.stack(losses).mean()
    episodes = [{"group": number, "reward": reward, "tokens": rows(tokens),
                 "gradient": torch.autograd.grad(loss, tokens["current"], retain_graph=True)[0].tolist()}
                for number, group in enumerate(groups) for reward, tokens in group]
    return {"eta": eta, "loss": loss.item(), "episodes": episodes}


def make_replies(fixture):
    """REFUEL on a tree: a pair of a group compares its replies to the turns that it shares."""
    eta, losses, batch = 0.7, [], Batch(fixture)
    for places in batch.rivals():
        for one, other in itertools.combinations([batch.trajectories[place] for place in places], 2):
            turns = zip(one.turns, other.turns)
            reply, other_reply = next((left, right) for left, right in turns if left.tokens != right.tokens)
            ratios = [(batch.current - batch.behaviour)[turn.tokens].sum() for turn in (reply, other_reply)]
            losses.append(((ratios[0] - ratios[1]) / eta - (one.reward - other.reward)) ** 2)
    loss = torch.stack(losses).mean()
    (gradient,) = torch.autograd.grad(loss, batch.current)
    return {"eta": eta, "loss": loss.item(), "gradient": gradient.tolist()}


def make_paths(fixture):
    """Losses over whole episodes on a tree: an episode's log-ratio is that of its path, shared turns included."""
    eta, beta, point, cases = 0.7, 0.1, 0.35, {}

    def log_ratio(trajectory, batch, base):
        return sum((batch.current - base)[turn.tokens].sum() for turn in trajectory.turns)

    def case(losses, batch, **constants):
        loss = torch.stack(losses).mean()
        (gradient,) = torch.autograd.grad(loss, batch.current)
        return constants | {"loss": loss.item(), "gradient": gradient.tolist()}

    def pairs(batch):
        for places in batch.rivals():
            yield from itertools.combinations([batch.trajectories[place] for place in places], 2)

    batch = Batch(fixture)
    differences = [(log_ratio(one, batch, batch.behaviour) - log_ratio(other, batch, batch.behaviour),
                    one.reward - other.reward) for one, other in pairs(batch)]
    cases["regression"] = case([(ratios / eta - rewards) ** 2 for ratios, rewards in differences], batch, eta=eta)
    batch = Batch(fixture)
    ordered = [sorted(pair, key=lambda one: -one.reward) for pair in pairs(batch)]
    margins = [beta * (log_ratio(one, batch, batch.reference) - log_ratio(other, batch, batch.reference))
               for one, other in ordered if one.reward > other.reward]
    cases["pairs"] = case([-torch.nn.functional.logsigmoid(margin) for margin in margins], batch, beta=beta)
    batch = Batch(fixture)
    gains = [(log_ratio(one, batch, batch.reference) - point, one.reward > 0) for one in batch.trajectories]
    losses = [1 - torch.sigmoid(beta * gain if is_good else -beta * gain) for gain, is_good in gains]
    cases["unpaired"] = case(losses, batch, beta=beta, reference_point=point)
    return cases


def rows(tokens):
    """A list of tokens instead of one vector per number."""
    return [dict(zip(tokens, numbers)) for numbers in zip(*(values.tolist() for values in tokens.values()))]
