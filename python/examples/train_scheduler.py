"""Trains a small scheduler with PPO, saves it as ONNX, and judges it on scenarios it has not seen.

Needs ``pip install tabane[gym] stable-baselines3 onnx``::

    python train_scheduler.py --out policy.onnx             # some ten minutes on a core
    python train_scheduler.py --judge policy.onnx           # the table of docs/python.md

What was learnt about learning here is in docs/python.md, "A trained scheduler".
"""

from __future__ import annotations

import argparse
import json
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import tabane
from tabane import gym

#: Worlds at a time, and decisions of each between two updates.
WORLDS, ROUND = 64, 1024
#: Payload of a full segment, bytes.
SEGMENT = 1428
#: Of the start: how often it does something else.
SMOOTHING = 0.03
#: Sets of held-out scenarios, 16 each, by the seed that draws them.
HELD_OUT = range(2, 12)
BASELINES = ("minrtt", "necf", "ecf", "blest")

Array = np.ndarray[Any, Any]


#: Of a series of requests, which no scheduler shortens: 20 pauses of 100 ms.
PAUSES_S = 2.0


def rate_bps(scenario: tabane.Scenario) -> float:
    """What its links carry together."""
    rates = re.findall(r'rate = "([0-9.]+)Mbps"', scenario.toml)
    return sum(float(rate) * 1e6 for rate in rates)


def pauses_s(scenario: tabane.Scenario) -> float:
    """How long it waits for nothing."""
    return PAUSES_S if "think" in scenario.toml else 0.0


def seconds(scenario: tabane.Scenario, scheduler: str, seed: int) -> float:
    """How long its flows take with one of the engine's schedulers, pauses apart."""
    sets = {"host.server.scheduler": scheduler}
    ended: float = tabane.run(scenario, seed=seed, set=sets, watch=False).ended_s
    return ended - pauses_s(scenario)


class Worlds(VecEnv):
    """The environments as PPO wants them, and the reward that it can learn from.

    Minus the time is what counts, but most of it nobody can change: data takes its time on the
    links. What is left of it is time that the links were not used. So each segment that is sent
    earns the time that it takes on all links together, and an episode is worth minus the wasted
    time; of the time that ``minrtt`` takes, so that short and long scenarios count alike. The sum
    differs from minus the time by a constant: what is best stays best.
    """

    def __init__(self, scenarios: Sequence[tabane.Scenario]) -> None:
        """Makes them; each scenario runs once with ``minrtt`` for its time."""
        self.envs = gym.SchedulerVectorEnv(WORLDS, turned(scenarios, 1), threads=0)
        space = self.envs.single_observation_space, self.envs.single_action_space
        super().__init__(WORLDS, *space)
        times = np.array([seconds(scenario, "minrtt", 1) for scenario in scenarios])
        earned = np.array([SEGMENT * 8 / rate_bps(scenario) for scenario in scenarios])
        self.unit, self.earned = 1 / times, earned / times
        self.chosen: Array = np.zeros(WORLDS, dtype=np.int64)
        self.steps = 0
        #: Observations of some moments before.
        self.kept: deque[Array] = deque(maxlen=3)
        self.reset()

    def reset(self) -> Array:
        """Begins everywhere."""
        self.seen, _ = self.envs.reset(seed=1)
        # Whose turn it is: the n-th world begins with the n-th.
        self.turn = np.arange(WORLDS)
        self.over = np.zeros(WORLDS, dtype=bool)
        return self.seen

    def step_async(self, actions: Array) -> None:
        """Takes the actions."""
        self.chosen = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Goes to the next decision of each."""
        able = np.column_stack([able_of(self.seen), np.zeros(WORLDS)])
        sends = able[np.arange(WORLDS), self.chosen] * (self.seen[:, 2] == 0) * ~self.over
        # A step from the end of an episode begins the next one, whatever is chosen.
        self.turn[self.over] += WORLDS
        at = self.turn % len(self.unit)
        if self.steps % 1000 == 0:
            self.kept.append(self.seen)
        self.steps += 1
        self.seen, passed, ended, cut, _ = self.envs.step(self.chosen)
        self.over = ended | cut
        rewards = passed * self.unit[at] + sends * self.earned[at]
        return self.seen, rewards.astype(np.float32), self.over, [{} for _ in range(WORLDS)]

    def close(self) -> None:
        """Nothing to do."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """What Stable-Baselines3 asks for."""
        return [getattr(self, attr_name, None)] * WORLDS

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing to set."""

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Nothing to call."""
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Not wrapped."""
        return [False] * WORLDS


