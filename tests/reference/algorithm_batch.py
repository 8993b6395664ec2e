"""Building blocks of the presets' formulas: a batch, comparisons, losses of tokens and their weights.

All numbers have double precision. A vector "over tokens", "over turns" or "over trajectories" has one number for each
of them in the batch, ordered by group, episode, seat, turn and token."""
import dataclasses

import torch

EPSILON = 1e-6
WHITEN_EPSILON = 1e-8


@dataclasses.dataclass
class Trajectory:
    """One seat's part of an episode. `reward` is its total; `turn_rewards` and `gains` are per turn. `contexts` are lists
    of tokens. In a tree, a turn that an earlier episode shares has that episode's tokens."""
    group: int
    episode: int
    seat: int
    finished: bool
    void: bool
    reward: float
    turn_rewards: list
    gains: list
    turns: list = dataclasses.field(default_factory=list)
    contexts: list = dataclasses.field(default_factory=list)
    end_value: float = 0.0

    @property
    def tokens(self):
        """Indices of all its tokens."""
        return [place for turn in self.turns for place in turn.tokens]

    def steps(self):
        """Reward of each turn; the last one also gets the part of the total that belongs to no turn."""
        steps = [reward + gain for reward, gain in zip(self.turn_rewards, self.gains)]
        steps[-1] += self.reward - sum(self.turn_rewards)
        return steps


@dataclasses.dataclass
class Turn:
    """Turn `index` of its trajectory, and the indices of its tokens. `is_shared`: they belong to an earlier episode. `cut`: a
    limit of tokens cut the reply."""
    trajectory: Trajectory
    index: int
    anchor: str
    tokens: list
    is_shared: bool
    cut: bool = False

    @property
    def is_last(self):
        """Whether it is the trajectory's last turn."""
        return self.index + 1 == len(self.trajectory.turns)


@dataclasses.dataclass
class Update:
    """Result of a preset. `advantages` and `trained` are over tokens; `trained` marks the tokens in the loss."""
    advantages: torch.Tensor
    trained: torch.Tensor
    loss: torch.Tensor
    value_loss: torch.Tensor | None = None
    averages_after: list | None = None


class Batch:
    """A fixture as vectors over tokens, with its trajectories and turns. Each case creates its own."""

    def __init__(self, fixture):
        self.history, self.averages = fixture["history"], fixture["averages"]
        self.trajectories, tokens = [], []
        for group, episodes in enumerate(fixture["groups"]):
            for episode, content in enumerate(episodes):
                for seat, trajectory in enumerate(content["seats"]):
                    place = (group, episode, seat, content["finished"])
                    owner = self.trajectory_at(group, trajectory.get("shares", {}).get("episode"), seat)
                    self.trajectories.append(read_trajectory(place, trajectory, tokens, owner))
        self.turns = [turn for trajectory in self.trajectories for turn in trajectory.turns]
        self.turn_index = torch.tensor([turn.index for turn in self.turns for _ in turn.tokens if not turn.is_shared])
        for name in ("behaviour", "proximal", "reference", "entropy", "value"):
            setattr(self, name, torch.tensor([token[name] for token in tokens]))
        self.current = torch.tensor([token["current"] for token in tokens], requires_grad=True)
        self.value_now = torch.tensor([token["value_now"] for token in tokens], requires_grad=True)
        self.entropy_now = self.entropy.clone().requires_grad_()
        self.version = torch.tensor([token["version"] for token in tokens])
        self.everything = torch.ones(len(tokens), dtype=torch.bool)
        # The tokens of the optimiser step: all of them, unless a case has several minibatches.
        self.minibatch = self.everything

    def trajectory_at(self, group, episode, seat):
        """The trajectory at a place; none if there is none."""
        places = {(each.group, each.episode, each.seat): each for each in self.trajectories}
        return places.get((group, episode, seat))

    @property
    def rewards(self):
        """Rewards of the trajectories."""
        return torch.tensor([trajectory.reward for trajectory in self.trajectories])

    def all_rivals(self):
        """Indices of the trajectories of one group, of all seats."""
        return pools(trajectory.group for trajectory in self.trajectories)

    def rivals(self):
        """Indices of the trajectories that are compared: one seat of one group."""
        return pools((trajectory.group, trajectory.seat) for trajectory in self.trajectories)

    def rival_turns(self):
        """Turns of all trajectories of one seat in one group."""
        return pools((turn.trajectory.group, turn.trajectory.seat) for turn in self.turns)

    def from_trajectories(self, values):
        """Vector over tokens from one over trajectories."""
        return torch.cat([value.repeat(len(each.tokens)) for value, each in zip(values, self.trajectories)])

    def from_turns(self, values):
        """Vector over tokens from one over turns."""
        return torch.cat([value.repeat(len(turn.tokens)) for value, turn in zip(values, self.turns)])

    def where(self, keep):
        """Mask of the tokens of the trajectories for which `keep` is true."""
        return self.from_trajectories(torch.tensor([keep(trajectory) for trajectory in self.trajectories]))

    def episodes(self, trained):
        """Indices of the trained tokens of each episode that has any, over all seats."""
        owners = [(each.group, each.episode) for each in self.trajectories for _ in each.tokens]
        kept = [[place for place in episode if trained[place]] for episode in pools(owners)]
        return [episode for episode in kept if episode]


