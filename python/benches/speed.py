"""What the package does in a second: figures, nothing asserted.

    python python/benches/speed.py [--ray]

Decisions of the environments with a policy that does nothing, decisions of a scheduler written in
Python, and, with --ray, what a run costs more on a Ray cluster of two nodes than on threads here.
Medians of five, with the least and the most: they say how quiet the machine is.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tabane
from tabane import gym

TWO = tabane.Scenario(
    duration="20s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps", "delay": "30ms"}},
    flow=[{"bulk": "30MB"}],
)
ONE = tabane.Scenario(
    duration="10s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms", "loss": "0.5%"}},
    flow=[{"bulk": "2MB"}],
)


class Fastest(tabane.Scheduler):
    """The smallest RTT that has space; counts what it is asked."""

    asked = 0

    def select(
        self, work: tabane.Work, subflows: list[tabane.SubflowView]
    ) -> tabane.SubflowView | None:
        """The choice."""
        Fastest.asked += 1
        able = [s for s in subflows if s.usable and s.sendable > 0]
        return min(able, key=lambda s: s.srtt, default=None)


def per_second(what: str, target: int, run: Callable[[], int]) -> None:
    """Prints how many things a second `run` does, by the number it gives back."""
    rates = []
    for _ in range(5):
        begin = time.perf_counter()
        done = run()
        rates.append(done / (time.perf_counter() - begin))
    rate = statistics.median(rates)
    spread = f"{min(rates):.0f} to {max(rates):.0f}"
    print(f"{what:<48} {rate:>9.0f} /s   ({spread}; aim {target})")


def environments() -> None:
    """Steps with an action that is always the same."""
    for kind, many, action in (
        ("scheduler", gym.SchedulerVectorEnv(64, threads=0), 0),
        ("congestion", gym.CongestionVectorEnv(64, threads=0), 2),
    ):
        many.reset(seed=1)
        actions = np.full(64, action)

        def steps(many: object = many, actions: object = actions) -> int:
            for _ in range(300):
                many.step(actions)  # type: ignore[attr-defined]
            return 300 * 64

        per_second(f"{kind}, 64 environments on one core", 100_000, steps)
    env = gym.SchedulerEnv()
    env.reset(seed=1)

    def single() -> int:
        for _ in range(20_000):
            _, _, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                env.reset()
        return 20_000

    per_second("scheduler, one environment", 100_000, single)


def policy() -> None:
    """A scheduler in Python."""

    def run() -> int:
        before = Fastest.asked
        tabane.run(TWO, set={"defaults.scheduler": Fastest}, watch=False)
        return Fastest.asked - before

    per_second("a scheduler in Python", 15_000, run)


def cluster() -> None:
    """400 runs on threads and on Ray."""
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    ray.init(address=nodes.address, log_to_driver=False)

    def timed(executor: str, seeds: range) -> float:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            tabane.sweep(ONE, seeds=seeds, executor=executor, progress=False, cache=Path(folder))
            return time.perf_counter() - begin

    # Workers start with the first tasks.
    timed("ray", range(1000, 1020))
    local, there = timed("threads", range(400)), timed("ray", range(400))
    overhead = 1e3 * (there - local) / 400
    print(f"400 runs: {local:.2f} s on threads, {there:.2f} s on Ray: {overhead:.2f} ms a run more")
    print("(aim 10)")
    ray.shutdown()
    nodes.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ray", action="store_true", help="also the cluster; needs ray")
    arguments = parser.parse_args()
    environments()
    policy()
    if arguments.ray:
        cluster()
