"""Trains Stable-Baselines3's PPO against a scripted bot: `python examples/sb3.py [STEPS]`."""

import sys

import gymnasium
from stable_baselines3 import PPO

import league.gym  # noqa: F401, registers league/Brawl-v0

env = gymnasium.make("league/Brawl-v0", opponent="constant", seat="random")
model = PPO("MlpPolicy", env)
model.learn(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)

won = 0
for seed in range(20):
    obs, info = env.reset(seed=seed)
    while "result" not in info:
        obs, _, _, _, info = env.step(model.predict(obs)[0])
    won += info["result"]["winner"] == info["result"]["seat"]
print(f"won {won} of 20 matches after {model.num_timesteps} steps")