def turned(scenarios: Sequence[tabane.Scenario], seed: int) -> list[tabane.Scenario]:
    """So that with a seed the n-th of several environments begins with the n-th scenario."""
    return [scenarios[(n - seed) % len(scenarios)] for n in range(len(scenarios))]


def able_of(seen: Array) -> Array:
    """Which subflows could carry the data: a row a world."""
    return seen[:, gym.CONNECTION + 1 :: gym.SUBFLOW]


def teacher(seen: Array) -> Array:
    """Roughly what ``ecf`` does, from an observation: its comparison of two completion times."""

    def column(n: int, half: float) -> Array:
        share = seen[:, gym.CONNECTION + n :: gym.SUBFLOW].astype(float)
        return np.asarray(half * share / np.maximum(1 - share, 1e-6))

    able, usable = able_of(seen) > 0, seen[:, gym.CONNECTION :: gym.SUBFLOW] > 0
    rtt = np.where(usable, column(3, 0.1), np.inf)
    rounds = column(9, 1.0)
    rows = np.arange(len(seen))
    fast, best = rtt.argmin(axis=1), np.where(able, rtt, np.inf).argmin(axis=1)
    alone = (1 + rounds[rows, fast]) * rtt[rows, fast]
    return np.where(alone < rtt[rows, best], fast, best)


