"""Gymnasium environments: the engine asks, an agent answers (``pip install tabane[gym]``).

A step goes to the next decision of the run: of the scheduler (`SchedulerEnv`), or of congestion
control (`CongestionEnv`). Observations are ``float32`` from 0 to 1, an episode is a run. Episodes
go through the scenarios in turn; the same seed gives the same episodes: the first is of scenario
``seed % len(scenarios)``, and each further one has the next seed, and with it the next scenario.

Any thread may use an environment, one at a time: while another does, a call is a `RunError`. In a
forked process those with threads of their own are one, too: make them there.
"""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tabane import _native
from tabane._scenario import Scenario

_Array = np.ndarray[Any, Any]
_NUMBER = np.dtype("<f4")


#: Numbers of an observation of `SchedulerEnv`: of the connection, and of each subflow after them.
CONNECTION, SUBFLOW = _native.OBSERVATION[1:]
#: What the numbers mean, as a version: a saved network says it as ``tabane.observation``.
OBSERVATION: str = _native.OBSERVATION[0]


def draw(seed: int, count: int, *, requests: bool = False) -> list[Scenario]:
    """So many scenarios, always the same of a seed.

    Two paths each, of 2 to 100 Mbit/s and 5 to 150 ms one way, some of them with loss; a download
    of 1 to 10 MB or, with `requests`, 20 answers of 20 to 500 kB, each 100 ms after the last.
    """
    rng = random.Random(seed)

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    def link() -> dict[str, str]:
        loss = rng.choice([0.0, 0.0, 0.1, 1.0])
        return {
            "rate": f"{between(2, 100):.2f}Mbps",
            "delay": f"{between(5, 150):.1f}ms",
            "queue": f"{rng.choice([20, 100, 500])} packets",
            "loss": f"{loss}%",
        }

    def flow() -> dict[str, Any]:
        if not requests:
            return {"bulk": f"{between(1, 10):.2f}MB"}
        size = f"{between(20, 500):.1f}kB"
        return {"request": {"size": size, "request": "200B", "think": "100ms", "count": 20}}

    return [
        Scenario(
            name=f"drawn-{seed}-{n}",
            duration="60s",
            link={"a": link(), "b": link()},
            flow=[flow()],
        )
        for n in range(count)
    ]


#: Scenarios to train with: 64, always the same.
TRAINING: Sequence[Scenario] = tuple(draw(1, 64))
#: Scenarios to judge by, of the same kind and none of them in `TRAINING`: 16, always the same.
HELD_OUT: Sequence[Scenario] = tuple(draw(2, 16))


def _plans(scenarios: Sequence[Scenario], host: str, policy: str) -> list[_native.Plan]:
    key = f"host.{json.dumps(host, ensure_ascii=False)}.{policy}"
    plans = [plan for scenario in scenarios for plan in scenario._document({key: "agent"}).plans()]
    if not plans:
        raise ValueError("there is no scenario")
    return plans


def _checked(actions: _Array, worlds: int, count: int) -> _Array:
    """Actions of a step: a number below `count` for each world."""
    if actions.shape != (worlds,):
        raise ValueError(f"actions have shape {actions.shape}: make it ({worlds},)")
    if actions.dtype.kind not in "iu":
        raise _no_number(f"actions of type {actions.dtype}", count)
    numbers = actions.astype("<i8")
    # A step of many worlds takes microseconds: one look, in which what is negative is too large.
    if worlds > 0 and numbers.view("<u8").max() >= count:
        raise _no_action(actions[(actions < 0) | (actions >= count)][0], count)
    return numbers


def _no_number(what: str, count: int) -> TypeError:
    return TypeError(f"{what}: an action is a whole number, 0 to {count - 1}")


def _no_action(number: int, count: int) -> ValueError:
    return ValueError(f"there is no action {number}: they are 0 to {count - 1}")


