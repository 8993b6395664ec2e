"""What the formulas of the presets are made of: a batch, comparisons, losses of tokens and their weights.

All numbers are of double precision. A vector "over tokens", "over turns" or "over trajectories" has one number for each
of the batch's, in order: groups, then episodes, seats, turns, tokens."""
import dataclasses

import torch

EPSILON = 1e-6
WHITEN_EPSILON = 1e-8


@dataclasses.dataclass
class Trajectory:
    """What one seat did in one episode. `reward` is the whole's, `turn_rewards` and `gains` the turns'."""
    group: int
    episode: int
    seat: int
    finished: bool
    void: bool
    reward: float
    turn_rewards: list
    gains: list
    turns: list = dataclasses.field(default_factory=list)

    @property
    def tokens(self):
        """The places of all its tokens."""
        return [place for turn in self.turns for place in turn.tokens]

    def steps(self):
        """What each turn brought, and the last one also the part of the reward that belongs to no turn."""
        steps = [reward + gain for reward, gain in zip(self.turn_rewards, self.gains)]
        steps[-1] += self.reward - sum(self.turn_rewards)
        return steps


@dataclasses.dataclass
class Turn:
    """One turn, the `index`-th of its trajectory, and the places of its tokens."""
    trajectory: Trajectory
    index: int
    anchor: str
    tokens: list

    @property
    def is_last(self):
        """Does the trajectory end with it?"""
        return self.index + 1 == len(self.trajectory.turns)


@dataclasses.dataclass
class Update:
    """What a preset makes of a batch. `advantages` is over tokens, and so is `learnt`: is a token learnt from?"""
    advantages: torch.Tensor
    learnt: torch.Tensor
    loss: torch.Tensor
    value_loss: torch.Tensor | None = None
    averages_after: list | None = None


class Batch:
    """A fixture as vectors over tokens, beside its trajectories and turns. Made anew for each case."""

    def __init__(self, fixture):
        self.history, self.averages = fixture["history"], fixture["averages"]
        self.trajectories, tokens = [], []
        for group, episodes in enumerate(fixture["groups"]):
            for episode, content in enumerate(episodes):
                for seat, trajectory in enumerate(content["seats"]):
                    place = (group, episode, seat, content["finished"])
                    self.trajectories.append(read_trajectory(place, trajectory, tokens))
        self.turns = [turn for trajectory in self.trajectories for turn in trajectory.turns]
        self.turn_index = torch.tensor([turn.index for turn in self.turns for _ in turn.tokens])
        for name in ("behaviour", "proximal", "reference", "entropy", "value"):
            setattr(self, name, torch.tensor([token[name] for token in tokens]))
        self.current = torch.tensor([token["current"] for token in tokens], requires_grad=True)
        self.value_now = torch.tensor([token["value_now"] for token in tokens], requires_grad=True)
        self.entropy_now = self.entropy.clone().requires_grad_()
        self.everything = torch.ones(len(tokens), dtype=torch.bool)

    @property
    def rewards(self):
        """The trajectories' rewards."""
        return torch.tensor([trajectory.reward for trajectory in self.trajectories])

    def rivals(self):
        """Who is compared with whom: the trajectories of one seat in one group."""
        return pools((trajectory.group, trajectory.seat) for trajectory in self.trajectories)

    def rival_turns(self):
        """The turns of all trajectories of one seat in one group."""
        return pools((turn.trajectory.group, turn.trajectory.seat) for turn in self.turns)

    def from_trajectories(self, values):
        """Over tokens, from over trajectories."""
        return torch.cat([value.repeat(len(each.tokens)) for value, each in zip(values, self.trajectories)])

    def from_turns(self, values):
        """Over tokens, from over turns."""
        return torch.cat([value.repeat(len(turn.tokens)) for value, turn in zip(values, self.turns)])

    def where(self, keep):
        """The tokens of those trajectories that `keep` is true of."""
        return self.from_trajectories(torch.tensor([keep(trajectory) for trajectory in self.trajectories]))

    def episodes(self, learnt):
        """For each episode that has learnt tokens, their places, all seats together."""
        owners = [(each.group, each.episode) for each in self.trajectories for _ in each.tokens]
        kept = [[place for place in episode if learnt[place]] for episode in pools(owners)]
        return [episode for episode in kept if episode]


def read_trajectory(place, content, tokens):
    """A trajectory of the fixture; its tokens are put behind `tokens`."""
    turns = content["turns"]
    trajectory = Trajectory(*place, any(turn["void"] for turn in turns), content["reward"],
                            [turn["reward"] for turn in turns], [turn["gain"] for turn in turns])
    for index, turn in enumerate(turns):
        places = list(range(len(tokens), len(tokens) + len(turn["tokens"])))
        trajectory.turns.append(Turn(trajectory, index, turn["anchor"], places))
        tokens.extend(turn["tokens"])
    return trajectory


# Comparisons.

def pools(keys):
    """The places of equal keys, a list for each key."""
    places = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return list(places.values())


def within(places_of_pools, values, rule):
    """The rule applied to each pool of the values by itself."""
    result = torch.zeros_like(values)
    for places in places_of_pools:
        result[places] = rule(values[places])
    return result