def imitate(model: PPO, worlds: Worlds, decisions: int) -> None:
    """Makes the network decide much as `teacher` does: a start from which PPO finds better.

    Not wholly: one that is sure of itself tries nothing else, and learns nothing.
    """
    seen, rows, labels = worlds.reset(), [], []
    for _ in range(decisions // WORLDS):
        rows.append(seen.copy())
        labels.append(teacher(seen))
        worlds.step_async(labels[-1])
        seen, *_ = worlds.step_wait()
    x, y = torch.as_tensor(np.concatenate(rows)), torch.as_tensor(np.concatenate(labels))
    network = actor(model)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for epoch in range(6):
        for batch in torch.randperm(len(x)).split(2048):
            loss = torch.nn.functional.cross_entropy(
                network(x[batch]), y[batch], label_smoothing=SMOOTHING
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(f"imitation, epoch {epoch}: cross-entropy {loss.item():.4f}")


def actor(model: PPO) -> torch.nn.Sequential:
    """The part of the network that decides: from an observation to a number an action."""
    policy = model.policy
    return torch.nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)


def export(model: PPO, worlds: Worlds, path: Path) -> None:
    """Saves what decides, and for which observations it was trained.

    Beside it, as JSON, some observations and what the network answers here: other programs are
    tested against them.
    """
    seen = torch.zeros(1, model.observation_space.shape[0])
    names: dict[str, Any] = {"input_names": ["observation"], "output_names": ["actions"]}
    torch.onnx.export(actor(model), (seen,), str(path), opset_version=17, dynamo=False, **names)
    network = onnx.load(path)
    onnx.helper.set_model_props(network, {"tabane.observation": gym.OBSERVATION})
    onnx.save(network, path)
    rows = torch.as_tensor(np.concatenate([worlds.seen, *worlds.kept]))
    with torch.no_grad():
        answers = actor(model)(rows)
    # Nine digits are enough to read the same number again.
    short = [[[float(f"{x:.9g}") for x in row] for row in t.tolist()] for t in (rows, answers)]
    lines = ",\n".join(json.dumps(pair) for pair in zip(*short, strict=True))
    path.with_suffix(".json").write_text(f"[\n{lines}\n]\n", "utf-8")


def train(path: Path, decisions: int) -> None:
    """Trains, and saves what it has after each tenth."""
    torch.set_num_threads(1)
    # As many of either kind; on downloads alone there is next to nothing to learn.
    worlds = Worlds(gym.draw(1, 64) + gym.draw(1, 64, requests=True))
    model = PPO(
        "MlpPolicy",
        worlds,
        learning_rate=lambda left: 2e-4 * left + 1e-5,
        n_steps=ROUND,
        batch_size=16384,
        n_epochs=4,
        # What a choice costs shows round trips later, and that is hundreds of decisions: with a
        # horizon of fifty it unlearns to wait.
        gamma=0.9995,
        gae_lambda=0.99,
        clip_range=0.1,
        policy_kwargs={"net_arch": {"pi": [32, 32], "vf": [64, 64]}},
        device="cpu",
        seed=1,
    )
    imitate(model, worlds, 400_000)
    export(model, worlds, path)
    for tenth in range(10 if decisions else 0):
        model.learn(decisions // 10, reset_num_timesteps=tenth == 0)
        export(model, worlds, path)
        print(f"{tenth + 1} tenths of {decisions} decisions: saved to {path}", flush=True)


def times(path: Path, scenarios: Sequence[tabane.Scenario], seed: int) -> Array:
    """How long the flows of each scenario take with a saved network."""
    import onnxruntime

    network = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    envs = gym.SchedulerVectorEnv(len(scenarios), turned(scenarios, seed), threads=0)
    seen, _ = envs.reset(seed=seed)
    took = np.full(len(scenarios), np.nan)
    while np.isnan(took).any():
        rows = [network.run(None, {"observation": row[None]})[0][0] for row in seen]
        seen, _, ended, cut, info = envs.step(np.stack(rows).argmax(axis=1))
        first = (ended | cut) & np.isnan(took)
        took[first] = info["time_s"][first]
    return took - np.array([pauses_s(scenario) for scenario in scenarios])


def judge(path: Path) -> None:
    """Compares it with the engine's own on held-out scenarios: ratios of times, paired."""
    print("| of the time with | requests | 95 % interval | downloads | 95 % interval |")
    print("|---|---|---|---|---|")
    kinds = [ratios(path, requests) for requests in (True, False)]
    for name in BASELINES:
        cells = [cell for kind in kinds for cell in interval(kind[name])]
        print(f"| `{name}` | {' | '.join(cells)} |")


def ratios(path: Path, requests: bool) -> dict[str, list[float]]:
    """Logarithms of its times over those of the engine's schedulers, a mean of each set."""
    logs: dict[str, list[float]] = {name: [] for name in BASELINES}
    for seed in HELD_OUT:
        scenarios = gym.draw(seed, 16, requests=requests)
        learned = times(path, scenarios, seed)
        for name in BASELINES:
            own = [seconds(scenario, name, seed + n) for n, scenario in enumerate(scenarios)]
            logs[name].append(float(np.log(learned / np.array(own)).mean()))
    return logs


def interval(logs: Sequence[float]) -> tuple[str, str]:
    """The mean ratio and its 95 % interval: Student's t with nine degrees of freedom."""
    mean, half = np.mean(logs), 2.262 * np.std(logs, ddof=1) / len(logs) ** 0.5
    low, high = np.exp(mean - half), np.exp(mean + half)
    return f"{np.exp(mean):.3f}", f"{low:.3f} to {high:.3f}"


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("policy.onnx"))
    parser.add_argument("--decisions", type=int, default=6_000_000, help="0: imitation alone")
    parser.add_argument("--judge", type=Path, help="judge this file, train nothing")
    args = parser.parse_args()
    if args.judge is None:
        train(args.out, args.decisions)
    judge(args.judge or args.out)


if __name__ == "__main__":
    main()
