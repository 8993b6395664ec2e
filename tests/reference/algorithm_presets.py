"""Results of each preset on a batch, one function each, written from the formulas and not from the trainer.

The constants are those of algorithm_constants.py, `s`; the preset's flags are written out here."""
import torch

from algorithm_batch import (
    EPSILON, Update, by_trajectory, centre, clip, constant_weights, first_tokens, gae, k1, k3, leave_one_out,
    normalise, over_turns, penalise_divergence, penalise_length, plain, pools, returns, sample_std, sequence_ratios,
    sequence_weights, token_ratios, token_weights, turn_gae, whiten, whiten_trained, within)

PRESETS = {}


def preset(name):
    """Registers a function under the name of its file."""
    def enter(function):
        PRESETS[name] = function
        return function
    return enter


def compared(batch, rule):
    """Gives each token its trajectory's reward, compared by the rule."""
    return batch.from_trajectories(within(batch.rivals(), batch.rewards, rule))


def drift(batch, s):
    """Loss for the divergence from the reference (k3)."""
    return s["kl"]["beta"] * k3(batch.current, batch.reference)


def bounds(s):
    """Clip range as named arguments."""
    return {"low": s["surrogate"]["low"], "high": s["surrogate"]["high"]}


# GRPO and its variants.

@preset("grpo")
def grpo(batch, s):
    """Rewards normalised in their group, clipped ratios, equal weights of episodes, and a penalty to the reference."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


@preset("otc")
def otc(batch, s):
    """GRPO's update; the preference for few calls is in the reward."""
    return grpo(batch, s)


@preset("scalinginter")
def scalinginter(batch, s):
    """GRPO's update; the growing turn limit is in the stage."""
    return grpo(batch, s)


@preset("g-ra")
def g_ra(batch, s):
    """GRPO's update without a penalty; the gate is in the rewards."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


@preset("arpo")
def arpo(batch, s):
    """GRPO's advantages with equal weights of all tokens; the branches are in the plan."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("dr-mas")
def dr_mas(batch, s):
    """ARPO's update; each seat is compared with itself, as in all presets here."""
    return arpo(batch, s)


@preset("grpo-roc")
def grpo_roc(batch, s):
    """ARPO's update; the selection of episodes is in the plan."""
    return arpo(batch, s)


@preset("aepo")
def aepo(batch, s):
    """Above the upper bound the loss is that of the bound, with a gradient; entropy raises the advantage."""
    trained, ratios, high = batch.everything, token_ratios(batch), s["surrogate"]["high"]
    advantages = compared(batch, normalise)
    advantages = advantages * (1 + s["entropy_advantage"] * whiten_trained(batch.entropy, trained))
    kept = -(1 + high) / ratios.detach() * ratios * advantages
    beyond = (advantages > 0) & (ratios > 1 + high)
    losses = torch.where(beyond, kept, clip(ratios, advantages, **bounds(s)))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("cispo")
def cispo(batch, s):
    """REINFORCE with a bounded weight for each token."""
    advantages, trained = compared(batch, normalise), batch.everything
    weights = token_ratios(batch).clamp(1 - s["surrogate"]["low"], 1 + s["surrogate"]["high"]).detach()
    losses = weights * plain(batch, advantages)
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("dapo")
def dapo(batch, s):
    """A soft length penalty and a wider upper clip; groups of equal rewards are masked."""
    equal = within(batch.rivals(), batch.rewards, lambda values: (values == values[0]).all().to(values))
    penalise_length(batch, **s["length_penalty"])
    advantages = compared(batch, normalise)
    trained = batch.from_trajectories(equal == 0)
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("dart")
def dart(batch, s):
    """Turns of highest entropy, sampled by older weights, with a truncated importance weight per token."""
    advantages = compared(batch, normalise)
    entropies = torch.stack([batch.entropy[turn.tokens].mean() for turn in batch.turns])
    trained = batch.from_turns(entropies >= torch.quantile(entropies, s["entropy_quantile"]))
    weights = torch.exp(batch.proximal - batch.behaviour).clamp(max=s["off_policy"]["cap"])
    losses = weights * clip(torch.exp(batch.current - batch.proximal), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("dr-grpo")
def dr_grpo(batch, s):
    """Divides neither by a standard deviation nor by a length."""
    advantages, trained = compared(batch, centre), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (constant_weights(batch, trained, s["constant_tokens"]) * losses).sum())


