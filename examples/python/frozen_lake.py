"""Plays FrozenLake by its oracle, and a copy of the episode by one other move."""

import gymkhana_rl as gk

env = gk.load("gymkhana/frozen-lake@^0.1").env(seed=1)
observation, info = env.reset()
copy = env.fork()
while not env.done:
    observation, reward, terminated, truncated, info = env.step(env.advise())
print(observation, f"reward {reward}", sep="\n")
print(copy.step("left")[0])
