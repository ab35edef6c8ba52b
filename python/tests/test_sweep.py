"""Sweeps: what runs, what is kept, and how they go on after Ctrl-C."""

import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabane
from tabane import _fingerprint

TWO = tabane.Scenario(
    duration="10s",
    link={
        "wifi": {"rate": "30Mbps", "delay": "10ms", "loss": "0.5%"},
        "lte": {"rate": "10Mbps", "delay": "30ms"},
    },
    flow=[{"bulk": "2MB"}],
)
OVER = {"link.lte.delay": ["20ms", "80ms"], "defaults.scheduler": ["minrtt", "necf"]}


def test_a_sweep_has_each_point_with_each_seed(tmp_path: Path) -> None:
    swept = tabane.sweep(TWO, OVER, seeds=range(3), progress=False, cache=tmp_path)
    assert len(swept) == 12
    flows = swept.flows
    assert len(flows) == 12
    assert list(flows)[:3] == [*sorted(OVER, reverse=True), "seed"]
    for row in list(flows.rows())[::5]:
        values = {key: row[key] for key in OVER}
        alone = tabane.run(TWO, seed=int(row["seed"]), set=values, watch=False)
        assert alone.flows["goodput_bps"][0] == row["goodput_bps"]
    assert len(swept.paths) == 24
    assert len(swept.pandas()) == len(swept.polars()) == 12


