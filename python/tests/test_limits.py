"""What goes wrong in a policy or in a step, or is broken off, and what is left after it."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabane
from tabane import gym, papers

TWO = tabane.Scenario(
    duration="20s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps", "delay": "30ms"}},
    flow=[{"bulk": "1MB"}],
)
#: A minute of a core, in which no agent is asked.
LONG = tabane.Scenario(
    duration="3600s",
    link={"wifi": {"rate": "1Gbps", "delay": "10ms"}},
    flow=[{"bulk": "40GB"}],
)


class Does(tabane.CongestionController):
    """Does something with its n-th acknowledgement."""

    left = -1

    @staticmethod
    def what() -> None:
        """What it does."""

    def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
        Does.left -= 1
        if Does.left == 0:
            Does.what()

    def on_congestion(self, event: tabane.Congestion, siblings: list[tabane.SubflowView]) -> None:
        pass


DOES = TWO.host("server", congestion=Does)
#: Laid over a paper; its runs are short, and come to nothing.
OF_PAPER: dict[str, Any] = {"host.server.congestion": Does, "duration": "1s"}


def fail() -> None:
    raise KeyError("my own fault")


def recurse(item: object = None) -> None:
    """Without an end, by way of the interpreter's own C code."""
    sorted([item], key=recurse)  # type: ignore[arg-type]


def printed_by(program: str) -> str:
    """What a program prints that imports this module; it may come to a bad end."""
    folders = [*sys.path, str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from test_limits import *\n" + program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize(
    "where",
    [
        "tabane.run(DOES)",
        "tabane.sweep(DOES, seeds=[1, 2], jobs=2, progress=False, cache=False)",
        "papers.run('ecf3', quick=True, jobs=1, set=OF_PAPER)",
        "papers.run('ecf3', quick=True, jobs=2, set=OF_PAPER)",
        "gym.SchedulerEnv([DOES]).reset()",
        "gym.SchedulerVectorEnv(2, [DOES], threads=0).reset()",
        "gym.SchedulerVectorEnv(2, [DOES], threads=2).reset()",
    ],
)
def test_a_recursion_without_end_is_an_exception_everywhere(where: str) -> None:
    program = f"""
Does.left, Does.what = 1, recurse
try:
    {where}
except tabane.PolicyError as error:
    print(type(error.__cause__).__name__)
"""
    assert printed_by(program) == "RecursionError\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_policy_raises_in_a_paper_is_told_and_over(jobs: int) -> None:
    # Twice: what the first one leaves must not keep the second one from asking.
    for _ in range(2):
        Does.left, Does.what = 1, staticmethod(fail)
        with pytest.raises(tabane.PolicyError, match="my own fault"):
            papers.run("ecf3", quick=True, jobs=jobs, set=OF_PAPER)
    Does.left = -1
    tabane.run(DOES)
    assert Does.left < -1, "it is asked"


def test_a_thousand_worlds_have_stacks() -> None:
    many = gym.SchedulerVectorEnv(1000, [TWO], threads=0)
    many.reset(seed=1)
    assert many.step(np.zeros(1000, dtype=int))[0].shape[0] == 1000
    many.close()


@pytest.mark.parametrize("threads", [0, 2])
def test_after_an_exception_there_is_nothing_to_step(threads: int) -> None:
    single = gym.SchedulerEnv([DOES])
    many = gym.SchedulerVectorEnv(2, [DOES], threads=threads)
    zeros = np.zeros(2, dtype=int)
    Does.what = staticmethod(fail)
    steps: tuple[tuple[Any, Callable[[], object]], ...] = (
        (single, lambda: single.step(0)),
        (many, lambda: many.step(zeros)),
    )
    for env, step in steps:
        with pytest.raises(RuntimeError, match=r"call reset\(\)"):
            step()
        for raises in (lambda step=step: [step() for _ in range(10_000)], env.reset):
            Does.left = -1
            env.reset(seed=1)
            step()
            Does.left = 1
            with pytest.raises(tabane.PolicyError, match="my own fault"):
                raises()
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"call reset\(\)"):
                    step()
        env.reset(seed=1)
        step()