class _Steps:
    """What the environments share: steps as arrays."""

    _envs: _native.Envs

    def _arrays(
        self, stepped: tuple[bytes, bytes, bytes, bytes]
    ) -> tuple[_Array, _Array, _Array, _Array, _Array]:
        observations, rewards, flags, times = stepped
        ends = np.frombuffer(flags, dtype=np.uint8)
        return (
            np.frombuffer(observations, dtype=_NUMBER).reshape(-1, self._envs.width),
            np.frombuffer(rewards, dtype="<f8"),
            ends == 1,
            ends == 2,
            np.frombuffer(times, dtype="<f8"),
        )


class _Env(gymnasium.Env[_Array, np.int64], _Steps):
    """One environment."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, envs: _native.Envs, actions: int) -> None:
        self._envs = envs
        self.observation_space = spaces.Box(0.0, 1.0, (envs.width,), np.float32)
        self.action_space = spaces.Discrete(actions)
        self._actions = actions
        self._over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Array, dict[str, Any]]:
        """Begins an episode: the first of a seed, without one the next.

        Consecutive seeds begin with consecutive scenarios.

        Returns:
            The observation, and ``{"time_s": simulated seconds}``.
        """
        super().reset(seed=seed)
        observations, _, _, _, times = self._arrays(self._envs.reset(seed))
        self._over = False
        return observations[0], {"time_s": float(times[0])}

    def step(self, action: np.int64 | int) -> tuple[_Array, float, bool, bool, dict[str, Any]]:
        """Goes to the next decision.

        Returns:
            Observation, reward, whether all flows are complete or have failed, whether the
            scenario's duration was over before, and ``{"time_s": simulated seconds}``.

        Raises:
            TypeError: the action is no whole number.
            ValueError: it is not in the action space.
            RuntimeError: there is no episode to go on with; after an exception, too.
        """
        try:
            number = operator.index(action)
        except TypeError:
            raise _no_number(repr(action), self._actions) from None
        if not 0 <= number < self._actions:
            raise _no_action(number, self._actions)
        if self._over:
            raise RuntimeError("the episode is over: call reset()")
        observation, reward, terminated, truncated, time = self._envs.step_one(number)
        self._over = terminated or truncated
        return np.frombuffer(observation, _NUMBER), reward, terminated, truncated, {"time_s": time}

    def close(self) -> None:
        """Ends the episode; there is no other after it."""
        self._envs.close()
        super().close()


class _VectorEnv(VectorEnv[_Array, _Array, _Array], _Steps):
    """Many environments; their worlds run in Rust threads."""

    metadata: dict[str, Any] = {
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(self, envs: _native.Envs, count: int, actions: int) -> None:
        self._envs = envs
        self.num_envs = count
        self.single_observation_space = spaces.Box(0.0, 1.0, (envs.width,), np.float32)
        self.single_action_space = spaces.Discrete(actions)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._actions = actions

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Array, dict[str, Any]]:
        """Begins an episode everywhere: environment ``n`` as one alone does with ``seed + n``.

        Returns:
            Observations of shape ``(num_envs, width)``, and ``{"time_s": (num_envs,)}``.
        """
        observations, _, _, _, times = self._arrays(self._envs.reset(seed))
        return observations, {"time_s": times}

    def step(self, actions: _Array) -> tuple[_Array, _Array, _Array, _Array, dict[str, Any]]:
        """Goes to the next decision of each; who is at the end begins anew with the next step.

        Args:
            actions: shape ``(num_envs,)``, whole numbers.

        Returns:
            Observations ``(num_envs, width)``, rewards, terminations and truncations
            ``(num_envs,)``, and ``{"time_s": (num_envs,)}``.

        Raises:
            TypeError: actions are no whole numbers; nothing is stepped.
            ValueError: there are not `num_envs`, or one is not in the action space; likewise.
            RuntimeError: nothing has begun; after an exception, too: call ``reset()``.
        """
        checked = _checked(np.asarray(actions), self.num_envs, self._actions)
        stepped = self._envs.step(checked.tobytes())
        observations, rewards, terminated, truncated, times = self._arrays(stepped)
        return observations, rewards, terminated, truncated, {"time_s": times}

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the episodes and their threads, as part of ``close()``; there are no others."""
        # Gymnasium closes what was not made to the end, too.
        if hasattr(self, "_envs"):
            self._envs.close()


