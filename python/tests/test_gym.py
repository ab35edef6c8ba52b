"""Environments: what Gymnasium asks for, and the same episodes by seed."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import tabane
from tabane import gym

TWO = tabane.Scenario(
    duration="20s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps", "delay": "30ms"}},
    flow=[{"bulk": "1MB"}],
)


@pytest.mark.parametrize("env", [gym.SchedulerEnv, gym.CongestionEnv])
def test_gymnasium_has_nothing_to_complain_of(env: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # It has no spec because it is not made by gymnasium.make, nor anything to render.
        warnings.filterwarnings("ignore", message=".*spec.*")
        check_env(env(), skip_render_check=True)


def test_the_first_subflow_with_space_is_as_good_as_the_policy_says() -> None:
    env = gym.SchedulerEnv([TWO])
    seen, first = env.reset(seed=1)
    total, over, info = 0.0, False, {}
    while not over:
        able = seen[gym.CONNECTION + 1 :: gym.SUBFLOW]
        space = [slot for slot in range(2) if able[slot] > 0]
        seen, reward, terminated, truncated, info = env.step(space[0])
        assert not truncated
        total, over = total + reward, terminated
    assert total == pytest.approx(first["time_s"] - info["time_s"])

    class First(tabane.Scheduler):
        def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int | None:
            return next((s.id for s in subflows if s.usable and s.sendable > 0), None)

    result = tabane.run(TWO, seed=1, set={"host.server.scheduler": First}, watch=False)
    assert result.ended_s == info["time_s"]


def test_many_are_what_each_is_alone() -> None:
    many = gym.SchedulerVectorEnv(3, threads=2)
    seen, _ = many.reset(seed=5)
    alone = []
    for n in range(3):
        env = gym.SchedulerEnv(gym.TRAINING[n:] + gym.TRAINING[:n])
        alone.append((env, *env.reset(seed=5 + n)))
    for n, (_, first, _) in enumerate(alone):
        assert np.array_equal(seen[n], first)
    rng = np.random.default_rng(1)
    for _ in range(300):
        actions = rng.integers(0, 2, 3)
        seen, rewards, terminated, truncated, _ = many.step(actions)
        if terminated.any() or truncated.any():
            break
        for n, (env, _, _) in enumerate(alone):
            mine, reward, *_ = env.step(int(actions[n]))
            assert np.array_equal(mine, seen[n]) and reward == rewards[n]


def test_episodes_follow_each_other() -> None:
    many = gym.CongestionVectorEnv(4, [TWO], threads=2)
    many.reset(seed=1)
    ends = np.zeros(4, dtype=int)
    begun = False
    for _ in range(5_000):
        _, _, terminated, truncated, info = many.step(np.full(4, 2))
        begun = begun or bool((ends > 0).any() and (info["time_s"] < 0.5).any())
        ends += terminated | truncated
    assert ends.min() >= 2 and begun


def test_the_sets_are_apart_and_fixed() -> None:
    training = {scenario.toml for scenario in gym.TRAINING}
    held_out = {scenario.toml for scenario in gym.HELD_OUT}
    assert (len(training), len(held_out)) == (64, 16) and not training & held_out
    first = gym.TRAINING[0].toml
    assert 'rate = "18.54Mbps"' in first, first
    # The same links, and requests.
    requests = gym.draw(1, 64, requests=True)
    assert 'rate = "18.54Mbps"' in requests[0].toml and "think" in requests[0].toml


def test_a_network_out_of_a_file_is_a_scheduler_or_says_what_is_missing(tmp_path: Path) -> None:
    # Wheels are built without networks, unless somebody asks for them.
    (tmp_path / "p.onnx").write_bytes(b"junk")
    with pytest.raises(tabane.ScenarioError, match=r"--features learned|no ONNX"):
        tabane.run(TWO, set={"host.server.scheduler": f"learned:file={tmp_path / 'p.onnx'}"})


def test_an_episode_that_asks_nothing_is_an_error() -> None:
    single = tabane.Scenario(link={"wifi": {"rate": "30Mbps"}}, flow=[{"bulk": "1MB"}])
    with pytest.raises(tabane.RunError, match="without a decision"):
        gym.SchedulerEnv([single]).reset(seed=1)