@preset("epo")
def epo(batch, s):
    """ARPO's loss minus an entropy bonus, which penalises leaving the band around each turn's history."""
    band, trained = s["entropy_band"], batch.everything
    weights, penalty = token_weights(batch, trained), 0.0
    for index, history in zip(range(batch.turn_index.max() + 1), batch.history):
        here = batch.turn_index == index
        mean, low, high = batch.entropy_now[here].mean(), band["low"] * history, band["high"] * history
        hinge = torch.relu(low - mean) + torch.relu(mean - high)
        step = 0.1 if mean < low or mean > high else 0.0
        penalty += here.sum() / len(here) * (step if band["mode"] == "literal" else hinge)
    update = arpo(batch, s)
    bonus = (weights * batch.entropy_now).sum() - band["weight"] * penalty
    return Update(update.advantages, trained, update.loss - s["entropy_bonus"] * bonus)


@preset("gspo")
def gspo(batch, s):
    """One ratio per sequence."""
    advantages, trained = compared(batch, normalise), batch.everything
    losses = clip(sequence_ratios(batch, trained), advantages, **bounds(s))
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


def over_batch_std(batch):
    """Group mean, and the standard deviation of the batch's trajectories of the same seat."""
    seats = pools(each.seat for each in batch.trajectories)
    deviations = within(seats, batch.rewards, lambda values: sample_std(values).expand(len(values)))
    centred = within(batch.rivals(), batch.rewards, centre)
    return batch.from_trajectories(centred / (deviations + EPSILON))


@preset("lite-ppo")
def lite_ppo(batch, s):
    """Group mean, the batch's standard deviation, equal weights of tokens."""
    advantages, trained = over_batch_std(batch), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("mini-o3")
def mini_o3(batch, s):
    """Unfinished episodes are compared but masked; finished ones have equal weights."""
    advantages, trained = compared(batch, normalise), batch.where(lambda each: each.finished)
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


@preset("simpletir")
def simpletir(batch, s):
    """Trajectories with a void turn are compared but masked."""
    advantages, trained = compared(batch, normalise), batch.where(lambda each: not each.void)
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("supo")
def supo(batch, s):
    """Unfinished episodes are compared but masked; equal weights of tokens."""
    advantages, trained = compared(batch, normalise), batch.where(lambda each: each.finished)
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("spear")
def spear(batch, s):
    """Tokens with a high covariance of advantage and log-probability have no loss but count in its weights."""
    advantages, trained, band = compared(batch, centre), batch.everything, s["covariance_clip"]
    assert band["share"] == 1.0, "a smaller share is drawn at random"
    covariances = centre(advantages) * centre(batch.behaviour)
    outside = (covariances <= band["low"]) | (covariances >= band["high"])
    losses = outside * clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


# Credit for turns.

@preset("gigpo")
def gigpo(batch, s, rule=normalise):
    """Comparison in the group, plus a comparison of turns that begin in the same state."""
    credit, trained = s["credit"], batch.everything
    sums = over_turns(batch, lambda steps: returns(steps, credit["discount"]))
    alike = pools((turn.trajectory.group, turn.trajectory.seat, turn.anchor) for turn in batch.turns)
    of_turns = batch.from_turns(within(alike, sums, rule))
    advantages = compared(batch, rule) + credit["weight"] * of_turns
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("igpo")
def igpo(batch, s):
    """All rewards of a group are normalised together, then summed from each turn on."""
    normal = within(batch.rival_turns(), over_turns(batch, list), normalise)
    sums = [returns(steps, s["credit"]["discount"]) for steps in by_trajectory(batch, normal)]
    advantages, trained = batch.from_turns(torch.tensor(sum(sums, []))), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum())