def sample_std(values):
    """The deviation with n - 1 below; none for a single value."""
    return values.std() if len(values) > 1 else torch.tensor(0.0)


def centre(values):
    """Less the mean."""
    return values - values.mean()


def normalise(values):
    """Less the mean, over the deviation."""
    return centre(values) / (sample_std(values) + EPSILON)


def leave_one_out(values):
    """Less the mean of the others; nothing for a single value."""
    if len(values) == 1:
        return torch.zeros_like(values)
    return values - (values.sum() - values) / (len(values) - 1)


def whiten(values):
    """To a mean of zero and a variance of one."""
    return centre(values) / torch.sqrt(values.var() + WHITEN_EPSILON)


def whiten_learnt(values, learnt):
    """Whitens the learnt tokens by their own mean and variance."""
    result = values.clone()
    result[learnt] = whiten(values[learnt])
    return result


# Rewards and credit.

def penalise_length(batch, tokens, buffer):
    """DAPO's soft punishment: nothing up to the buffer, then falling to -1."""
    for trajectory in batch.trajectories:
        over = len(trajectory.tokens) - (tokens - buffer)
        trajectory.reward -= min(max(over / buffer, 0.0), 1.0)


def penalise_divergence(batch, beta):
    """Takes what a trajectory strayed from the reference (k1) out of its reward."""
    divergence = k1(batch.behaviour, batch.reference)
    for trajectory in batch.trajectories:
        trajectory.reward -= beta * divergence[trajectory.tokens].sum().item()


def returns(steps, discount):
    """Discounted sums of what is still to come."""
    result, ahead = [], 0.0
    for step in reversed(steps):
        ahead = step + discount * ahead
        result.insert(0, ahead)
    return result


def over_turns(batch, rule):
    """The rule's number for each turn of every trajectory's steps, over turns."""
    return torch.tensor([number for trajectory in batch.trajectories for number in rule(trajectory.steps())])


def by_trajectory(batch, values):
    """A list for each trajectory, from over turns."""
    return [part.tolist() for part in values.split([len(trajectory.turns) for trajectory in batch.trajectories])]


def gae(rewards, values, discount, decay):
    """Generalised advantages; nothing is worth anything behind the end."""
    result, ahead, next_value = [], 0.0, 0.0
    for reward, value in reversed(list(zip(rewards, values))):
        ahead = reward + discount * next_value - value + discount * decay * ahead
        next_value = value
        result.insert(0, ahead)
    return result


def turn_gae(batch, critic):
    """Advantages over turns, and the values they were made with: those of the turns' first tokens."""
    values = batch.value[first_tokens(batch)]
    advantages = [gae(trajectory.steps(), own, critic["discount"], critic["lambda"])
                  for trajectory, own in zip(batch.trajectories, by_trajectory(batch, values))]
    return torch.tensor(sum(advantages, [])), values


def first_tokens(batch):
    """The places of the turns' first tokens."""
    return [turn.tokens[0] for turn in batch.turns]


# Ratios.

def token_ratios(batch):
    """How much likelier each token is than when it was sampled."""
    return torch.exp(batch.current - batch.behaviour)


def mean_over(spans, values, learnt):
    """Gives each span of tokens the mean of its learnt ones."""
    result = torch.zeros_like(values)
    for places in spans:
        kept = [place for place in places if learnt[place]]
        if kept:
            result[places] = values[kept].mean()
    return result


def sequence_ratios(batch, learnt):
    """The geometric mean of the ratios of a trajectory's learnt tokens."""
    spans = [trajectory.tokens for trajectory in batch.trajectories]
    return torch.exp(mean_over(spans, batch.current - batch.behaviour, learnt))


def turn_ratios(batch, learnt):
    """The geometric mean of the ratios of a turn's learnt tokens."""
    return torch.exp(mean_over([turn.tokens for turn in batch.turns], batch.current - batch.behaviour, learnt))


# Losses of tokens.

def clip(ratios, advantages, low, high):
    """PPO's: no gain from leaving the range."""
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - low, 1 + high) * advantages)


def plain(batch, advantages):
    """REINFORCE's."""
    return -advantages * batch.current


def k1(own, reference):
    """The difference of the log-probabilities, without bias."""
    return own - reference


def k2(own, reference):
    """Half its square."""
    return (own - reference) ** 2 / 2


def k3(own, reference):
    """Without bias and never below zero."""
    return torch.exp(reference - own) - (reference - own) - 1


# Weights of tokens: their sum with the losses is the batch's loss.

def token_weights(batch, learnt):
    """All learnt tokens alike."""
    return learnt / learnt.sum()


def sequence_weights(batch, learnt):
    """All episodes alike, and in an episode all its learnt tokens."""
    weights, episodes = torch.zeros(len(learnt)), batch.episodes(learnt)
    for places in episodes:
        weights[places] = 1 / (len(episodes) * len(places))
    return weights


def constant_weights(batch, learnt, constant_tokens):
    """Sums of tokens, over episodes and a constant."""
    return learnt / (len(batch.episodes(learnt)) * constant_tokens)