def read_trajectory(place, content, tokens, owner):
    """A trajectory of the fixture; appends its tokens to `tokens`. Its first turns may belong to `owner`."""
    turns, shared = content["turns"], content.get("shares", {}).get("turns", 0)
    trajectory = Trajectory(*place, any(turn["void"] for turn in turns), content["reward"],
                            [turn["reward"] for turn in turns], [turn["gain"] for turn in turns],
                            end_value=content.get("end_value", 0.0))
    for index, turn in enumerate(turns):
        if index < shared:
            places = owner.turns[index].tokens
        else:
            places = list(range(len(tokens), len(tokens) + len(turn["tokens"])))
            tokens.extend(turn["tokens"])
        trajectory.turns.append(
            Turn(trajectory, index, turn["anchor"], places, index < shared, turn.get("cut", False)))
    first = 0
    for count in content.get("contexts", [len(turns)]):
        trajectory.contexts.append([place for turn in trajectory.turns[first:first + count] for place in turn.tokens])
        first += count
    return trajectory


# Comparisons.

def pools(keys):
    """Indices of equal keys, one list per key."""
    places = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return list(places.values())


def within(places_of_pools, values, rule):
    """Applies the rule to each pool of values."""
    result = torch.zeros_like(values)
    for places in places_of_pools:
        result[places] = rule(values[places])
    return result


def sample_std(values):
    """Sample standard deviation with divisor n - 1; 0 for a single value."""
    return values.std() if len(values) > 1 else torch.tensor(0.0)


def centre(values):
    """Values minus their mean."""
    return values - values.mean()


def normalise(values):
    """Values minus their mean, divided by the standard deviation."""
    return centre(values) / (sample_std(values) + EPSILON)


def leave_one_out(values):
    """Values minus the mean of the others; 0 for a single value."""
    if len(values) == 1:
        return torch.zeros_like(values)
    return values - (values.sum() - values) / (len(values) - 1)


def normalise_population(values):
    """Values minus their mean, divided by the standard deviation with divisor n."""
    return centre(values) / (values.std(correction=0) + EPSILON)


def whiten(values, floor=0.0):
    """Values with mean 0 and variance 1; those whose deviation is below the floor are divided by the floor."""
    return centre(values) / torch.sqrt(values.var() + WHITEN_EPSILON).clamp(min=floor)


def whiten_trained(values, trained, floor=0.0):
    """Whitens the trained tokens by their own mean and variance."""
    result = values.clone()
    result[trained] = whiten(values[trained], floor)
    return result


# Rewards and credit.

def penalise_length(batch, tokens, buffer):
    """DAPO's soft penalty: 0 up to the buffer, then falling to -1."""
    for trajectory in batch.trajectories:
        over = len(trajectory.tokens) - (tokens - buffer)
        trajectory.reward -= min(max(over / buffer, 0.0), 1.0)


def penalise_divergence(batch, beta):
    """Subtracts a trajectory's divergence from the reference (k1) from its reward."""
    divergence = k1(batch.behaviour, batch.reference)
    for trajectory in batch.trajectories:
        trajectory.reward -= beta * divergence[trajectory.tokens].sum().item()