@preset("mars")
def mars(batch, s, compared_turns=None):
    """Returns minus their mean over the seat's turns in the group, or over other turns; a dual clip."""
    sums = over_turns(batch, lambda steps: returns(steps, s["credit"]["discount"]))
    compared_turns = compared_turns or batch.rival_turns()
    advantages, trained = batch.from_turns(within(compared_turns, sums, centre)), batch.everything
    gains = -clip(token_ratios(batch), advantages, **bounds(s))
    bounded = torch.maximum(gains, s["surrogate"]["dual"] * advantages)
    losses = -torch.where(advantages < 0, bounded, gains) + drift(batch, s)
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("mt-grpo")
def mt_grpo(batch, s):
    """A turn's reward compared with the same turns of the group, plus the outcome compared in the group."""
    of_turns = pools((turn.trajectory.group, turn.trajectory.seat, turn.index, turn.is_last) for turn in batch.turns)
    steps, last = over_turns(batch, list), torch.tensor([turn.is_last for turn in batch.turns])
    outcomes = batch.from_trajectories(within(batch.rivals(), steps[last], normalise))
    inner = s["credit"]["turn_weight"] * batch.from_turns(within(of_turns, steps, normalise))
    inner = inner + s["credit"]["outcome_weight"] * outcomes
    advantages, trained = torch.where(batch.from_turns(last), outcomes, inner), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    weights = token_weights if s.get("aggregation") == "token" else sequence_weights
    return Update(advantages, trained, (weights(batch, trained) * losses).sum())


@preset("rise")
def rise(batch, s):
    """Each turn's tokens weighted by the exponential of its reward."""
    steps, trained = over_turns(batch, list), batch.everything
    advantages = batch.from_turns(torch.exp(steps / s["reward_temperature"]))
    return Update(advantages, trained, (token_weights(batch, trained) * plain(batch, advantages)).sum())


@preset("score-first")
def score_first(batch, s):
    """Reward of the last attempt only; the first attempt is held to the reference."""
    outcomes = torch.tensor([trajectory.steps()[-1] for trajectory in batch.trajectories])
    advantages = batch.from_trajectories(within(batch.rivals(), outcomes, leave_one_out))
    losses = plain(batch, advantages) + (batch.turn_index < s["kl"]["first_turns"]) * drift(batch, s)
    trained = batch.everything
    return Update(advantages, trained, (constant_weights(batch, trained, s["constant_tokens"]) * losses).sum())


@preset("score")
def score(batch, s):
    """Reward of each attempt compared with the same attempts, plus a bonus for improving on the previous one."""
    def shaped(steps):
        return steps[:1] + [step + s["progress"] * (step - before) for before, step in zip(steps, steps[1:])]
    of_turns = pools((turn.trajectory.group, turn.trajectory.seat, None if turn.is_last else turn.index)
                     for turn in batch.turns)
    advantages = batch.from_turns(within(of_turns, over_turns(batch, shaped), leave_one_out))
    trained, losses = batch.everything, plain(batch, advantages) + drift(batch, s)
    return Update(advantages, trained, (constant_weights(batch, trained, s["constant_tokens"]) * losses).sum())


# Without a group's deviation.

@preset("loop")
def loop(batch, s):
    """Each reward minus the mean of the others."""
    advantages, trained = compared(batch, leave_one_out), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("rloo")
def rloo(batch, s):
    """The penalty is part of the reward, and an episode is one action."""
    penalise_divergence(batch, s["kl"]["beta"])
    advantages, trained = compared(batch, leave_one_out), batch.everything
    losses = plain(batch, advantages)
    return Update(advantages, trained, (constant_weights(batch, trained, s["constant_tokens"]) * losses).sum())