def test_estimates_are_means_with_their_interval(tmp_path: Path) -> None:
    swept = tabane.sweep(TWO, OVER, seeds=range(5), progress=False, cache=tmp_path)
    table = swept.estimates("goodput_bps")
    assert list(table["runs"]) == [5] * 4
    first = next(table.rows())
    same = swept.flows.where(**{key: first[key] for key in OVER})["goodput_bps"]
    assert first["mean"] == pytest.approx(same.mean())
    # Student's t for four degrees of freedom.
    half = 2.776 * same.std(ddof=1) / np.sqrt(5)
    assert first["high"] - first["mean"] == pytest.approx(half, rel=1e-3)


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    before = tabane.sweep(TWO, OVER, seeds=range(2), progress=False, cache=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(files) == 8
    again = tabane.sweep(TWO, OVER, seeds=range(3), progress=False, cache=tmp_path)
    now = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(now) == 12 and all(now[path] == time for path, time in files.items())
    same = again.flows["seed"] < 2
    assert np.array_equal(again.flows["bytes"][same], before.flows["bytes"])
    assert np.array_equal(again.flows["completed_s"][same], before.flows["completed_s"])


def test_after_ctrl_c_the_same_call_goes_on(tmp_path: Path) -> None:
    program = f"""
import tabane
scenario = tabane.Scenario.parse({TWO.toml!r})
large = {{"flow.0.bulk": "20MB"}}
swept = tabane.sweep(scenario, seeds=range(200), set=large, cache={str(tmp_path)!r})
print(len(swept.flows))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.rglob("*.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < 5
    assert "KeyboardInterrupt" in errors
    kept = len(list(tmp_path.rglob("*.json")))
    assert 5 <= kept < 200
    again = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert again.stdout == "200\n", again.stderr
    assert len(list(tmp_path.rglob("*.json"))) == 200


def test_a_point_that_is_wrong_runs_nothing(tmp_path: Path) -> None:
    with pytest.raises(tabane.ScenarioError, match="unknown scheduler 'minrt'"):
        tabane.sweep(TWO, {"defaults.scheduler": ["necf", "minrt"]}, cache=tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


def window_of(segments: int) -> type[tabane.CongestionController]:
    class Window(tabane.CongestionController):
        def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
            self.cwnd = segments * ack.mss

        def on_congestion(
            self, event: tabane.Congestion, siblings: list[tabane.SubflowView]
        ) -> None:
            pass

    return Window


def kept(folder: Path, policy: type[tabane.CongestionController]) -> int:
    """How many results there are after a sweep with a policy."""
    tabane.register("kept")(policy)
    over = {"defaults.congestion": ["kept"]}
    tabane.sweep(TWO, over, seeds=[1], progress=False, cache=folder)
    return len(list(folder.rglob("*.json")))


SEGMENTS = 4
TABLE = {"a": [1, 2.5, "x"], "b": (np.arange(3), frozenset({"p", "q"}), None, math.pi)}


def segments(of: int = 1) -> int:
    return (lambda: SEGMENTS * of)()


class Base(tabane.CongestionController):
    def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
        self.cwnd = segments() * ack.mss + 0 * len(TABLE)


class Constant(Base):
    share = 0.5

    def on_congestion(self, event: tabane.Congestion, siblings: list[tabane.SubflowView]) -> None:
        self.cwnd = self.share * self.cwnd


def test_a_policy_is_another_with_what_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept(tmp_path, window_of(4)) == kept(tmp_path, window_of(4)) == 1
    assert kept(tmp_path, window_of(5)) == 2
    assert kept(tmp_path, Constant) == kept(tmp_path, Constant) == 3
    monkeypatch.setattr(sys.modules[__name__], "SEGMENTS", 5)
    assert kept(tmp_path, Constant) == 4
    monkeypatch.setattr(Base, "on_ack", vars(window_of(9))["on_ack"])
    assert kept(tmp_path, Constant) == 5
    monkeypatch.setattr(Constant, "share", 0.25)
    assert kept(tmp_path, Constant) == 6
    monkeypatch.undo()
    assert kept(tmp_path, Constant) == 6
    monkeypatch.setitem(TABLE, "a", [1, 2.5, "y"])
    assert kept(tmp_path, Constant) == 7
    monkeypatch.setattr(segments, "__defaults__", (2,))
    assert kept(tmp_path, Constant) == 8


def test_what_cannot_be_told_from_another_is_not_kept_and_said_once(tmp_path: Path) -> None:
    class Random(Constant):
        def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
            self.cwnd = CHANCE.randint(4, 8) * ack.mss

    class Counts(Constant):
        asked = 0

        def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
            type(self).asked += 1

    for policy, why in ((Random, "CHANCE is of type Random"), (Counts, "runs change what")):
        with pytest.warns(UserWarning, match=f"'kept' are not kept: {why}.*`version = ") as told:
            assert kept(tmp_path, policy) == 0
        assert len(told) == 1 and told[0].filename == __file__
        policy.version = "1"
    assert kept(tmp_path, Random) == kept(tmp_path, Random) == 1
    Random.version = "2"
    assert kept(tmp_path, Random) == 2


CHANCE = random.Random(1)


def test_a_thread_of_a_sweep_stays_the_same_for_its_policies() -> None:
    own = threading.local()
    most = 0

    class Counts(tabane.Scheduler):
        def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int | None:
            nonlocal most
            own.asked = getattr(own, "asked", 0) + 1
            most = max(most, own.asked)
            return next((s.id for s in subflows if s.usable and s.sendable > 0), None)

    over = {"defaults.scheduler": [Counts]}
    tabane.sweep(TWO, over, seeds=[1, 2], jobs=1, progress=False, cache=False)
    assert most > 1000


def test_seeds_take_the_place_of_those_of_the_scenario() -> None:
    many = tabane.Scenario(**{**(TWO._keys or {}), "seed": [1, 2, 3, 4]})
    swept = tabane.sweep(many, seeds=[5, 6], progress=False, cache=False)
    assert list(swept.flows["seed"]) == [5, 6] and "seed" not in swept.axes
    same = tabane.sweep(TWO, seeds=[5, 6], progress=False, cache=False)
    assert repr(swept.estimates()) == repr(same.estimates())
    own = tabane.sweep(many, progress=False, cache=False)
    assert list(own.flows["seed"]) == [1, 2, 3, 4] and list(own.estimates()["runs"]) == [4]
    assert len(tabane.sweep(TWO, seeds=[], progress=False, cache=False)) == 0


def test_what_is_there_twice_is_refused(tmp_path: Path) -> None:
    for over, seeds, message in (
        ({}, [1, 2, 1], "seeds: 1 is there 2 times"),
        ({"seed": [3, 3]}, None, "seed: 3 is there 2 times"),
        ({"link.lte.delay": ["20ms", "20ms"]}, [1], r"link\.lte\.delay: 20ms is there 2 times"),
        ({"seed": [1, 2]}, [3], "seed: in `over` and as `seeds`"),
    ):
        with pytest.raises(tabane.ScenarioError, match=message):
            tabane.sweep(TWO, over, seeds=seeds, progress=False, cache=tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


def test_a_file_of_ones_own_is_not_taken_for_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [_fingerprint._version(name) for name in ("sys", "json")] == ["of this program"] * 2
    own = types.ModuleType("sched")
    own.__file__ = str(tmp_path / "sched.py")
    monkeypatch.setitem(sys.modules, "sched", own)
    assert _fingerprint._version("sched") is None


def test_an_executor_that_is_none_is_refused() -> None:
    executor: Any = "processes"
    with pytest.raises(ValueError, match="no executor 'processes'; executors are: threads, ray"):
        tabane.sweep(TWO, seeds=[1], executor=executor, progress=False, cache=False)


def test_a_kept_result_that_is_cut_off_is_named(tmp_path: Path) -> None:
    tabane.sweep(TWO, seeds=[1], progress=False, cache=tmp_path)
    (file,) = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:100])
    with pytest.raises(tabane.RunError, match=rf"^{re.escape(str(file))}: .*: delete the file$"):
        tabane.sweep(TWO, seeds=[1], progress=False, cache=tmp_path)