def returns(steps, discount):
    """Discounted returns."""
    result, ahead = [], 0.0
    for step in reversed(steps):
        ahead = step + discount * ahead
        result.insert(0, ahead)
    return result


def over_turns(batch, rule):
    """The rule's number for each turn of every trajectory's steps, over turns."""
    return torch.tensor([number for trajectory in batch.trajectories for number in rule(trajectory.steps())])


def by_trajectory(batch, values):
    """One list per trajectory, from a vector over turns."""
    return [part.tolist() for part in values.split([len(trajectory.turns) for trajectory in batch.trajectories])]


def gae(rewards, values, discount, decay, end_value=0.0):
    """Generalised advantages; the value after the end is 0 unless the episode was cut short."""
    result, ahead, next_value = [], 0.0, end_value
    for reward, value in reversed(list(zip(rewards, values))):
        ahead = reward + discount * next_value - value + discount * decay * ahead
        next_value = value
        result.insert(0, ahead)
    return result


def turn_gae(batch, critic):
    """Advantages over turns, and the values used: those of the turns' first tokens."""
    values = batch.value[first_tokens(batch)]
    advantages = [gae(trajectory.steps(), own, critic["discount"], critic["lambda"], trajectory.end_value)
                  for trajectory, own in zip(batch.trajectories, by_trajectory(batch, values))]
    return torch.tensor(sum(advantages, [])), values


def first_tokens(batch):
    """Indices of the turns' first tokens."""
    return [turn.tokens[0] for turn in batch.turns]


# Ratios.

def token_ratios(batch):
    """Ratio of each token's current to its behaviour probability."""
    return torch.exp(batch.current - batch.behaviour)


def mean_over(spans, values, trained):
    """Replaces each span of tokens by the mean of its trained ones."""
    result = torch.zeros_like(values)
    for places in spans:
        kept = [place for place in places if trained[place]]
        if kept:
            result[places] = values[kept].mean()
    return result


def sequence_ratios(batch, trained):
    """Geometric mean of the ratios of a context's trained tokens."""
    spans = [context for trajectory in batch.trajectories for context in trajectory.contexts]
    return torch.exp(mean_over(spans, batch.current - batch.behaviour, trained))


def turn_ratios(batch, trained):
    """Geometric mean of the ratios of a turn's trained tokens."""
    return torch.exp(mean_over([turn.tokens for turn in batch.turns], batch.current - batch.behaviour, trained))


# Losses of tokens.

def clip(ratios, advantages, low, high):
    """PPO: no gain from leaving the clip range."""
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - low, 1 + high) * advantages)


def plain(batch, advantages):
    """REINFORCE."""
    return -advantages * batch.current


def k1(own, reference):
    """Difference of the log-probabilities (k1), unbiased."""
    return own - reference


def k2(own, reference):
    """Half the squared difference (k2)."""
    return (own - reference) ** 2 / 2


def k3(own, reference):
    """k3: unbiased and never negative."""
    return torch.exp(reference - own) - (reference - own) - 1


# Weights of tokens: their sum with the losses is the batch's loss.

def token_weights(batch, trained):
    """Equal weights of all trained tokens."""
    trained = trained & batch.minibatch
    return trained / trained.sum()


def sequence_weights(batch, trained):
    """Equal weights of all episodes, and of the trained tokens within an episode."""
    return equal_weights(batch.episodes(trained & batch.minibatch), len(trained))


def seat_weights(batch, trained):
    """Equal weights of all seats' parts of episodes, and of the trained tokens within a part."""
    parts = [[place for place in each.tokens if trained[place]] for each in batch.trajectories]
    return equal_weights([part for part in parts if part], len(trained))


def equal_weights(sequences, count):
    """Equal weights of the sequences, and of the tokens within a sequence."""
    weights = torch.zeros(count)
    for places in sequences:
        weights[places] = 1 / (len(sequences) * len(places))
    return weights


def constant_weights(batch, trained, constant_tokens):
    """Sums over tokens, divided by the episodes times a constant."""
    trained = trained & batch.minibatch
    return trained / (len(batch.episodes(trained)) * constant_tokens)