def episode(inside: Callable[[], object] | None = None) -> list[tuple[float, float]]:
    """Times and rewards of an episode, with something that is done in the middle of a step."""
    if inside is not None:
        Does.left, Does.what = 200, staticmethod(inside)
    env = gym.SchedulerEnv([DOES])
    _, info = env.reset(seed=1)
    steps, over = [(info["time_s"], 0.0)], False
    while not over:
        _, reward, terminated, truncated, info = env.step(0)
        steps.append((info["time_s"], reward))
        over = terminated or truncated
    assert Does.left < 0
    return steps


def step_another() -> None:
    other = gym.SchedulerEnv([TWO])
    other.reset(seed=1)
    assert other.step(0)[0].shape == (gym.CONNECTION + 2 * gym.SUBFLOW,)


def run_with_an_agent() -> None:
    # Of no environment: it takes the first subflow with space.
    result = tabane.run(TWO, set={"host.server.scheduler": "agent"}, watch=False)
    assert result.flows["bytes"][0] == 1_000_000


def fail_in_another() -> None:
    Does.left, Does.what = 1, staticmethod(fail)
    with pytest.raises(tabane.PolicyError, match="my own fault"):
        gym.SchedulerEnv([DOES]).reset(seed=1)


@pytest.mark.parametrize("inside", ["step_another", "run_with_an_agent", "fail_in_another"])
def test_a_policy_may_run_another_world_within_its_own(inside: str) -> None:
    assert printed_by(f"print(len(episode()) > 100, episode() == episode({inside}))") == (
        "True True\n"
    )


@pytest.mark.parametrize("make", ["Env([DOES])", "VectorEnv(2, [DOES], threads=2)"])
def test_a_policy_cannot_close_its_own_environment(make: str) -> None:
    program = f"""
env = gym.Scheduler{make}
Does.left, Does.what = 1, lambda: env.close()
try:
    env.reset(seed=1)
except tabane.PolicyError as error:
    print(type(error.__cause__).__name__, "part of a step" in str(error))
env.close()
"""
    assert printed_by(program) == "RunError True\n"


def test_actions_outside_of_the_space_are_refused_and_step_nothing() -> None:
    single, many, same = (
        gym.SchedulerEnv([TWO]),
        gym.SchedulerVectorEnv(3, [TWO], threads=2),
        gym.SchedulerVectorEnv(3, [TWO], threads=2),
    )
    for env in (single, many, same):
        env.reset(seed=1)
    of_one: list[tuple[Any, type[Exception], str]] = [
        (3, ValueError, "no action 3: they are 0 to 2"),
        (-1, ValueError, "no action -1"),
        (0.9, TypeError, r"0\.9: an action is a whole number, 0 to 2"),
        ("1", TypeError, "whole number"),
        (None, TypeError, "whole number"),
    ]
    for action, error, message in of_one:
        with pytest.raises(error, match=message):
            single.step(action)
    of_many: list[tuple[Any, type[Exception], str]] = [
        ([0, 0], ValueError, r"shape \(2,\): make it \(3,\)"),
        ([0, 0, 0, 0], ValueError, r"shape \(4,\)"),
        ([[0], [0], [0]], ValueError, r"shape \(3, 1\)"),
        (0, ValueError, r"shape \(\)"),
        ([0.9, 0, 0], TypeError, "float64: an action is a whole number"),
        (["0", "0", "0"], TypeError, "whole number"),
        ([0, 0, 3], ValueError, "no action 3: they are 0 to 2"),
        ([0, 0, -1], ValueError, "no action -1"),
        (
            np.array([0, 0, 2**64 - 1], dtype=np.uint64),
            ValueError,
            "no action 18446744073709551615",
        ),
    ]
    for actions, error, message in of_many:
        with pytest.raises(error, match=message):
            many.step(actions)
    for actions in ([0, 1, 2], np.array([1, 1, 1], dtype=np.uint8), (np.int64(0), 2, 1)):
        seen = many.step(np.asarray(actions))
        for ours, theirs in zip(seen[:4], same.step(np.asarray(actions))[:4], strict=True):
            assert np.array_equal(ours, theirs)
    assert single.step(np.int64(1))[0].shape == single.step(np.array(1))[0].shape


