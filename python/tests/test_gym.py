"""Environments: what Gymnasium asks for, and the same episodes by seed."""

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("fails", [True, False])
def test_a_flow_that_fails_ends_an_episode_before_its_time(fails: bool) -> None:
    scenario = tabane.Scenario(
        duration="60s",
        link={
            "wifi": {"rate": "300kbps", "delay": "10ms"},
            "lte": {"rate": "300kbps", "delay": "30ms"},
        },
        flow=[{"bulk": "100MB"}],
        at=[{"time": "5s", "host": "client", "abort": True}] if fails else [],
    )
    env = gym.SchedulerEnv([scenario])
    env.reset(seed=1)
    many = gym.SchedulerVectorEnv(2, [scenario], threads=2)
    many.reset(seed=1)
    over = (False, False)
    while not any(over):
        _, _, terminated, truncated, info = env.step(0)
        _, _, each_terminated, each_truncated, _ = many.step(np.zeros(2, dtype=int))
        over = (terminated, truncated)
        assert (bool(each_terminated[0]), bool(each_truncated[0])) == over
    assert over == (fails, not fails)
    assert info["time_s"] == pytest.approx(5.0 if fails else 60.0, abs=1.0)


def test_many_are_what_each_is_alone() -> None:
    many = gym.SchedulerVectorEnv(3, threads=2)
    seen, _ = many.reset(seed=5)
    alone = []
    for n in range(3):
        env = gym.SchedulerEnv()
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


def test_the_first_scenario_follows_from_the_seed() -> None:
    def begins(env: gym.SchedulerEnv, seed: int | None) -> float:
        return float(env.reset(seed=seed)[1]["time_s"])

    env = gym.SchedulerEnv(gym.HELD_OUT)
    alone = [begins(gym.SchedulerEnv([scenario]), n) for n, scenario in enumerate(gym.HELD_OUT)]
    assert [begins(env, seed) for seed in range(16)] == alone
    assert len(set(alone)) > 12
    # Without a seed the episodes that follow: each has the next seed, and so the next scenario.
    assert [begins(env, seed) for seed in (3, None, None)] == alone[3:6]


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


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_an_environment_is_the_same_in_whatever_thread() -> None:
    alone, moved = gym.SchedulerEnv([TWO]), gym.SchedulerEnv([TWO])
    assert np.array_equal(alone.reset(seed=3)[0], moved.reset(seed=3)[0])
    over, steps = False, 0
    while not over:
        seen, reward, over, _, info = alone.step(steps % 2)
        action = steps % 2
        there = in_a_thread(lambda action=action: moved.step(action))
        assert np.array_equal(seen, there[0]) and (reward, over, info) == (*there[1:3], there[4])
        steps += 1
    assert steps > 100
    for threads in (0, 2):
        many = gym.SchedulerVectorEnv(4, [TWO], threads=threads)
        many.reset(seed=1)
        assert in_a_thread(lambda many=many: many.step(np.zeros(4, dtype=int)))[0].shape[0] == 4


def test_an_environment_goes_in_another_thread_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    envs = [gym.SchedulerEnv([TWO]), gym.SchedulerVectorEnv(2, [TWO], threads=0)]
    for env in envs:
        env.reset(seed=1)
    del env
    in_a_thread(envs.clear)
    assert said == []


def test_other_threads_go_on_while_many_worlds_begin() -> None:
    many = gym.SchedulerVectorEnv(64, threads=0)
    begin, ran = threading.Event(), threading.Event()

    def wait() -> None:
        begin.wait()
        ran.set()

    thread = threading.Thread(target=wait)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        # Nobody is made to give the interpreter away.
        sys.setswitchinterval(1000)
        begin.set()
        for _ in range(20):
            many.reset(seed=1)
        assert ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="SKIPPED: threads not listed here")
def test_threads_end_when_an_environment_is_closed() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    many = gym.SchedulerVectorEnv(8, [TWO], threads=4)
    many.reset(seed=1)
    assert threads() == before + 4
    many.close()
    many.close()
    assert threads() == before
    single = gym.SchedulerEnv([TWO])
    single.reset(seed=1)
    single.close()
    zeros = np.zeros(8, dtype=int)
    for step in (lambda: many.step(zeros), lambda: single.step(0), lambda: single.reset()):
        with pytest.raises(RuntimeError, match="closed: make another"):
            step()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SKIPPED: there is no fork here")
def test_a_forked_process_is_told_that_it_has_no_threads() -> None:
    program = f"""
import os
import numpy as np
import tabane
from tabane import gym
two = [tabane.Scenario.parse({TWO.toml!r})]
many, alone = gym.SchedulerVectorEnv(2, two, threads=1), gym.SchedulerEnv(two)
many.reset(seed=1)
alone.reset(seed=1)
if os.fork() == 0:
    alone.step(0)
    try:
        many.step(np.zeros(2, dtype=int))
    except RuntimeError as error:
        print(error, flush=True)
    # It is not waited for, either.
    many.close()
    os._exit(0)
os.wait()
print(many.step(np.zeros(2, dtype=int))[0].shape[0])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", program]
    printed = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    told, after = printed.stdout.splitlines()
    assert "make the environment here" in told and after == "2"


@pytest.mark.parametrize("threads", [0, 2])
def test_an_exception_of_another_policy_ends_the_episode(threads: int) -> None:
    class Raises(tabane.CongestionController):
        after = 1000

        def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
            Raises.after -= 1
            if Raises.after == 0:
                raise KeyError("my own fault")

    env = gym.SchedulerVectorEnv(2, [TWO.host("server", congestion=Raises), TWO], threads=threads)
    env.reset(seed=1)
    with pytest.raises(tabane.PolicyError, match="my own fault") as caught:
        for _ in range(10_000):
            env.step(np.zeros(2, dtype=np.int64))
    assert isinstance(caught.value.__cause__, KeyError) and caught.value.time_s > 0
    # Neither the environment nor the thread keeps it.
    env.reset(seed=2)
    env.step(np.zeros(2, dtype=np.int64))
    assert tabane.run(TWO, watch=False).flows["bytes"][0] == 1_000_000
    # Nor what a first decision comes too late for.
    Raises.after = 1
    with pytest.raises(tabane.PolicyError, match="my own fault"):
        env.reset(seed=3)
    env.close()