@preset("reinforce++")
def reinforce_plus_plus(batch, s):
    """The reward minus the penalty of the remaining tokens, whitened over the batch."""
    divergence, trained = k1(batch.behaviour, batch.reference), batch.everything
    ahead = torch.cat([torch.tensor(returns(divergence[each.tokens].tolist(), 1.0)) for each in batch.trajectories])
    sums = batch.from_trajectories(batch.rewards) - s["kl"]["beta"] * ahead
    advantages = whiten_trained(sums, trained, s["whiten_floor"])
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum())


@preset("spiral-rae")
def spiral_rae(batch, s):
    """Each seat's rewards minus its moving average, read before its update."""
    averages, advantages = list(batch.averages), []
    for trajectory in batch.trajectories:
        advantages.append(trajectory.reward - averages[trajectory.seat])
        averages[trajectory.seat] = (s["average_decay"] * averages[trajectory.seat]
                                     + (1 - s["average_decay"]) * trajectory.reward)
    advantages = batch.from_trajectories(torch.tensor(advantages))
    trained = advantages != 0
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    loss = (constant_weights(batch, trained, s["constant_tokens"]) * losses).sum()
    return Update(advantages, trained, loss, averages_after=averages)


# With a critic.

@preset("ppo")
def ppo(batch, s, costs=None):
    """Generalised advantages per token, whitened; the critic's values are clipped around the old ones. Each token's reward
    is its cost, and the last token of a turn also gets the turn's reward. In a tree, a token has the mean of its
    advantages in the trajectories that share it."""
    critic, trained, found = s["critic"], batch.everything, [[] for _ in batch.everything]
    for trajectory in batch.trajectories:
        places, rewards = trajectory.tokens, []
        for turn, step in zip(trajectory.turns, trajectory.steps()):
            rewards += [0.0 if costs is None else -costs[place].item() for place in turn.tokens]
            rewards[-1] += step
        values = batch.value[places].tolist()
        own = gae(rewards, values, critic["discount"], critic["lambda"], trajectory.end_value)
        for place, advantage in zip(places, own):
            found[place].append(advantage)
    advantages = torch.tensor([sum(each) / len(each) for each in found])
    targets = advantages + batch.value
    near = batch.value_now.clamp(batch.value - critic["clip"], batch.value + critic["clip"])
    value_loss = 0.5 * torch.maximum((batch.value_now - targets) ** 2, (near - targets) ** 2).mean()
    advantages = whiten_trained(advantages, trained)
    losses = clip(token_ratios(batch), advantages, **bounds(s))
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum(), value_loss)


@preset("step-ppo")
def step_ppo(batch, s):
    """Generalised advantages per turn, whitened over turns; one ratio per sequence."""
    advantages, values = turn_gae(batch, s["critic"])
    value_loss = 0.5 * ((batch.value_now[first_tokens(batch)] - (advantages + values)) ** 2).mean()
    advantages, trained = batch.from_turns(whiten(advantages)), batch.everything
    losses = clip(sequence_ratios(batch, trained), advantages, **bounds(s))
    return Update(advantages, trained, (sequence_weights(batch, trained) * losses).sum(), value_loss)


@preset("vl-dac")
def vl_dac(batch, s):
    """Generalised advantages per turn, ratios per token."""
    advantages, values = turn_gae(batch, s["critic"])
    value_loss = 0.5 * ((batch.value_now[first_tokens(batch)] - (advantages + values)) ** 2).mean()
    advantages, trained = batch.from_turns(advantages), batch.everything
    losses = clip(token_ratios(batch), advantages, **bounds(s)) + drift(batch, s)
    return Update(advantages, trained, (token_weights(batch, trained) * losses).sum(), value_loss)