@pytest.fixture
def alarm() -> Iterator[None]:
    """A signal in a moment, whose handler raises."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("SKIPPED: there are no timers here")

    def handler(*_: object) -> None:
        raise TimeoutError("that will do")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [None, 0, 2])
@pytest.mark.usefixtures("alarm")
def test_a_signal_breaks_off_a_step(threads: int | None) -> None:
    env = (
        gym.SchedulerEnv([LONG])
        if threads is None
        else gym.SchedulerVectorEnv(2, [LONG, TWO], threads=threads)
    )
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match="that will do"):
        env.reset(seed=0)
    assert time.monotonic() - begin < 15
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(0 if threads is None else np.zeros(2, dtype=int))
    env.close()


def test_when_a_run_of_a_sweep_fails_the_policies_of_the_others_are_not_asked() -> None:
    class AskedOn(tabane.Scheduler):
        asked, after = 0, 0

        def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int | None:
            AskedOn.asked += 1
            if AskedOn.asked == 500:
                raise KeyError("my own fault")
            AskedOn.after += AskedOn.asked > 500
            return next((s.id for s in subflows if s.usable and s.sendable > 0), None)

    # 60 000 questions in a thousandth of it.
    long = {"duration": "20000s", "flow.0.bulk": "2GB", "defaults.scheduler": AskedOn}
    with pytest.raises(tabane.PolicyError, match="my own fault"):
        tabane.sweep(TWO, seeds=[1, 2], set=long, jobs=2, progress=False, cache=False)
    assert AskedOn.after < 5000


def test_a_name_with_a_dot_is_reached_with_quotes() -> None:
    dotted = tabane.Scenario(
        duration="20s",
        link={"a.b": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps"}},
        path={
            name: {"links": [link], "from": "client", "to": "s.1"}
            for name, link in (("p", "a.b"), ("q", "lte"))
        },
        flow=[{"bulk": "1MB", "from": "client", "to": "s.1"}],
    )
    key = 'link."a.b".rate'
    slow = tabane.run(dotted, set={key: "1Mbps"}, watch=False)
    assert slow.ended_s > tabane.run(dotted, watch=False).ended_s
    assert slow.ended_s == tabane.run(dotted, set={"link.'a.b'.rate": "1Mbps"}).ended_s
    swept = tabane.sweep(dotted, {key: ["1Mbps", "2Mbps"]}, progress=False, cache=False)
    assert swept.axes == {key: ["1Mbps", "2Mbps"]}
    with pytest.raises(tabane.ScenarioError, match=r'a name with a dot has quotes: link\."a\.b"'):
        tabane.run(dotted, set={"link.a.b.rate": "1Mbps"})
    env = gym.SchedulerEnv([dotted], host="s.1")
    env.reset(seed=1)


def test_an_error_of_a_file_has_number_and_name(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    result = tabane.run(TWO, watch=False)
    calls: tuple[Callable[[], object], ...] = (
        lambda: tabane.Scenario.read(path),
        lambda: tabane.read_pcap(path),
        lambda: result.pcap(path),
    )
    for call in calls:
        with pytest.raises(FileNotFoundError) as caught:
            call()
        error = caught.value
        assert (error.errno, error.filename) == (errno.ENOENT, str(path))
        assert error.strerror == os.strerror(errno.ENOENT)
    # What is no error of the system's has no number.
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(OSError, match="bytes: it is not text in UTF-8"):
        tabane.Scenario.read(tmp_path / "bytes")
