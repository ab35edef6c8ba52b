"""Trains a small scheduler with PPO and judges it on the held-out scenarios.

Needs ``pip install tabane[gym] stable-baselines3``; a few minutes on two cores.
"""

from __future__ import annotations

from statistics import mean

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import tabane
from tabane import gym

STEPS = 200_000


def main() -> None:
    """Trains, then compares the time of each held-out transfer with the engine's own schedulers."""
    # What a choice costs shows round trips later, and that is hundreds of decisions.
    model = PPO(
        "MlpPolicy",
        make_vec_env(gym.SchedulerEnv, 8),
        gamma=0.9995,
        gae_lambda=0.99,
        verbose=1,
        device="cpu",
        seed=1,
    )
    model.learn(STEPS)
    times: list[float] = []
    env = gym.SchedulerEnv(gym.HELD_OUT)
    for n in range(len(gym.HELD_OUT)):
        seen, info = env.reset(seed=1) if n == 0 else env.reset()
        over = False
        while not over:
            action, _ = model.predict(seen, deterministic=True)
            seen, _, terminated, truncated, info = env.step(np.int64(action))
            over = terminated or truncated
        times.append(info["time_s"])
    print(f"{'agent':8} {mean(times):.3f} s on average")
    for scheduler in ("minrtt", "necf", "ecf"):
        runs = [
            tabane.run(scenario, set={"host.server.scheduler": scheduler}, watch=False)
            for scenario in gym.HELD_OUT
        ]
        print(f"{scheduler:8} {mean(run.ended_s for run in runs):.3f} s on average")


if __name__ == "__main__":
    main()