class SchedulerEnv(_Env):
    """Which subflow carries the next data.

    Actions: the number of a subflow, in the order of the paths; `subflows`: wait. Asked whenever
    data is there and a subflow has space; to choose one without space is to wait for it.

    The reward is minus the simulated seconds since the last decision, so that the return of an
    episode is minus the time that the flows took from the first decision on. Runs in which nothing
    is asked are passed over.

    Observation: unsent bytes, the peer's window, whether it is a reinjection; then of each
    subflow whether it is usable, could carry this data now, is backup or potentially failed, its
    smoothed RTT, the share of its window in flight, its window, its space, whether it recovers from
    loss, the smallest RTT over its own, unsent bytes over its window. A network that was trained
    with it decides as ``learned:file=policy.onnx`` in every program of the project
    (docs/python.md).
    """

    def __init__(
        self, scenarios: Sequence[Scenario] = TRAINING, *, host: str = "server", subflows: int = 2
    ) -> None:
        """Makes the environment.

        Args:
            scenarios: an episode each, in turn.
            host: whose scheduler is asked: the one that sends.
            subflows: how many an observation has; further ones are not seen.
        """
        plans = _plans(scenarios, host, "scheduler")
        super().__init__(_native.Envs.schedulers(plans, 1, 0, subflows), subflows + 1)


class SchedulerVectorEnv(_VectorEnv):
    """As `SchedulerEnv`, many at a time."""

    def __init__(
        self,
        num_envs: int,
        scenarios: Sequence[Scenario] = TRAINING,
        *,
        host: str = "server",
        subflows: int = 2,
        threads: int = 1,
    ) -> None:
        """Makes the environments.

        Args:
            num_envs: how many.
            scenarios: an episode each, in turn.
            host: whose scheduler is asked.
            subflows: how many an observation has.
            threads: of Rust, which share the environments; 0: the caller's own.
        """
        plans = _plans(scenarios, host, "scheduler")
        envs = _native.Envs.schedulers(plans, num_envs, threads, subflows)
        super().__init__(envs, num_envs, subflows + 1)


class CongestionEnv(_Env):
    """How much may be in flight on a subflow.

    Actions: half the window, a segment less, as it is (2), a segment more, twice. Asked after
    every `every` acknowledgements, for each subflow by itself. A retransmission timeout sets the
    window to one segment; nothing else changes it.

    The reward of a decision is the segments delivered since the last, less `delay_weight` times
    the queueing delay in units of the smallest RTT of each, less `loss_weight` times the segments
    lost.

    Observation: smoothed RTT, queueing delay, window, share of it in flight, segments delivered,
    segments lost, delivery rate, whether the window is what limits, whether loss is repaired.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario] = TRAINING,
        *,
        host: str = "server",
        every: int = 1,
        loss_weight: float = 10.0,
        delay_weight: float = 0.5,
    ) -> None:
        """Makes the environment.

        Args:
            scenarios: an episode each, in turn.
            host: whose windows are asked for: the one that sends.
            every: acknowledgements to a decision.
            loss_weight: segments that one lost is worth.
            delay_weight: what a queueing delay of one smallest RTT takes from a segment.
        """
        plans = _plans(scenarios, host, "congestion")
        envs = _native.Envs.controllers(plans, 1, 0, every, loss_weight, delay_weight)
        super().__init__(envs, 5)


class CongestionVectorEnv(_VectorEnv):
    """As `CongestionEnv`, many at a time."""

    def __init__(
        self,
        num_envs: int,
        scenarios: Sequence[Scenario] = TRAINING,
        *,
        host: str = "server",
        every: int = 1,
        loss_weight: float = 10.0,
        delay_weight: float = 0.5,
        threads: int = 1,
    ) -> None:
        """Makes the environments; see `CongestionEnv` and `SchedulerVectorEnv`."""
        plans = _plans(scenarios, host, "congestion")
        envs = _native.Envs.controllers(plans, num_envs, threads, every, loss_weight, delay_weight)
        super().__init__(envs, num_envs, 5)
